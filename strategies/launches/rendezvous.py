"""The rendezvous: env with which every launcher of the torch family finds its peers.

Only additions are made on the JobSet, so that Trainer's later server-side applies keep them; an overwritten env would
block suspend and resume. A value that the user set wins and is reported.

There are two kinds. *static*: the node rank is the pod's completion index, as in Trainer's PET_*. *c10d*: torchrun's
own store on the coordinator assigns the ranks, and members may leave and return, so a pod's index is not its rank.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import names, paths, pods, quantities
from muster.strategies.documents.findings import warning
from muster.strategies.documents.model import Container, EnvVar
from muster.strategies.jobs.containers import Kind
from muster.strategies.jobs.jobs import Job, Rendezvous
from muster.strategies.launches import coordinators, ranks, sites, topologies, worlds
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.trainer import resources

__all__ = ["Choice", "choose", "enforce"]


class Choice(Struct, frozen=True):
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
    own = job.container.container if job.container else Container()
    backend = launch.values.get("rdzv_backend") or own.env_value(names.PET_RDZV_BACKEND)
    if backend:
        return Choice("c10d" if backend == "c10d" else "static", f"the job's own backend {backend}")
    restarts = launch.values.get("max_restarts") or own.env_value("PET_MAX_RESTARTS") or ""
    if quantities.whole(restarts):
        return Choice("c10d", f"the launch allows {restarts} restarts of its workers")
    nodes = launch.values.get("nnodes") or own.env_value(names.PET_NNODES) or ""
    low, _, high = nodes.partition(":")
    if high and low != high:
        return Choice("c10d", f"the launch is elastic, nnodes {nodes}")
    return _of_several(job, launch) or Choice(job.settings.rendezvous, "the platform's default")


def _of_several(job: Job, launch: Launch) -> Choice | None:
    """Choose for nodes of several Jobs, which env can seldom number; torchrun numbers them where it finds pod 0."""
    if ranks.are_given(job):
        return Choice("static", "the job ranks its nodes itself")
    if job.owner is not None or topologies.pods_of(job) < 2 or not _spans(job, launch) or not _is_named(job):
        return None
    if ranks.find_rank(job) is None:
        return Choice("c10d", f"no env can number the pods of {_jobs(job)} together")
    if coordinators.is_elsewhere(job):
        return Choice("c10d", "spec.coordinator is not the pod with rank 0, where a static rendezvous would meet")
    return None


def _is_named(job: Job) -> bool:
    """Whether the pod at which the others meet has a DNS name, as only one with an index has."""
    return not job.world or job.world[0].job.template.spec.completion_mode in ("", "Indexed")


def _spans(job: Job, launch: Launch) -> bool:
    """Whether torchrun starts the processes, as far as can be seen; it needs no rank under c10d."""
    program = job.identify(job.container.container.argv if job.container else ())
    unread = program.kind is Kind.UNKNOWN and launch.launcher in (Launcher.SHELL, Launcher.OTHER, Launcher.NONE)
    return launch.starts_torchrun or program.launcher in ("torchrun", "tune") or unread


def _jobs(job: Job) -> str:
    return " and ".join(place.job_name for place in job.world)


def enforce(job: Job, changes: Changes, rule: str) -> None:
    """Add the rendezvous env to the training container of a JobSet.

    Args:
        job: a JobSet; a TrainJob is left alone, since its name may not be known yet.
        changes: the record of changes.
        rule: prefix of the rule ids, the framework's name.
    """
    if job.kind != "JobSet":
        return
    place, site, coordinator = job.container, sites.find_site(job), coordinators.find_coordinator(job)
    if place is None or site is None or coordinator is None:
        return
    launch = site.reading.training or site.launch
    if ranks.is_a_sweep(place, launch):
        return  # its torchrun waits for nobody unless PET_NNODES says so
    meant = topologies.read_topology(job)
    topology = topologies.launched(meant, launch)
    if topologies.pods_of(job) > 1 and topologies.take_turns(job):
        return  # its pods never run all at once, and `members` says so
    rank, choice = ranks.find_rank(job), choose(job, launch)
    unnumbered = rank is None and choice.kind == "static" and topology.nodes > 1 and not ranks.are_given(job)
    if unnumbered and job.part == 0:
        field = paths.field(changes.document, place.job_path if len(job.world) < 2 else place.job_path[:-1])
        changes.report(warning(field, None, _unnumbered(job, topology), rule=f"{rule}/node-rank"))
    met = [*_masters(coordinator), *_kind(job, choice, launch, place, coordinator)]
    size = [*_world(worlds.find_world(job), topology)]
    add = functools.partial(_add, changes, place, site.variables, rule)
    add([*_pet(job, place, coordinator, meant, rank), *met])
    if not size and names.PET_RDZV_ENDPOINT in {entry.name for entry, _ in met} - site.variables.keys():
        size = [*_world(worlds.find_world(job), topology)]  # its nodes meet now
    add([*size, *_ranks(launch, topology, rank)])
    backend = launch.values.get("rdzv_backend")
    if backend in ("static", "c10d") and backend != choice.kind:
        where = f"{paths.field(changes.document, place.path)}.command"
        message = f"kept as the command line sets it; Muster would have set {choice.kind} ({choice.because})"
        changes.report(warning(where, f"--rdzv_backend {backend}", message, rule=f"{rule}/rdzv-backend"))


_Wanted = tuple[EnvVar, str]
_Rank = ranks.Source


def _unnumbered(job: Job, topology: topologies.Topology) -> str:
    advice = f"use one indexed Job of {topology.nodes} pods, or the annotation {names.RENDEZVOUS_ANNOTATION}: c10d"
    if len(job.world) > 1:
        return f"the nodes of {_jobs(job)} have no common numbering that env could hold; {advice}, which torchrun reads"
    return (
        "the nodes have no common numbering: JobSet numbers jobs and pods separately, and pods only in indexed "
        f"Jobs; {advice}"
    )


def _pet(
    job: Job,
    place: pods.Place,
    coordinator: coordinators.Coordinator,
    topology: topologies.Topology,
    rank: _Rank | None,
) -> Iterator[_Wanted]:
    """Give a JobSet the PET_* env that Trainer did not set."""
    present = {each.name for each in place.container.env}
    if job.owner is not None and names.PET_NNODES in present:
        return
    reason = "torchrun reads its topology from PET_* variables, and this one was not set"
    processes = resources.AUTO if topology.processes is None else str(topology.processes)
    entries = [
        EnvVar(name=names.PET_NNODES, value=str(topology.nodes)),
        EnvVar(name=names.PET_NPROC_PER_NODE, value=processes),
        *([] if rank is None else [_named(names.PET_NODE_RANK, rank)]),
        EnvVar(name=names.PET_MASTER_ADDR, value=coordinator.host),
        EnvVar(name=names.PET_MASTER_PORT, value=str(coordinator.port)),
    ]
    yield from ((entry, reason) for entry in entries if entry.name not in present)


def _named(name: str, rank: _Rank) -> EnvVar:
    return msgspec.structs.replace(rank, name=name)


def _masters(coordinator: coordinators.Coordinator) -> Iterator[_Wanted]:
    reason = "programs other than torchrun read the coordinator's address from MASTER_ADDR and MASTER_PORT"
    yield EnvVar(name=names.MASTER_ADDR, value=coordinator.host), reason
    yield EnvVar(name=names.MASTER_PORT, value=str(coordinator.port)), reason


def _kind(
    job: Job, choice: Choice, launch: Launch, place: pods.Place, coordinator: coordinators.Coordinator
) -> Iterator[_Wanted]:
    if choice.kind == "c10d":
        reason = f"c10d rendezvous ({choice.because}); the rendezvous assigns the ranks, not the pod index"
        entries = [
            EnvVar(name=names.PET_RDZV_BACKEND, value="c10d"),
            EnvVar(name=names.PET_RDZV_ENDPOINT, value=coordinator.endpoint),
            EnvVar(name=names.PET_RDZV_ID, value=job.name or ""),
        ]
        yield from ((entry, reason) for entry in entries if _flag(entry) not in launch.values)
        return
    written = place.container.env_value(names.PET_MASTER_ADDR)
    trainers = f"{job.name}-{names.CONTAINER_NODE}-0-0.{job.name}"  # Trainer ignores the subdomain and other job names
    if written == trainers != coordinator.host and not {"rdzv_endpoint", "master_addr"} & set(launch.values):
        reason = f"PET_MASTER_ADDR is {written}, and the coordinator of this JobSet has another name"
        yield EnvVar(name=names.PET_RDZV_ENDPOINT, value=coordinator.endpoint), reason


def _flag(entry: EnvVar) -> str:
    return entry.name.removeprefix("PET_").lower()


def _world(world: worlds.World | None, topology: topologies.Topology) -> Iterator[_Wanted]:
    """Yield the guard's number only where the launch certainly makes it: a guard must never end a good job."""
    if world is None or world.nodes != topology.nodes:
        return
    if world.world_size is not None and not world.may_start_more:
        size = f"{_plural(world.nodes, 'node')} x {_plural(world.processes, 'process', 'es')}"
        reason = f"{size}; an image that checks this value can stop a job of another world size"
        yield EnvVar(name=names.EXPECTED_WORLD_SIZE, value=str(world.world_size)), reason


def _plural(count: int | None, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}{ending if count != 1 else ''}"


def _ranks(launch: Launch, topology: topologies.Topology, rank: _Rank | None) -> Iterator[_Wanted]:
    """Yield ranks only where nothing else sets them: they break torchrun and accelerate, which set their own.

    Lightning reads NODE_RANK and starts the processes of its node itself, unless LOCAL_RANK is set; composer reads
    NODE_RANK together with WORLD_SIZE (docs/jobs.md).
    """
    if topology.nodes < 2 or topology.elastic or rank is None:
        return
    if launch.launcher is Launcher.COMPOSER and topology.world_size is not None:
        reason = "composer reads the number of all processes and the node's rank from the environment"
        yield EnvVar(name="WORLD_SIZE", value=str(topology.world_size)), reason
        yield _named("NODE_RANK", rank), reason
    if launch.launcher is not Launcher.PYTHON:
        return
    reason = "this is a plain program: Lightning and others read the node's rank, the pod's index, from NODE_RANK"
    yield _named("NODE_RANK", rank), reason
    if topology.processes == 1:
        reason = "this is a plain program with one process per node: its rank is the pod's index"
        yield _named("RANK", rank), reason
        yield EnvVar(name="WORLD_SIZE", value=str(topology.nodes)), reason
        yield EnvVar(name="LOCAL_RANK", value="0"), reason
        yield EnvVar(name="LOCAL_WORLD_SIZE", value="1"), reason


def _add(
    changes: Changes, place: pods.Place, present: Mapping[str, EnvVar], rule: str, wanted: Iterable[_Wanted]
) -> None:
    """Add the variables that a container does not have yet; `present` are those that it has, by name."""
    missing = []
    for entry, reason in wanted:
        if entry.name in present:
            _report_kept(changes, place, entry, present[entry.name], rule)
        else:
            missing.append((msgspec.to_builtins(entry), f"{rule}/{_rule_name(entry.name)}", reason))
    changes.extend((*place.path, "env"), missing)


def _report_kept(changes: Changes, place: pods.Place, entry: EnvVar, found: EnvVar, rule: str) -> None:
    """Warn about a variable of the job's own that is not the one that Muster would have set."""
    if found != entry and entry.name not in _JUDGED:
        where = f"{paths.field(changes.document, place.path)}.env[{entry.name}]"
        message = f"kept as the job sets it; Muster would have set {entry.literal!r}"
        changes.report(warning(where, found.literal, message, rule=f"{rule}/{_rule_name(entry.name)}"))


_JUDGED = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PET_RDZV_ID"}
    | {names.PET_RDZV_ENDPOINT}
)
"""A value of the job itself stays without a word here: `meetings` and `addresses` judge it."""


def _rule_name(name: str) -> str:
    return name.removeprefix("PET_").removeprefix("MUSTER_").lower().replace("_", "-")
