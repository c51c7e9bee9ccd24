"""Slots: the ranks of `mpirun` compared with the host file that Trainer writes for a runtime of MPI.

The file has a line for each node, with numProcPerNode slots (trainer v2.3.0 `plugins/mpi/mpi.go` EnforceMLPolicy,
buildHostFileConfigMap). Open MPI starts no more ranks than there are slots unless it is told to (mpirun(1)).
"""

from __future__ import annotations

from collections.abc import Iterator

from strategies.documents.findings import Finding, warning
from strategies.documents.quantities import whole
from strategies.jobs.jobs import Job
from strategies.launches import sites, topologies
from strategies.launches.launches import Launch, Launcher
from strategies.trainer import resources

__all__ = ["check"]

_OWN_HOSTS = frozenset({"hosts", "hostfile", "app", "oversubscribe", "map_by", "npernode", "rankfile"})


def check(job: Job) -> Iterator[Finding]:
    """Check the launches of a TrainJob whose runtime is one of MPI."""
    policy = job.runtime.ml_policy.get("mpi") if job.runtime is not None and job.kind == "TrainJob" else None
    site = sites.find_site(job) if isinstance(policy, dict) else None
    if site is None or not isinstance(policy, dict) or site.reading.unread:
        return
    hosts = topologies.pods_of(job)
    if policy.get("runLauncherAsNode"):
        hosts = max(hosts, 2)  # the launcher, and at least one node
    slots = hosts * _per_node(job, policy.get("numProcPerNode"))
    for launch in site.reading.launches:
        asked = _asked(launch)
        if asked is not None and asked > slots:
            message = f"the host file of Trainer has {slots} slots, and mpirun finds no place for the others; lower it"
            where = site.locate_option(launch, "np")
            yield warning(where, asked, message, rule="core/too-many-processes")


def _asked(launch: Launch) -> int | None:
    if launch.launcher is not Launcher.MPI or not launch.certain or _OWN_HOSTS & set(launch.values):
        return None
    return whole(launch.values.get("num_proc", ""))


def _per_node(job: Job, written: object) -> int:
    """Return the slots of one node: those of the job, else of the runtime, where 1 stands for the number of GPUs."""
    own = job.trainer.get("numProcPerNode")
    if own is not None:
        return own
    if type(written) is int and written != 1:
        return written
    inherited = (job.container.container.get("resources") or {}) if job.container is not None else {}
    override = job.trainer.get("resourcesPerNode")
    return resources.count_gpus(inherited if override is None else override) or 1
