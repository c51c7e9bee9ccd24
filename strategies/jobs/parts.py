"""Parts: the replicated jobs of a JobSet that do its work, and the container in each of them.

Kubeflow Trainer has one training job, which its ancestor label names (trainer `pkg/runtime/runtime.go`,
FindPodSetByAncestor). In a JobSet of another hand the work may be in several replicated jobs: a leader and its workers
train together, a prefill and a decode server are apart, and an evaluator or a data server is not part of it at all.
They are told apart by the role label, then by devices and what each container starts, then by their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.strategies.documents import decoding, model, names, paths
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import askings, containers
from muster.strategies.jobs.containers import Identify, Kind, Program

__all__ = ["Parts", "beside", "find", "is_apart", "role_of"]

_WORD = r"[a-z]+"
_HEADS = frozenset({"leader", "master", "chief", "head", "primary", "coordinator"})
_BODIES = frozenset(
    {
        *("worker", "workers", "follower", "followers", "replica", "replicas", "secondary", "node", "nodes"),
        *("trainer", "trainers"),
    }
)
_TRAINERS = frozenset({"trainer", "trainers", "train", "training", "finetune"})
_SERVERS = frozenset({"server", "servers", "vllm", "prefill", "decode", "sampler", "samplers", "engine", "inference"})
_APART = frozenset(
    {
        *("eval", "evaluator", "evaluation", "validate", "validator", "validation", "tester", "judge", "bench"),
        *("server", "servers", "serve", "serving", "vllm", "sglang", "sampler", "samplers", "inference", "rollout"),
        *("rollouts", "generator", "reward", "prefill", "decode", "engine", "router", "gateway", "proxy", "client"),
        *("tensorboard", "monitor", "monitoring", "metrics", "dashboard", "logger", "logs", "profiler", "cache"),
        *("redis", "etcd", "store", "db", "database", "queue", "ps", "dataset", "dataloader", "loader"),
        *("download", "downloader", "preprocess", "preprocessor", "prep", "prepare", "tokenize", "tokenizer"),
        *("init", "initializer", "setup", "cleanup", "notify", "upload", "export", "convert", "merge"),
    }
)
_REPLICA_TYPE = "training.kubeflow.org/replica-type"
"""Label of Kubeflow's training-operator v1 (`pkg/apis/kubeflow.org/v1/common_types.go`, ReplicaTypeLabel)."""
_TRAINING_TYPES = frozenset({"master", "worker", "chief", "leader"})
_MASTERS = (names.PET_RDZV_ENDPOINT, names.PET_MASTER_ADDR, names.MASTER_ADDR)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "["})  # noqa: S104  # compared, never listened at
_LONG = 10
_JOBS = ("spec", "replicatedJobs")


class Parts(Struct, frozen=True):
    """The work of a JobSet.

    Attributes:
        places: path of the replicated job and index of the container, for each part; empty where none was found.
        together: whether the parts are one training, whose ranks run through them in this order.
        rivals: replicated jobs of which any could be the training, where it cannot be told which one is.
        remote: the replicated job whose program starts the processes in the pods of the others; "" for none.
    """

    places: tuple[tuple[Path, int], ...] = ()
    together: bool = True
    rivals: tuple[str, ...] = ()
    remote: str = ""


class _Candidate(Struct, frozen=True):
    index: int
    job: model.ReplicatedJob
    container: int
    program: Program
    devices: bool
    role: str | None

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def words(self) -> frozenset[str]:
        return frozenset(re.findall(_WORD, self.name))

    @property
    def _container(self) -> model.Container:
        return self.job.pod.containers[self.container]

    @property
    def image(self) -> str:
        return self._container.image

    @property
    def pods(self) -> int:
        return self.job.jobs * self.job.at_once

    @property
    def nodes(self) -> int | None:
        """Number of nodes that its launch or its env names."""
        written = self._container.env_value(names.PET_NNODES) or ""
        env = int(written) if written.isdecimal() and len(written) < _LONG else None
        return env if self.program.nodes is None else self.program.nodes

    @property
    def master(self) -> str:
        """Where its nodes meet, as its launch or its env names it; "" for nowhere or for the pod itself."""
        found = [self.program.master, *(self._container.env_value(name) or "" for name in _MASTERS)]
        host = next((each for each in found if each), "").partition(":")[0]
        return "" if host in _LOOPBACK else host

    @property
    def is_apart(self) -> bool:
        """Whether its name is that of a part that does not train."""
        return is_apart(self.name)


def is_apart(name: str) -> bool:
    """Whether a name is that of a part that does not train: an evaluator, a server, a store."""
    words = frozenset(re.findall(_WORD, name))
    return bool(words & _APART) and not words & _TRAINERS


def find(
    document: Mapping[str, Any],
    framework: str | None,
    identify: Identify,
    around: Callable[[], frozenset[str]] = frozenset,
    common: str | None = None,
) -> Parts:
    """Find the parts of a JobSet.

    Args:
        document: the JobSet.
        framework: the framework label in force; a `vllm` JobSet serves, any other trains.
        identify: from a command line to what it starts.
        around: containers for which annotations outside of the replicated jobs ask for claims.
        common: the role that a label outside of the replicated jobs gives all of them; None for none.
    """
    spec = _spec(document, ("spec",))
    jobs = [(index, job) for index, job in enumerate(spec.replicated_jobs) if job.pod.containers]
    ours = next((each for each in jobs if _is_trainers(each[1])), None)
    if ours is not None:
        return _of_trainer(*ours, identify, around)
    serves = framework == "vllm"
    if len(jobs) == 1:
        ((index, job),) = jobs
        return Parts((((*_JOBS, index), _chosen(job, identify, around, serves=serves)),))
    found = list(_candidates(jobs, identify, around, common, serves=serves))
    chosen = _servers(found) if serves else _training(found, spec)
    places: list[tuple[Path, int]] = [((*_JOBS, each.index), each.container) for each in chosen.candidates]
    return Parts(tuple(places), not serves, chosen.rivals, chosen.remote)


def beside(
    document: Mapping[str, Any], spec_path: tuple[str, ...], trains: Path, identify: Identify
) -> tuple[str, ...]:
    """Return the names of replicated jobs that train with the one at path `trains`, though Trainer leaves them out.

    Args:
        document: a runtime.
        spec_path: where its JobSetSpec is.
        trains: the replicated job that Trainer takes for the training.
        identify: from a command line to what it starts.
    """
    spec = _spec(document, spec_path)
    jobs = [(index, job) for index, job in enumerate(spec.replicated_jobs) if job.pod.containers]
    if len(jobs) < 2:  # nothing beside it
        return ()
    common = decoding.read(document.get("metadata") or {}, model.ObjectMeta).labels.get(names.ROLE_LABEL)
    found = list(_candidates(jobs, identify, common=common, serves=False))
    named = [each for each in found if _is_trainers(each.job) or each.role in (None, "trainer")]
    mine = next((group for group in _groups(named, spec) if any(each.index == trains[-1] for each in group)), [])
    together = {each.index for each in mine} | {each.index for each in named if _is_trainers(each.job)}
    return tuple(each.name for each in found if each.index != trains[-1] and each.index in together)


def _is_trainers(job: model.ReplicatedJob) -> bool:
    return job.labels.get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER


class _Choice(Struct, frozen=True):
    candidates: Sequence[_Candidate] = ()
    rivals: tuple[str, ...] = ()
    remote: str = ""


def _of_trainer(
    index: int,
    job: model.ReplicatedJob,
    identify: Identify,
    around: Callable[[], frozenset[str]],
) -> Parts:
    """Choose Trainer's container of that job; where a JobSet of a user has none, the one that trains."""
    called = [each.name for each in job.pod.containers]
    chosen = _chosen(job, identify, around, serves=False)
    position = called.index(names.CONTAINER_NODE) if names.CONTAINER_NODE in called else chosen
    return Parts((((*_JOBS, index), position),))


def _chosen(job: model.ReplicatedJob, identify: Identify, around: Callable[[], frozenset[str]], *, serves: bool) -> int:
    if len(job.pod.containers) < 2:  # nothing to choose from
        return 0
    asked = askings.of_job(job)
    return containers.choose(job.pod, identify, serves=serves, asked=around() if asked is None else asked) or 0


def _candidates(
    jobs: Sequence[tuple[int, model.ReplicatedJob]],
    identify: Identify,
    around: Callable[[], frozenset[str]] = frozenset,
    common: str | None = None,
    *,
    serves: bool,
) -> Iterator[_Candidate]:
    for index, job in jobs:
        position = _chosen(job, identify, around, serves=serves)
        container = job.pod.containers[position]
        held = containers.holds_devices(container, job.pod) or askings.of_job(job) is not None
        yield _Candidate(index, job, position, containers.program(container, identify), held, _role(job, common))


def _servers(found: Sequence[_Candidate]) -> _Choice:
    """Choose each replicated job that serves."""
    mine = [each for each in found if each.role == "sampler"] or [each for each in found if each.role is None]
    serving = [each for each in mine if each.program.kind is Kind.SERVER]
    unknown = [each for each in mine if each.program.kind is Kind.UNKNOWN]
    named = [each for each in unknown if each.words & _SERVERS]
    holding = [each for each in unknown if each.devices]
    chosen = serving or [each for each in named if each.devices] or holding or named
    # Those of the same image too, now and not only when a launch was written into the chosen ones.
    taken, images = {each.index for each in chosen}, {each.image for each in chosen} - {""}
    like = {each.index for each in unknown if each.image in images}
    return _Choice([each for each in mine if each.index in taken | like])


def _training(found: Sequence[_Candidate], spec: model.JobSetSpec) -> _Choice:
    """Choose the group of replicated jobs that trains together, or say which groups could be it."""
    labelled = [each for each in found if each.role == "trainer"]
    if labelled:
        return _settled(_best(_groups(labelled, spec, sure=True)), spec)
    running = [each for each in found if each.role is None and each.program.kind is not Kind.SERVER]
    remote = _remote([each for each in running if not each.is_apart])
    if remote:
        return _Choice(remote=remote)
    groups = [group for group in _groups(running, spec) if _may_train(group)]
    best = _best(groups)
    chosen = {id(group) for group in best}
    likes = {_likeness(each) for group in best[:1] for each in group} - {None}
    others = [group for group in groups if id(group) not in chosen and not group[0].is_apart]
    return _settled(best + [group for group in others if _likeness(group[0]) in likes], spec)


def _remote(running: Sequence[_Candidate]) -> str:
    """Return the job whose program starts the processes in the pods of the other jobs, "" for none."""
    kinds = [each.program.kind for each in running]
    if len(running) < 2:  # nothing beside it
        return ""
    if Kind.LAUNCHER in kinds:  # deepspeed reads /job/hostfile where no flag names one
        waiting = any(each.program.kind in (Kind.CLUSTER, Kind.IDLE) and each.devices for each in running)
        return next((each.name for each in running if waiting and each.program.launcher == "deepspeed"), "")
    over = max(
        (each for each in running if each.program.kind in _OVER), key=lambda each: each.program.kind, default=None
    )
    return "" if over is None else over.name


_OVER = (Kind.REMOTE, Kind.CLUSTER)


_Group = list[_Candidate]


def _may_train(group: _Group) -> bool:
    kind = max(each.program.kind for each in group)
    surely = kind >= Kind.PYTHON or any(each.devices for each in group)
    return kind >= Kind.UNKNOWN and (surely or not any(each.is_apart for each in group))


def _best(groups: Sequence[_Group]) -> list[_Group]:
    """Return the groups of the highest weight."""
    most = max((_weight(group) for group in groups), default=None)
    return [group for group in groups if _weight(group) == most]


def _weight(group: _Group) -> tuple[bool, bool, bool, Kind]:
    """Rank a group: one called as Trainer calls it, then no evaluator, then devices, then what it starts."""
    return (
        any(each.name in ("node", "trainer") for each in group),
        not any(each.is_apart for each in group),
        any(each.devices for each in group),
        max(each.program.kind for each in group),
    )


def _settled(groups: Sequence[_Group], spec: model.JobSetSpec) -> _Choice:
    if len(groups) != 1 or not groups[0]:
        return _Choice(rivals=tuple(each.name for group in groups for each in group))
    running = [each for each in groups[0] if each.pods] or groups[0][:1]
    leading = spec.coordinator.replicated_job if spec.coordinator else None
    return _Choice(sorted(running, key=lambda each: each.name != leading))


def _groups(found: Sequence[_Candidate], spec: model.JobSetSpec, *, sure: bool = False) -> list[_Group]:
    """Divide candidates into those that train together, each group in the order of the document."""
    groups: list[_Group] = []
    counts = _counted_together(found)
    leading = spec.coordinator.replicated_job if spec.coordinator else None
    first: dict[_Key, int] = {}  # the first group in which somebody is held by a key
    for each in found:
        kin = _Kin(each, counts, leading, sure=sure)
        mine = min((first[key] for key in kin.asked() if key in first), default=len(groups))
        if mine == len(groups):
            groups.append([])
        groups[mine].append(each)
        for key in kin.held():
            first[key] = min(mine, first.get(key, mine))
    return groups


def _counted_together(found: Sequence[_Candidate]) -> frozenset[int]:
    """Return the numbers of nodes that several jobs name and that only their pods together are."""
    together: dict[int, list[_Candidate]] = {}
    for each in found:
        if each.nodes is not None:
            together.setdefault(each.nodes, []).append(each)
    return frozenset(nodes for nodes, jobs in together.items() if len(jobs) > 1 and sum(j.pods for j in jobs) == nodes)


_Key = tuple[object, ...]


class _Kin:
    """By what a replicated job is found by the others of its training, and finds them.

    Two are nodes of one training when one asks for a key by which the other is held. So each is compared with keys and
    not with every other one.

    Args:
        one: the replicated job.
        counts: the numbers of nodes that several jobs name and that only their pods together are.
        leading: the name of the job that holds the coordinator.
        sure: whether labels say that all of them train.
    """

    def __init__(self, one: _Candidate, counts: frozenset[int], leading: str | None, *, sure: bool) -> None:
        self._one = one
        self._program = one.program
        self._is_leading = one.name == leading
        self._sure = sure
        self._nodes = one.nodes if one.nodes in counts else None
        self._known = one.program.kind is not Kind.UNKNOWN

    def held(self) -> Iterator[_Key]:
        """Yield the keys by which it is found."""
        if self._program.kind < Kind.UNKNOWN:
            return
        if self._sure:
            yield from ((_SURE,), (_SURE, self._program.launcher))
        if self._one.is_apart:
            return
        image = (self._one.image, self._one.devices)
        yield from self._held_by_name((_IMAGE, *image))
        if not self._known:
            yield from self._held_by_name((_IMAGE_UNKNOWN, *image))
            return
        base = self._launched()
        yield from self._held_by_name(base)
        yield from self._hints(base)
        yield (base, "any")
        if self._is_leading:
            yield (base, "leading")

    def asked(self) -> Iterator[_Key]:
        """Yield the keys of those that it belongs to."""
        if self._program.kind < Kind.UNKNOWN:
            return
        if self._sure:
            launcher = self._program.launcher
            yield from ((_SURE, launcher), (_SURE, "")) if launcher else ((_SURE,),)
        if self._one.is_apart:
            return
        image = (self._one.image, self._one.devices)
        yield from self._asked_by_name((_IMAGE_UNKNOWN if self._known else _IMAGE, *image))
        if self._known:
            base = self._launched()
            yield from self._asked_by_name(base)
            yield from self._hints(base)
            yield (base, "any" if self._is_leading else "leading")

    def _launched(self) -> _Key:
        return _PROGRAM, self._program.kind, self._program.launcher, self._program.target

    def _hints(self, base: _Key) -> Iterator[_Key]:
        if self._nodes is not None:
            yield (base, "nodes", self._nodes)
        if self._one.master:
            yield (base, "master", self._one.master)

    def _held_by_name(self, base: _Key) -> Iterator[_Key]:
        """Yield what a leader and its workers are called, or names that differ only by a number."""
        words = self._one.words
        if words & _HEADS:
            yield (base, "head")
        if words & _BODIES:
            yield from ((base, "body"), (base, "words", words))

    def _asked_by_name(self, base: _Key) -> Iterator[_Key]:
        words = self._one.words
        if words & _BODIES:
            yield (base, "head")
        if words & _HEADS:
            yield (base, "body")
        yield (base, "words", words)


_SURE, _IMAGE, _IMAGE_UNKNOWN, _PROGRAM = "sure", "image", "image of what is unknown", "program"


def _likeness(one: _Candidate) -> _Key | None:
    """What two jobs have in common that launch the same program on devices; None where it cannot be told."""
    program = one.program
    return (program.launcher, program.target, one.devices) if program.kind is Kind.LAUNCHER else None


def _role(job: model.ReplicatedJob, common: str | None) -> str | None:
    """Return what a label says that a replicated job is, `trainer` or another role; None where no label says it."""
    role, levels = role_of(job, common), _labels(job)
    replica_type = next((labels[_REPLICA_TYPE] for labels in levels if _REPLICA_TYPE in labels), None)
    if role is None and replica_type is not None:
        return "trainer" if replica_type.lower() in _TRAINING_TYPES else "other"
    if role is None and any(names.ANCESTOR_LABEL in labels for labels in levels):
        return "initializer"
    return role


def role_of(job: model.ReplicatedJob, common: str | None) -> str | None:
    """Return the role that a replicated job alone has; None where no label tells it from the others.

    Muster writes the nearest role label on the pods. So `common`, the role of all of them, says nothing there, and no
    other label of the pods comes before a role label of their replicated job.
    """
    roles = (labels.get(names.ROLE_LABEL, common) for labels in _labels(job))
    return next((role for role in roles if role != common), None)


def _labels(job: model.ReplicatedJob) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the labels of its pods and its own, nearest first."""
    return job.template.spec.template.metadata.labels, job.labels


def _spec(document: Mapping[str, Any], path: tuple[str, ...]) -> model.JobSetSpec:
    found = paths.lookup(document, path)
    return decoding.read(found, model.JobSetSpec) if isinstance(found, dict) else model.JobSetSpec()
