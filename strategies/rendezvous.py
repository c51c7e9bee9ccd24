"""The rendezvous: env with which every launcher of the torch family finds its peers.

Only additions are made on the JobSet, so that Trainer's later server-side applies keep them (facts: an overwritten env
wedges suspend and resume). A value that the user set wins and is reported.

Two kinds. *static*: the node rank is the pod's completion index, as Trainer's PET_* say. *c10d*: torchrun's own store on
the coordinator hands out the ranks, members may leave and come back; the index then says nothing about the rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strategies import coordinators, launches, names, paths, topologies
from strategies.changes import Changes
from strategies.documents import pods
from strategies.documents.pods import EnvVar
from strategies.findings import warning
from strategies.jobs import Job, Rendezvous
from strategies.launches import Launch, Launcher

__all__ = ["Choice", "choose", "enforce"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which kind of rendezvous, and what decided it (for the reason of each change)."""

    kind: Rendezvous
    because: str


def choose(job: Job, launch: Launch) -> Choice:
    """Choose the kind: annotation, else the job's own restart settings, else the configuration of the framework.

    Restart settings are torchrun's: `--max-restarts` or PET_MAX_RESTARTS above 0, or an elastic `--nnodes` range. A
    worker group that restarts needs a store that outlives one attempt, which static rendezvous is not.
    """
    annotated = job.annotation(names.RENDEZVOUS_ANNOTATION)
    if annotated is not None and annotated[0] in ("static", "c10d"):
        return Choice("c10d" if annotated[0] == "c10d" else "static", f"{annotated[1]} {names.RENDEZVOUS_ANNOTATION}")
    place = job.container
    env = place.container.get("env") if place else None
    restarts = launch.values.get("max_restarts") or pods.env_value(env, "PET_MAX_RESTARTS") or "0"
    if launch.launcher is Launcher.TORCHRUN and restarts.isdecimal() and int(restarts) > 0:
        return Choice("c10d", f"the launch allows {restarts} restarts of its workers")
    if ":" in launch.values.get("nnodes", ""):
        return Choice("c10d", f"the launch is elastic, nnodes {launch.values['nnodes']}")
    return Choice(job.settings.rendezvous, "the platform's default")


def enforce(job: Job, changes: Changes, rule: str) -> None:
    """Add the rendezvous env to the training container of a JobSet.

    Args:
        job: a JobSet; anything else is left alone, since the job's name may not be known before.
        changes: where to record.
        rule: prefix of the rules, the framework's name.
    """
    place, coordinator = job.container, coordinators.of(job)
    if job.kind != "JobSet" or place is None or coordinator is None:
        return
    launch = launches.parse([*(place.container.get("command") or ()), *(place.container.get("args") or ())])
    topology = topologies.launched(topologies.of(job), launch)
    wanted = [
        *_pet(place, coordinator, topology),
        *_masters(coordinator),
        *_kind(job, launch, place, coordinator),
        *_world(topology),
        *_ranks(launch, topology),
    ]
    for entry, reason in wanted:
        _add(changes, place, entry, rule, reason)


_Wanted = tuple[EnvVar, str]


def _pet(place: pods.Place, coordinator: coordinators.Coordinator, topology: topologies.Topology) -> Iterator[_Wanted]:
    """Give a JobSet that Trainer did not make the env that Trainer would have given."""
    env = place.container.get("env")
    if pods.find_env(env, names.PET_NNODES) is not None:
        return
    reason = "torchrun reads its topology from PET_*; Trainer did not make this JobSet, so nothing had set it"
    processes = topologies.AUTO if topology.processes is None else str(topology.processes)
    yield {"name": names.PET_NNODES, "value": str(topology.nodes)}, reason
    yield {"name": names.PET_NPROC_PER_NODE, "value": processes}, reason
    yield {"name": names.PET_NODE_RANK, "valueFrom": _completion_index()}, reason
    yield {"name": names.PET_MASTER_ADDR, "value": coordinator.host}, reason
    yield {"name": names.PET_MASTER_PORT, "value": str(coordinator.port)}, reason


def _masters(coordinator: coordinators.Coordinator) -> Iterator[_Wanted]:
    reason = "programs that are not torchrun look for the coordinator here; it is the JobSet's pod 0 by its DNS name"
    yield {"name": names.MASTER_ADDR, "value": coordinator.host}, reason
    yield {"name": names.MASTER_PORT, "value": str(coordinator.port)}, reason


def _kind(job: Job, launch: Launch, place: pods.Place, coordinator: coordinators.Coordinator) -> Iterator[_Wanted]:
    choice = choose(job, launch)
    if choice.kind == "c10d":
        reason = (
            f"c10d rendezvous, because of {choice.because}; ranks are given by the rendezvous, not by the pod index"
        )
        yield {"name": names.PET_RDZV_BACKEND, "value": "c10d"}, reason
        yield {"name": names.PET_RDZV_ENDPOINT, "value": coordinator.endpoint}, reason
        yield {"name": names.PET_RDZV_ID, "value": job.name or ""}, reason
        return
    written = pods.env_value(place.container.get("env"), names.PET_MASTER_ADDR)
    if written == f"{job.name}-{place.job_name}-0-0.{job.name}" != coordinator.host:
        reason = f"PET_MASTER_ADDR is {written}, which ignores the JobSet's subdomain and does not resolve"
        yield {"name": names.PET_RDZV_ENDPOINT, "value": coordinator.endpoint}, reason


def _world(topology: topologies.Topology) -> Iterator[_Wanted]:
    if topology.world_size is not None:
        reason = f"{topology.size}; the image's guard stops a job of another size"
        yield {"name": names.EXPECTED_WORLD_SIZE, "value": str(topology.world_size)}, reason


def _ranks(launch: Launch, topology: topologies.Topology) -> Iterator[_Wanted]:
    """Ranks only where nothing else gives them: they break torchrun and accelerate, which count their own."""
    if launch.launcher is not Launcher.PYTHON or topology.processes != 1 or topology.nodes < 2 or topology.elastic:
        return
    reason = "a plain program with one process per node: its rank is the pod's index, and no launcher would set it"
    yield {"name": "RANK", "valueFrom": _completion_index()}, reason
    yield {"name": "WORLD_SIZE", "value": str(topology.nodes)}, reason
    yield {"name": "LOCAL_RANK", "value": "0"}, reason


def _completion_index() -> dict[str, dict[str, str]]:
    return {"fieldRef": {"fieldPath": names.COMPLETION_INDEX_FIELD}}


def _add(changes: Changes, place: pods.Place, entry: EnvVar, rule: str, reason: str) -> None:
    name = entry["name"]
    present = changes.get(*place.path, "env")
    found = pods.find_env(present if isinstance(present, list) else None, name)
    if found is None:
        changes.append((*place.path, "env"), entry, rule=f"{rule}/{_rule_name(name)}", reason=reason)
    elif found != entry:
        where = f"{paths.field(changes.document, place.path)}.env[{name}]"
        message = f"kept as the job sets it; Muster would have set {entry.get('value')!r}"
        changes.report(warning(where, found.get("value"), message, rule=f"{rule}/{_rule_name(name)}"))


def _rule_name(name: str) -> str:
    return name.removeprefix("PET_").removeprefix("MUSTER_").lower().replace("_", "-")
