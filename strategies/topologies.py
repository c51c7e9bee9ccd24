"""Topology: nodes, processes per node, world size; and what Trainer would make of the same job.

`of` says what the job means: explicit numbers first, then devices, then Trainer's CPU rule. `trainer_processes` copies
Trainer's own counting (torch plugin, v2.3.0), so that the difference can be pinned on the TrainJob and Trainer itself
writes the right PET_NPROC_PER_NODE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from strategies import devices, names
from strategies.documents import pods
from strategies.jobs import Job
from strategies.launches import Launch, Launcher

__all__ = ["AUTO", "Topology", "launched", "of", "trainer_processes"]

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
        elastic: whether the number of nodes is a range, so that the world size is decided at run time.
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
        return self.devices.count == 0


def of(job: Job) -> Topology:
    """Return the topology that the job's documents mean, before any flag of its launcher."""
    return _of_trainjob(job) if job.kind == "TrainJob" else _of_jobset(job)


def launched(topology: Topology, launch: Launch) -> Topology:
    """Return the topology that torchrun's own flags make of it: they win over every env."""
    if launch.launcher is not Launcher.TORCHRUN:
        return topology
    nodes, processes, elastic = topology.nodes, topology.processes, topology.elastic
    written = launch.values.get("nnodes", "")
    if re.fullmatch(r"\d+:\d+", written):
        low, high = written.split(":")
        nodes, elastic = int(high), low != high
    elif written.isdecimal():
        nodes = int(written)
    per_node = launch.values.get("nproc_per_node", "")
    if per_node.isdecimal():
        processes = int(per_node)
    return Topology(nodes, processes, topology.devices, topology.explicit or per_node.isdecimal(), elastic)


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
    found = devices.seen(merged, claims, job.claim_devices)
    policy = job.runtime.ml_policy if job.runtime else {}
    nodes = trainer.get("numNodes") or policy.get("numNodes") or 1
    explicit = trainer.get("numProcPerNode")
    if explicit is not None:
        return Topology(nodes, explicit, found, explicit=True)
    return Topology(nodes, devices.cpus(merged) if found.count == 0 else found.count, found)


def _of_jobset(job: Job) -> Topology:
    place = job.container
    if place is None:
        return Topology(1, 1, devices.Devices(0, "none"))
    env, spec = place.container.get("env"), place.job["template"]["spec"]
    resources = place.container.get("resources") or {}
    found = devices.seen(resources, place.pod_spec.get("resourceClaims") or (), job.claim_devices)
    nodes_text = pods.env_value(env, names.PET_NNODES)
    pods_wanted = spec.get("parallelism") or 1
    elastic = nodes_text is not None and ":" in nodes_text
    nodes = int(nodes_text) if nodes_text and nodes_text.isdecimal() else pods_wanted
    per_node = pods.env_value(env, names.PET_NPROC_PER_NODE)
    if per_node is not None and per_node.isdecimal():
        return Topology(nodes, int(per_node), found, explicit=True, elastic=elastic)
    processes = found.count if found.count != 0 else 1
    return Topology(nodes, processes, found, elastic=elastic)
