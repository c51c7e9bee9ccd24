"""The domain: what Muster knows about frameworks, as pure functions over TrainJobs and JobSets.

Nothing in this package does I/O or imports an HTTP, Kubernetes or machine-learning library. To add a framework, read
`plugins/registry.py`, then the smallest example (`frameworks/default`) and a full one (`frameworks/trl`); out of tree,
start from `examples/`.

The names below are the whole public face for authors of strategies. Everything else may move between releases.

* To write a strategy: `FrameworkStrategy` is its shape; `TorchFamily` is the base
  of every framework on torch.distributed, and `enforce_claims` writes the claims for any other framework.
* What it reads: `Job` with its `Settings` and `Runtime`, whose members are typed values (`job.trainer.command`), beside
  the documents that they were read from (`job.raw_trainer`, `job.document`); `find_site` returns the `Site` of the
  command line that will run, and `read_topology` returns the `Topology`: the nodes and processes that the job asks for.
* What it writes: `Changes`, each a `Change`; `error`, `warning` and `note` make a `Finding` of a `Severity`;
  `unenforced` notes a launch that was left as it is, and warns where it is known to start too little.
* What loads it: `Registry` holds each strategy as `Registered`; `PluginError` and `PluginImportError` say what failed.
"""

from __future__ import annotations

from muster.strategies.changes.changes import Change, Changes
from muster.strategies.claims.plans import enforce as enforce_claims
from muster.strategies.documents.findings import Finding, Severity, error, note, warning
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.frameworks.torch.torch_strategy import TorchFamily, unenforced
from muster.strategies.jobs.jobs import Job, Settings
from muster.strategies.launches.sites import Site, find_site
from muster.strategies.launches.topologies import Topology, read_topology
from muster.strategies.plugins.registry import FrameworkStrategy, PluginError, PluginImportError, Registered, Registry

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
    "Site",
    "Topology",
    "TorchFamily",
    "enforce_claims",
    "error",
    "find_site",
    "note",
    "read_topology",
    "unenforced",
    "warning",
]
