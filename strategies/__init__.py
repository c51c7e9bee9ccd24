"""The domain: what Muster knows of frameworks, as pure functions over raw TrainJob and JobSet documents.

Nothing in this package does I/O or imports an HTTP, Kubernetes or machine-learning library. To add a framework, read
`protocols`, then the smallest example (`default`) and a full one (`trl`); out of tree, start from `examples/`.

The names below are the public face for plugin authors.
"""

from __future__ import annotations

from strategies.changes.changes import Change, Changes
from strategies.documents.findings import Finding, Severity, error, warning
from strategies.documents.runtimes import Runtime
from strategies.jobs.jobs import Job, Settings
from strategies.plugins.protocols import FrameworkStrategy
from strategies.plugins.registry import PluginError, PluginImportError, Registered, Registry, strategy

__all__ = [
    "Change",
    "Changes",
    "Finding",
    "FrameworkStrategy",
    "Job",
    "PluginError",
    "PluginImportError",
    "Registered",
    "Registry",
    "Runtime",
    "Settings",
    "Severity",
    "error",
    "strategy",
    "warning",
]
