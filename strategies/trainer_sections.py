"""`spec.trainer` of a TrainJob: made to exist, and its process count pinned where Trainer would count wrong.

Both are written on the TrainJob at CREATE, so that Trainer itself writes the right env and nothing on the JobSet has to
be overwritten. Shared by every strategy of the torch family.
"""

from __future__ import annotations

from strategies import devices, topologies
from strategies.changes import Changes
from strategies.documents.pods import ResourceRequirements
from strategies.findings import warning
from strategies.jobs import Job
from strategies.paths import Absent

__all__ = ["ensure", "pin_processes"]

_FIELD = "spec.trainer.numProcPerNode"


def ensure(job: Job, changes: Changes, rule: str) -> None:
    """Add `spec.trainer: {}` when it is missing: without it Trainer v2.3.0 injects no PET_* (kubeflow/trainer#4076)."""
    if job.kind != "TrainJob" or job.runtime is None or not job.runtime.is_torch:
        return
    if isinstance(changes.get("spec", "trainer"), Absent) or changes.get("spec", "trainer") is None:
        reason = "without spec.trainer, Trainer sets no PET_* env and every node trains alone"
        changes.set(("spec", "trainer"), {}, rule=f"{rule}/default-trainer", reason=reason)


def pin_processes(job: Job, changes: Changes, rule: str) -> None:
    """Set `numProcPerNode` where Trainer would start another number of processes than there are devices."""
    if job.kind != "TrainJob" or job.runtime is None or not job.runtime.is_torch:
        return
    if job.trainer.get("numProcPerNode") is not None:
        return
    topology, counted = topologies.of(job), topologies.trainer_processes(job)
    if topology.processes is None:
        message = "the claim's number of devices is not known, so Trainer would start one process per CPU; set it"
        changes.report(warning(_FIELD, None, message, rule=f"{rule}/processes"))
        return
    reason = _why_wrong(job, topology, counted)
    if reason:
        changes.set(("spec", "trainer", "numProcPerNode"), topology.processes, rule=f"{rule}/processes", reason=reason)


def _why_wrong(job: Job, topology: topologies.Topology, counted: int | str) -> str | None:
    if topology.devices.kind == "gpu" and counted == topologies.AUTO:
        several = devices.ambiguous(_effective(job))
        return f"Trainer would count whichever of {', '.join(several)} it meets first" if several else None
    if counted == topology.processes:
        return None
    whose = {
        "gpu": "Trainer looks at resourcesPerNode alone, but the pods keep the runtime's GPUs",
        "mig": "Trainer does not count MIG slices",
        "claim": "Trainer does not count devices of a ResourceClaim",
        "none": "Trainer looks at resourcesPerNode alone, but the pods keep the runtime's CPUs",
    }[topology.devices.kind]
    return f"{whose}: it would start {counted} processes per node for {topology.processes}"


def _effective(job: Job) -> ResourceRequirements:
    override = job.trainer.get("resourcesPerNode")
    if override is not None:
        return override
    place = job.container
    return (place.container.get("resources") or {}) if place else {}
