"""Topology: nodes, processes per node, world size; and what Trainer would make of the same job.

`of` says what the job means: explicit numbers first, then devices, then Trainer's CPU rule. `trainer_processes` copies
Trainer's own counting (torch plugin, v2.3.0), so that the difference can be pinned on the TrainJob and Trainer itself
writes the right PET_NPROC_PER_NODE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strategies.claims import outlooks
from strategies.documents import names, pods
from strategies.jobs.jobs import Job
from strategies.launches.launches import Launch, Launcher
from strategies.platform import devices

__all__ = ["AUTO", "Topology", "launched", "pods_of", "read_topology", "trainer_processes"]

AUTO = "auto"
"""What Trainer writes when it found GPUs: torchrun then starts one process per visible device."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The processes of one job.

    Attributes:
        nodes: pods of the training job.
        processes: per node; None when it cannot be known at admission.
        devices: what each node has.
        explicit: whether the number of processes was written by a person.
        elastic: whether the number of nodes is decided at run time: it is a range, or an env's that only the pod knows.
    """

    nodes: int
    processes: int | None
    devices: devices.Devices
    explicit: bool = False
    elastic: bool = False

    @property
    def world_size(self) -> int | None:
        """Ranks in all, None when unknown or elastic."""
        return None if self.processes is None or self.elastic else self.nodes * self.processes

    @property
    def is_distributed(self) -> bool:
        """Whether more than one process has to meet; an unknown count is taken for several."""
        return self.nodes > 1 or self.processes is None or self.processes > 1

    @property
    def size(self) -> str:
        """`2 nodes x 4 processes`, for reasons and messages."""
        processes = "a number of" if self.processes is None else str(self.processes)
        plural = "es" if self.processes != 1 else ""
        return f"{self.nodes} node{'s' if self.nodes != 1 else ''} x {processes} process{plural}"

    @property
    def on_cpu(self) -> bool:
        """Whether no device was asked for at all."""
        return self.devices.kind == "none"


def read_topology(job: Job) -> Topology:
    """Return the topology that the job's documents mean, before any flag of its launcher."""
    return _of_trainjob(job) if job.kind == "TrainJob" else _of_jobset(job)


def launched(topology: Topology, launch: Launch) -> Topology:
    """Return the topology that the flags of torchrun or `tune run` make of it: they win over every env."""
    if launch.launcher is Launcher.TUNE and not launch.options:
        return Topology(1, 1, topology.devices)  # tune starts one process, and no torchrun, unless it finds an option
    if launch.launcher not in (Launcher.TORCHRUN, Launcher.TUNE):
        return topology
    nodes, elastic = _nodes(launch.values.get("nnodes", ""), topology)
    if "standalone" in launch.values:
        nodes, elastic = 1, False
    per_node = launch.values.get("nproc_per_node", "")
    processes = _processes(per_node, topology.devices) if per_node else topology.processes
    return Topology(nodes, processes, topology.devices, topology.explicit or per_node.isdecimal(), elastic)


def _nodes(written: str, otherwise: Topology) -> tuple[int, bool]:
    low, colon, high = written.partition(":")
    if low.isdecimal() and (high.isdecimal() or not colon):
        return int(high or low), bool(colon) and low != high
    return otherwise.nodes, otherwise.elastic or bool(written)


def _processes(written: str, found: devices.Devices) -> int | None:
    """Return what torchrun makes of its `nproc_per_node`: a number, or the devices that it finds at run time."""
    if written.isdecimal():
        return int(written)
    return found.count or None if written in ("auto", "gpu") else None


def pods_of(job: Job) -> int:
    """Return the pods of the training job, whatever their launch says of nodes."""
    if job.kind == "TrainJob":
        written, policy = job.trainer.get("numNodes"), job.runtime.ml_policy if job.runtime else {}
        return (policy.get("numNodes") or 1) if written is None else written
    return _pods(job.container.job) if job.container else 1


def _pods(replicated: pods.Document) -> int:
    spec = (replicated.get("template") or {}).get("spec") or {}
    return (replicated.get("replicas") or 1) * (spec.get("parallelism") or 1)


def trainer_processes(job: Job) -> int | str:
    """Return what Trainer writes into PET_NPROC_PER_NODE for this TrainJob: a number, or `AUTO`."""
    trainer = job.trainer
    explicit = trainer.get("numProcPerNode")
    if explicit is not None:
        return explicit
    resources = trainer.get("resourcesPerNode")
    if resources is None:
        place = job.container
        resources = (place.container.get("resources") or {}) if place else {}
    return AUTO if devices.counted_by_trainer(resources) else devices.cpus(resources)


def _of_trainjob(job: Job) -> Topology:
    trainer, place = job.trainer, job.container
    resources: pods.ResourceRequirements = (place.container.get("resources") or {}) if place else {}
    merged = devices.merge(resources, trainer.get("resourcesPerNode"))
    claims = (place.pod_spec.get("resourceClaims") or ()) if place else ()
    found = outlooks.devices_of(job, merged, claims)
    nodes = pods_of(job)
    explicit = trainer.get("numProcPerNode")
    if explicit is not None:
        return Topology(nodes, explicit, found, explicit=True)
    return Topology(nodes, devices.cpus(merged) if found.count == 0 else found.count, found)


def _of_jobset(job: Job) -> Topology:
    place = job.container
    if place is None:
        return Topology(1, 1, devices.Devices(0, "none"))
    env = place.container.get("env")
    resources = place.container.get("resources") or {}
    found = outlooks.devices_of(job, resources, place.pod_spec.get("resourceClaims") or ())
    counted = Topology(_pods(place.job), 1, found)
    nodes, elastic = _nodes(_written(env, names.PET_NNODES), counted)
    per_node = _written(env, names.PET_NPROC_PER_NODE)
    if per_node:
        return Topology(nodes, _processes(per_node, found), found, per_node.isdecimal(), elastic)
    return Topology(nodes, 1 if found.count == 0 else found.count, found, elastic=elastic)


def _written(env: Sequence[pods.EnvVar] | None, name: str) -> str:
    """Return the text of an env, "" without one; a reference is some text that admission cannot see."""
    entry = pods.find_env(env, name)
    return "" if entry is None else str(entry.get("value", entry.get("valueFrom", "")))
