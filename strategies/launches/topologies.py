"""Topology: nodes, processes per node, world size; and what Trainer would count for the same job.

`read_topology` returns what the job means: explicit numbers first, then devices, then Trainer's CPU rule.
`trainer_processes` returns what Trainer would count, so that a different number can be pinned on the TrainJob and
Trainer itself writes the right PET_NPROC_PER_NODE.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from muster.strategies.claims import plans
from muster.strategies.documents import model, names, pods, quantities
from muster.strategies.jobs.jobs import Job, once, once_for_all, once_for_part
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.platform import devices
from muster.strategies.trainer import ml_policies, resources

__all__ = [
    "Topology",
    "claims_of",
    "hiding",
    "is_uneven",
    "launched",
    "own_devices",
    "pods_of",
    "pods_of_parts",
    "pods_of_replicated_job",
    "read_topology",
    "sees_others",
    "take_turns",
    "trainer_gpus",
    "trainer_processes",
    "visible",
]


class Topology(Struct, frozen=True):
    """The processes of one job.

    Attributes:
        nodes: pods of the training job.
        processes: processes per node; None when the number cannot be known at admission.
        devices: devices of each node.
        explicit: whether the number of processes is written in the job.
        elastic: whether the number of nodes is decided at run time: it is a range, or env that only the pod can read.
        uneven: whether the nodes do not all have as many devices, so that `processes` is that of some of them.
    """

    nodes: int
    processes: int | None
    devices: devices.Devices
    explicit: bool = False
    elastic: bool = False
    uneven: bool = False

    @property
    def world_size(self) -> int | None:
        """Number of ranks, None when unknown or elastic."""
        return None if self.processes is None or self.elastic or self.uneven else self.nodes * self.processes

    @property
    def is_distributed(self) -> bool:
        """Whether several processes have to meet; an unknown number counts as several."""
        return self.nodes > 1 or self.processes is None or self.processes > 1

    @property
    def size(self) -> str:
        """`2 nodes x 4 processes`, for reasons and messages."""
        processes = "an unknown number of" if self.processes is None else str(self.processes)
        plural = "es" if self.processes != 1 else ""
        return f"{self.nodes} node{'s' if self.nodes != 1 else ''} x {processes} process{plural}"

    @property
    def on_cpu(self) -> bool:
        """Whether no device was asked for."""
        return self.devices.kind == "none"


@once
def read_topology(job: Job) -> Topology:
    """Return the topology that the job's documents mean, without the flags of its launcher."""
    return _of_trainjob(job) if job.kind == "TrainJob" else _of_jobset(job)


def launched(topology: Topology, launch: Launch) -> Topology:
    """Return the topology with the flags of torchrun or `tune run` applied, which win over every env."""
    if launch.launcher is Launcher.TUNE and not launch.options:
        return Topology(1, 1, topology.devices)  # tune starts one process, and no torchrun, unless it finds an option
    if launch.launcher not in (Launcher.TORCHRUN, Launcher.TUNE):
        return topology
    nodes, elastic = _nodes(launch.values.get("nnodes", ""), topology)
    if "standalone" in launch.values:
        nodes, elastic = 1, False
    per_node = launch.values.get("nproc_per_node", "")
    processes = _processes(per_node, topology.devices) if per_node else topology.processes
    explicit = topology.explicit or per_node.isdecimal()
    return Topology(nodes, processes, topology.devices, explicit, elastic, topology.uneven)


def _nodes(written: str, otherwise: Topology) -> tuple[int, bool]:
    low, colon, high = written.partition(":")
    least, most = quantities.whole(low), quantities.whole(high if colon else low)
    if least is not None and most is not None:
        return most, least != most
    return otherwise.nodes, otherwise.elastic or bool(written)


def _processes(written: str, found: devices.Devices) -> int | None:
    """Return the processes that torchrun starts for `nproc_per_node`: a number, or one for each device it finds."""
    if (number := quantities.whole(written)) is not None:
        return number
    return found.count or None if written in ("auto", "gpu") else None


def visible(count: int | None, env: Mapping[str, str | None], *, others: bool = False, maker: str = "") -> int | None:
    """Return how many of a container's devices its programs see, None where that is not known.

    CUDA numbers the devices of the container from 0, whatever their numbers on the machine are, and an index that does
    not exist hides itself and all behind it (CUDA C++ programming guide, CUDA_VISIBLE_DEVICES).

    Args:
        count: devices of the container, None when unknown.
        env: its env, of which CUDA_VISIBLE_DEVICES leaves a part; None for a value that cannot be read.
        others: whether it sees devices that it did not ask for, so that an index may be one of those.
        maker: the domain of the devices' maker, whose own variables hide devices as well.
    """
    for name in _OF_MAKERS.get(maker, ()):
        count = _left(count, env, name, others=others) if name in env else count
    return _left(count, env, "CUDA_VISIBLE_DEVICES", others=others)


_OF_MAKERS = {
    "amd.com": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    "huawei.com": ("ASCEND_RT_VISIBLE_DEVICES",),
}
"""Variables that hide devices, outermost first (ROCm documentation, GPU isolation techniques; CANN documentation)."""


def hiding(maker: str) -> str:
    """Return the variable that hides devices of a maker, for messages."""
    return _OF_MAKERS[maker][-1] if maker in _OF_MAKERS else "CUDA_VISIBLE_DEVICES"


def _left(count: int | None, env: Mapping[str, str | None], name: str, *, others: bool) -> int | None:
    if count is None or name not in env:
        return count
    chosen = env[name]
    if chosen is None or "$" in chosen:
        return None
    entries = [each.strip() for each in chosen.split(",")]
    if others or env.get(names.SHOWN_DEVICES, "void") != "void":
        return min(count, len([each for each in entries if each not in ("", "-1")]))
    return min(count, len(list(itertools.takewhile(lambda each: _exists(each, count), entries))))


def _exists(entry: str, count: int) -> bool:
    """Whether an entry is the index of one of `count` devices, or a UUID, which may be one of theirs."""
    index = quantities.whole(entry)
    return index < count if index is not None else entry.startswith(("GPU-", "MIG-"))


def sees_others(container: model.Container) -> bool:
    """Whether a container sees devices that it did not ask for (NVIDIA container toolkit)."""
    return container.is_privileged or container.find_env(names.SHOWN_DEVICES) is not None


@once
def pods_of(job: Job) -> int:
    """Return the number of pods that train at once, whatever number of nodes their launch names."""
    if job.kind == "TrainJob":
        written, policy = job.trainer.num_nodes, job.runtime.policy if job.runtime else model.MLPolicy()
        return (policy.num_nodes or 1) if written is None else written
    return max(1, sum(pods_of_parts(job) if len(job.world) > 1 else map(_pods, job.world)))


def pods_of_replicated_job(job: Job, replicated: model.ReplicatedJob) -> int:
    """Return the pods of a replicated job that exist at once; those of a TrainJob are as many as Trainer makes."""
    if job.kind == "TrainJob":
        return ml_policies.count(job.runtime.policy if job.runtime else model.MLPolicy(), replicated, job.trainer)
    return replicated.jobs * replicated.at_once


@once_for_all
def pods_of_parts(job: Job) -> tuple[int, ...]:
    """Return the same for each part of a training of several."""
    return tuple(map(_pods, job.world))


def _pods(place: pods.Place) -> int:
    return place.job.jobs * place.job.at_once


def take_turns(job: Job) -> bool:
    """Whether some pods of the training start only when others of the same Job have ended."""
    return any(place.job.takes_turns for place in job.world)


def trainer_processes(job: Job) -> int | str:
    """Return what Trainer writes into PET_NPROC_PER_NODE for this TrainJob: a number, or `AUTO`."""
    counted = resources.count_processes(job.trainer, _resources(job), job.runtime)
    if counted != resources.AUTO or job.trainer.num_proc_per_node is not None or not claims_of(job):
        return counted
    return counted if devices.gpus(_asked(job)) or _claimed_gpus(job) else resources.count_cpus(_asked(job))


def claims_of(job: Job) -> tuple[model.PodClaim, ...]:
    """Return `resourceClaimsPerNode` of a TrainJob: entries of each training pod's `resourceClaims`."""
    return job.trainer.resource_claims_per_node if job.kind == "TrainJob" else ()


def _claimed_gpus(job: Job) -> bool:
    """Whether Trainer counts GPUs in the first claim: in exact requests whose name has "gpu" (KEP-2782)."""
    claim = claims_of(job)[0].resource_claim_template_name
    if job.claim_devices.get(claim) is None:
        return True  # nobody knows, and torchrun counts what it sees
    start = devices.request_key(claim, "")
    every = ((key, count) for key, count in job.claim_devices.items() if key.startswith(start))
    return any(count and "gpu" in key.removeprefix(start) for key, count in every)


def _asked(job: Job) -> model.Resources:
    override = job.trainer.resources_per_node
    return _resources(job) if override is None else override


def trainer_gpus(job: Job) -> int:
    """Return the GPUs that Trainer counts for a recipe; whole GPUs where several resource names match."""
    asked = _asked(job)
    return devices.gpus(asked) or resources.count_gpus(asked)


def _of_trainjob(job: Job) -> Topology:
    merged = resources.merge_resources(_resources(job), job.trainer.resources_per_node, job.runtime)
    if own := claims_of(job):
        used = (model.ResourceClaimUse(name=each.name) for each in own)
        merged = msgspec.structs.replace(merged, claims=(*merged.claims, *used))
    found = _devices_of(job, merged, (*_pod_claims(job), *claims_of(job)))
    nodes, explicit = pods_of(job), job.trainer.num_proc_per_node
    if type(explicit) is int:
        return Topology(nodes, explicit, found, explicit=True)
    return Topology(nodes, resources.count_cpus(merged) if found.count == 0 else found.count, found)


def _resources(job: Job) -> model.Resources:
    return job.container.container.resources if job.container else model.Resources()


def _pod_claims(job: Job) -> tuple[model.PodClaim, ...]:
    return job.container.pod.resource_claims if job.container else ()


def _of_jobset(job: Job) -> Topology:
    place = job.container
    if place is None:
        return Topology(1, 1, devices.Devices(0, "none"))
    found = _of_pod(job)
    counted, uneven = Topology(pods_of(job), 1, found), is_uneven(job)
    written, per_node = _counts(place)
    nodes, elastic = _nodes(written, counted)
    if per_node:
        return Topology(nodes, _processes(per_node, found), found, per_node.isdecimal(), elastic, uneven)
    return Topology(nodes, 1 if found.count == 0 else found.count, found, elastic=elastic, uneven=uneven)


@once_for_part
def _of_pod(job: Job) -> devices.Devices:
    return _devices_of(job, _resources(job), _pod_claims(job))


def is_uneven(job: Job) -> bool:
    """Whether the replicated jobs of one training differ in the devices of their pods."""
    return len(job.world) > 1 and _differ(job)


@once_for_all
def _differ(job: Job) -> bool:
    return len(set(map(_own_devices, job.views))) > 1


@once_for_part
def _own_devices(job: Job) -> devices.Devices | None:
    return own_devices(job, job.container) if job.container else None


def own_devices(job: Job, place: pods.Place) -> devices.Devices:
    """Return the devices that a container asks for itself, as the documents are, without claims that are planned."""
    return devices.seen(place.container.resources, place.pod.resource_claims, job.claim_devices)


def _devices_of(job: Job, asked: model.Resources, pod_claims: Sequence[model.PodClaim]) -> devices.Devices:
    """Count the devices that the training container will have once its claims are written.

    Processes are counted before claims are written, and a TrainJob never holds claims, so the plan is read instead.

    Args:
        job: the job; its plan counts.
        asked: resources of the container, as in the documents.
        pod_claims: claims of the pod, as in the documents.
    """
    plan = plans.training(job)
    place = job.container if plan else None
    if plan is None or place is None or not plan.uses:
        found = devices.seen(asked, pod_claims, job.claim_devices)
        if plan is not None and place is not None and found.kind == "none":
            return devices.Devices(None, "claim")  # the job asks for a claim, but the request has an error
        return found
    known = dict(job.claim_devices)
    entries, used = {each.name: each for each in pod_claims}, list(asked.claims)
    for use in plan.uses:
        entry = use.entry
        known[entry.source[1]] = use.devices
        entries.setdefault(entry.name, entry)
        if place.path in use.containers and all(each.name != entry.name for each in used):
            used.append(model.ResourceClaimUse(name=entry.name))
    gone = {name for path, name in plan.swapped if path == place.path}
    limits, requests = (
        {name: amount for name, amount in amounts.items() if name not in gone}
        for amounts in (asked.limits, asked.requests)
    )
    return devices.seen(model.Resources(limits, requests, tuple(used)), tuple(entries.values()), known)


def _counts(place: pods.Place) -> tuple[str, str]:
    """Return the texts of PET_NNODES and PET_NPROC_PER_NODE, "" for one that is missing."""
    nodes, per_node = (place.container.find_env(name) for name in (names.PET_NNODES, names.PET_NPROC_PER_NODE))
    return _written(nodes), _written(per_node)


def _written(entry: model.EnvVar | None) -> str:
    """Return the text of an env variable, "" when it is missing; for a reference, a text that is not a number."""
    return "" if entry is None else entry.value or str(entry.value_from or "")
