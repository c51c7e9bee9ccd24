"""`spec.trainer` of a TrainJob: added when missing, and its process count pinned where Trainer would count wrong.

Both are written on the TrainJob at CREATE, so that Trainer itself writes the right env and nothing on the JobSet has to
be overwritten. Every strategy of the torch family uses this.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import plans
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.documents.paths import Absent, field
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites, topologies
from muster.strategies.launches.launches import Launcher
from muster.strategies.trainer.resources import AUTO

__all__ = ["check_slices", "ensure", "pin", "pin_processes"]

_PATH = ("spec", "trainer", "numProcPerNode")
_FIELD = ".".join(_PATH)
_MOST = 2**31 - 1  # it is int32 in Trainer
_WHY = {
    "gpu": "Trainer reads only resourcesPerNode, but the pods keep the runtime's GPUs",
    "mig": "Trainer does not count MIG slices",
    "claim": "Trainer does not count devices of a ResourceClaim",
    "none": "Trainer reads only resourcesPerNode, but the pods keep the runtime's CPUs",
    "other": "Trainer counts only resources with gpu in their name",
}
_UNKNOWN = {
    "claim": "the claim's number of devices is not known",
    "other": "the number of devices behind the resources is not known",
}


def ensure(job: Job, changes: Changes, rule: str) -> None:
    """Add `spec.trainer: {}` when it is missing: without it Trainer injects no PET_* (kubeflow/trainer#4076)."""
    if not _is_torch(job):
        return
    if isinstance(changes.get("spec", "trainer"), Absent) or changes.get("spec", "trainer") is None:
        reason = "without spec.trainer, Trainer sets no PET_* env, and every node trains alone"
        changes.set(("spec", "trainer"), {}, rule=f"{rule}/default-trainer", reason=reason)


def pin(job: Job, changes: Changes, processes: int, *, rule: str, reason: str) -> None:
    """Set `numProcPerNode` of a TrainJob that has none and for which Trainer would count another number."""
    if not _is_torch(job) or job.trainer.num_proc_per_node is not None:
        return
    if processes > _MOST:
        message = f"{processes} processes are more than this field can hold, so it was not set; ask for fewer devices"
        changes.report(warning(_FIELD, None, message, rule=f"{rule}/processes"))
    elif topologies.trainer_processes(job) != processes:
        changes.set(_PATH, processes, rule=f"{rule}/processes", reason=reason)


def pin_processes(job: Job, changes: Changes, rule: str) -> None:
    """Set `numProcPerNode` where the number of processes that Trainer would start differs from that of the devices.

    Where Trainer writes `auto`, torchrun counts the devices that it sees, which is right.
    """
    if not _is_torch(job) or job.trainer.num_proc_per_node is not None:
        return
    topology, counted = topologies.read_topology(job), topologies.trainer_processes(job)
    override = job.trainer.resources_per_node
    uncounted = override is not None and not override.requests and bool(override.limits or override.claims)
    if job.runtime is not None and not job.runtime.version.counts_runtime and uncounted:
        message = f"{job.runtime.version} starts one process on each node where this has no requests; write them too"
        changes.report(warning("spec.trainer.resourcesPerNode", None, message, rule=f"{rule}/processes"))
        return
    kind = topology.devices.kind
    plan = plans.training(job) if kind == "claim" else None
    if counted == AUTO and (plan is None or topology.processes is None):
        return
    if topology.processes is None:
        if _counts_itself(job):
            return
        message = f"{_UNKNOWN[kind]}, so Trainer would start one process per CPU ({counted}); set this field"
        changes.report(warning(_FIELD, None, message, rule=f"{rule}/processes"))
        return
    if topology.devices.idle:
        message = (
            f"a pod can use one MIG slice, and {topology.devices.idle} would be idle; ask for one per node and raise "
            "numNodes"
        )
        changes.report(warning(_FIELD, None, message, rule=f"{rule}/mig"))
    processes = min(topology.processes, _visible(job, topology) or topology.processes)
    reason = f"{_WHY[kind]}: it would start {counted} processes per node instead of {processes}"
    if plan is not None:
        told = f"{plan.told} gives each node {topology.devices.count} devices"
        reason = f"{told}; Trainer does not count them and would start {counted} processes per node"
    pin(job, changes, processes, rule=rule, reason=reason)


def _visible(job: Job, topology: topologies.Topology) -> int | None:
    """Return how many devices of each node its programs see; None where that is not known."""
    site, place, devices = sites.find_site(job), job.container, topology.devices
    others = place is not None and topologies.sees_others(place.container)
    return topologies.visible(devices.count, site.values if site else {}, others=others, maker=devices.maker)


def _counts_itself(job: Job) -> bool:
    """Whether the launch has a number of its own, or is a plain program, which reads no PET_*."""
    site = sites.find_site(job)
    launch = site.reading.visible if site else None
    return launch is not None and (launch.launcher is Launcher.PYTHON or "nproc_per_node" in launch.values)


def check_slices(job: Job, rule: str) -> Iterator[Finding]:
    """Warn about MIG slices that no process of this part of a JobSet reaches; see `pin_processes`."""
    place, site = job.container, sites.find_site(job)
    if job.kind != "JobSet" or job.owner is not None or place is None or site is None:
        return
    idle = topologies.read_topology(job).devices.idle
    every = (*site.reading.launches, *site.reading.beside)
    if idle and not any("CUDA_VISIBLE_DEVICES" in launch.env for launch in every):  # each program chooses its slice
        message = (
            f"a pod can use one MIG slice, and {idle} would be idle; ask for one per pod and raise the number of pods"
        )
        yield warning(f"{field(job.document, place.path)}.resources", None, message, rule=f"{rule}/mig")


def _is_torch(job: Job) -> bool:
    return job.kind == "TrainJob" and job.runtime is not None and job.runtime.is_torch
