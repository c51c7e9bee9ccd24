"""The rendezvous: env with which every launcher of the torch family finds its peers.

Only additions are made on the JobSet, so that Trainer's later server-side applies keep them; an overwritten env would
block suspend and resume. A value that the user set wins and is reported.

There are two kinds. *static*: the node rank is the pod's completion index, as in Trainer's PET_*. *c10d*: torchrun's
own store on the coordinator assigns the ranks, and members may leave and return, so a pod's index is not its rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from strategies.changes.changes import Changes
from strategies.documents import names, paths, pods
from strategies.documents.findings import warning
from strategies.documents.pods import EnvVar
from strategies.jobs.jobs import Job, Rendezvous
from strategies.launches import coordinators, launches, topologies
from strategies.launches.launches import Launch, Launcher
from strategies.trainer import resources

__all__ = ["Choice", "choose", "enforce"]

_JOB_INDEX_FIELD = "metadata.annotations['jobset.sigs.k8s.io/job-index']"
_PROCESSES = re.compile(r"--num[_-]processes[= ](\d+)(?: |$)")
_MACHINES = re.compile(r"--num[_-]machines")
_OWN_NUMBERS = re.compile(r"--(?:nproc|nnodes|standalone)")


@dataclass(frozen=True, slots=True)
class Choice:
    """The kind of rendezvous, and what decided it (for the reason of each change)."""

    kind: Rendezvous
    because: str


def choose(job: Job, launch: Launch) -> Choice:
    """Choose the kind by the annotation, else by the launch itself, else by the configuration of the framework.

    The launch decides by its backend, by `--max-restarts` or PET_MAX_RESTARTS above 0, or by a range of nodes. A worker
    group that restarts needs a store that outlives one attempt, and static rendezvous has none.
    """
    annotated = job.annotation(names.RENDEZVOUS_ANNOTATION)
    if annotated is not None and annotated[0] in ("static", "c10d"):
        return Choice("c10d" if annotated[0] == "c10d" else "static", f"{annotated[1]} {names.RENDEZVOUS_ANNOTATION}")
    env = job.container.container.get("env") if job.container else None
    backend = launch.values.get("rdzv_backend") or pods.env_value(env, names.PET_RDZV_BACKEND)
    if backend:
        return Choice("c10d" if backend == "c10d" else "static", f"the job's own backend {backend}")
    restarts = launch.values.get("max_restarts") or pods.env_value(env, "PET_MAX_RESTARTS") or ""
    if restarts.isdecimal() and int(restarts) > 0:
        return Choice("c10d", f"the launch allows {restarts} restarts of its workers")
    nodes = launch.values.get("nnodes") or pods.env_value(env, names.PET_NNODES) or ""
    low, _, high = nodes.partition(":")
    if high and low != high:
        return Choice("c10d", f"the launch is elastic, nnodes {nodes}")
    return Choice(job.settings.rendezvous, "the platform's default")


def enforce(job: Job, changes: Changes, rule: str) -> None:
    """Add the rendezvous env to the training container of a JobSet.

    Args:
        job: a JobSet; a TrainJob is left alone, since its name may not be known yet.
        changes: the record of changes.
        rule: prefix of the rule ids, the framework's name.
    """
    place, coordinator = job.container, coordinators.find_coordinator(job)
    if job.kind != "JobSet" or place is None or coordinator is None:
        return
    launch = launches.parse([*(place.container.get("command") or ()), *(place.container.get("args") or ())])
    topology = topologies.launched(topologies.read_topology(job), launch)
    rank, choice = _rank(place), choose(job, launch)
    if rank is None and choice.kind == "static" and topology.nodes > 1:
        message = (
            "the nodes have no common numbering: JobSet numbers jobs and pods separately, and pods only in indexed "
            f"Jobs; use one indexed Job of {topology.nodes} pods, or the annotation {names.RENDEZVOUS_ANNOTATION}: c10d"
        )
        changes.report(warning(paths.field(changes.document, place.job_path), None, message, rule=f"{rule}/node-rank"))
    wanted = [
        *_pet(job, place, coordinator, topology, rank),
        *_masters(coordinator),
        *_kind(job, choice, launch, place, coordinator),
        *_world(topology, launch),
        *_ranks(launch, topology, rank),
    ]
    present = {entry.get("name"): entry for entry in place.container.get("env") or ()}
    for entry, reason in wanted:
        _add(changes, place, entry, present.get(entry["name"]), rule, reason)
    backend = launch.values.get("rdzv_backend")
    if backend in ("static", "c10d") and backend != choice.kind:
        where = f"{paths.field(changes.document, place.path)}.command"
        message = f"kept as the command line sets it; Muster would have set {choice.kind} ({choice.because})"
        changes.report(warning(where, f"--rdzv_backend {backend}", message, rule=f"{rule}/rdzv-backend"))


_Wanted = tuple[EnvVar, str]
_Rank = dict[str, dict[str, str]]


def _rank(place: pods.Place) -> _Rank | None:
    """Return the source of a pod's node rank: its index in the Job, or the Job's index where each Job has one pod."""
    spec = place.job["template"]["spec"]
    if (place.job.get("replicas") or 1) == 1:
        indexed = spec.get("completionMode") in (None, "Indexed")
        return {"fieldRef": {"fieldPath": names.COMPLETION_INDEX_FIELD}} if indexed else None
    return {"fieldRef": {"fieldPath": _JOB_INDEX_FIELD}} if (spec.get("parallelism") or 1) == 1 else None


def _pet(
    job: Job,
    place: pods.Place,
    coordinator: coordinators.Coordinator,
    topology: topologies.Topology,
    rank: _Rank | None,
) -> Iterator[_Wanted]:
    """Give a JobSet the PET_* env that Trainer did not set."""
    env = place.container.get("env")
    if job.owner is not None and pods.find_env(env, names.PET_NNODES) is not None:
        return
    reason = "torchrun reads its topology from PET_* variables, and this one was not set"
    processes = resources.AUTO if topology.processes is None else str(topology.processes)
    entries: list[EnvVar] = [
        {"name": names.PET_NNODES, "value": str(topology.nodes)},
        {"name": names.PET_NPROC_PER_NODE, "value": processes},
        *([] if rank is None else [EnvVar(name=names.PET_NODE_RANK, valueFrom=rank)]),
        {"name": names.PET_MASTER_ADDR, "value": coordinator.host},
        {"name": names.PET_MASTER_PORT, "value": str(coordinator.port)},
    ]
    yield from ((entry, reason) for entry in entries if pods.find_env(env, entry["name"]) is None)


def _masters(coordinator: coordinators.Coordinator) -> Iterator[_Wanted]:
    reason = "programs other than torchrun read the coordinator's address from MASTER_ADDR and MASTER_PORT"
    yield {"name": names.MASTER_ADDR, "value": coordinator.host}, reason
    yield {"name": names.MASTER_PORT, "value": str(coordinator.port)}, reason


def _kind(
    job: Job, choice: Choice, launch: Launch, place: pods.Place, coordinator: coordinators.Coordinator
) -> Iterator[_Wanted]:
    if choice.kind == "c10d":
        reason = f"c10d rendezvous ({choice.because}); the rendezvous assigns the ranks, not the pod index"
        entries: list[EnvVar] = [
            {"name": names.PET_RDZV_BACKEND, "value": "c10d"},
            {"name": names.PET_RDZV_ENDPOINT, "value": coordinator.endpoint},
            {"name": names.PET_RDZV_ID, "value": job.name or ""},
        ]
        yield from ((entry, reason) for entry in entries if _flag(entry) not in launch.values)
        return
    written = pods.env_value(place.container.get("env"), names.PET_MASTER_ADDR)
    trainers = f"{job.name}-{names.CONTAINER_NODE}-0-0.{job.name}"  # Trainer ignores the subdomain and other job names
    if written == trainers != coordinator.host and not {"rdzv_endpoint", "master_addr"} & set(launch.values):
        reason = f"PET_MASTER_ADDR is {written}, and the coordinator of this JobSet has another name"
        yield {"name": names.PET_RDZV_ENDPOINT, "value": coordinator.endpoint}, reason


def _flag(entry: EnvVar) -> str:
    return entry["name"].removeprefix("PET_").lower()


def _world(topology: topologies.Topology, launch: Launch) -> Iterator[_Wanted]:
    size = _asked_for(topology, launch)
    if size is not None:
        reason = f"{topology.size}; an image that checks this value can stop a job of another world size"
        yield {"name": names.EXPECTED_WORLD_SIZE, "value": str(size)}, reason


def _asked_for(topology: topologies.Topology, launch: Launch) -> int | None:
    """Return the world size that the job asks for; None where it is elastic, unknown, or up to the program.

    On several nodes the guard exists to stop a launch that cannot reach this size, so the launch's own abilities do not
    count. On one node a program may use several devices with one process or with many.
    """
    if launch.launcher in (Launcher.TORCHRUN, Launcher.TUNE):
        return topology.world_size
    if launch.launcher in (Launcher.TRL, Launcher.ACCELERATE):
        written, machines = _PROCESSES.search(launch.text), _MACHINES.search(launch.text)
        if written and (topology.nodes == 1 or machines):
            return int(written[1])
    if launch.launcher is Launcher.SHELL and _OWN_NUMBERS.search(launch.text):
        return None
    counted = topology.on_cpu and topology.processes != 1  # Trainer counted CPUs; the job asked for no number of ranks
    free = counted or (topology.nodes == 1 and (topology.processes != 1 or (topology.devices.count or 0) > 1))
    plain = launch.launcher is Launcher.PYTHON and topology.processes == 1
    return None if free and not plain and not launch.starts_torchrun else topology.world_size


def _ranks(launch: Launch, topology: topologies.Topology, rank: _Rank | None) -> Iterator[_Wanted]:
    """Yield ranks only where nothing else sets them: they break torchrun and accelerate, which set their own."""
    if launch.launcher is not Launcher.PYTHON or topology.processes != 1 or topology.nodes < 2:
        return
    if topology.elastic or rank is None:
        return
    reason = "this is a plain program with one process per node: its rank is the pod's index, and no launcher sets it"
    yield {"name": "RANK", "valueFrom": rank}, reason
    yield {"name": "WORLD_SIZE", "value": str(topology.nodes)}, reason
    yield {"name": "LOCAL_RANK", "value": "0"}, reason


def _add(  # noqa: PLR0913  # what to add, where, and why
    changes: Changes, place: pods.Place, entry: EnvVar, found: EnvVar | None, rule: str, reason: str
) -> None:
    name = entry["name"]
    if found is None:
        changes.append((*place.path, "env"), entry, rule=f"{rule}/{_rule_name(name)}", reason=reason)
    elif found != entry:
        where = f"{paths.field(changes.document, place.path)}.env[{name}]"
        message = f"kept as the job sets it; Muster would have set {entry.get('value')!r}"
        changes.report(warning(where, found.get("value"), message, rule=f"{rule}/{_rule_name(name)}"))


def _rule_name(name: str) -> str:
    return name.removeprefix("PET_").removeprefix("MUSTER_").lower().replace("_", "-")
