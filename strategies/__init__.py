"""The domain: what Muster knows of frameworks, as pure functions over raw TrainJob and JobSet documents.

Nothing in this package does I/O or imports an HTTP, Kubernetes or machine-learning library. To add a framework, read
`protocols`, then the smallest example (`default`) and a full one (`trl`); out of tree, start from `examples/`.

The names below are the public face for plugin authors.
"""

from __future__ import annotations

from strategies.changes import Change, Changes
from strategies.documents.runtimes import Runtime
from strategies.findings import Finding, Severity, error, warning
from strategies.jobs import Job, Settings
from strategies.protocols import FrameworkStrategy
from strategies.registry import PluginError, PluginImportError, Registered, Registry, strategy

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
