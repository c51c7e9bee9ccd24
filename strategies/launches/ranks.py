"""Ranks: where a pod of a JobSet reads its node rank from, as far as env of a pod template can hold it.

Kubernetes has no arithmetic in env, so a rank is an index that JobSet or the Job controller gives, or a number that is
the same for all pods of the template (jobset `pkg/controllers/jobset_controller.go`, globalJobIndex and
groupJobIndex; the annotation `batch.kubernetes.io/job-completion-index` of an indexed Job).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from muster.strategies.documents import names
from muster.strategies.documents.model import EnvVar, EnvVarSource, FieldRef, ReplicatedJob
from muster.strategies.documents.pods import Place
from muster.strategies.jobs.jobs import Job, once_for_all, once_for_part
from muster.strategies.launches import topologies
from muster.strategies.launches.launches import Launch

__all__ = [
    "Source",
    "are_given",
    "are_shared",
    "find_clash",
    "find_rank",
    "find_start",
    "is_a_sweep",
]

Source = EnvVar
"""An env entry without its name: a value, or where it is read from."""
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
_GLOBAL_INDEX = "jobset.sigs.k8s.io/job-global-index"
_GROUP_INDEX = "jobset.sigs.k8s.io/job-group-index"
_CONSTANT = frozenset(
    f"jobset.sigs.k8s.io/{each}"
    for each in (
        *("restart-attempt", "job-restart-attempt", "replicatedjob-replicas", "global-replicas", "group-replicas"),
    )
)
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_KEY = r"metadata\.(?:annotations|labels)\['([^']+)'\]"
_GIVEN = (names.PET_NODE_RANK, "NODE_RANK", "RANK")
_INDEXES = frozenset(
    f"metadata.{kind}['{name}']" for kind in ("annotations", "labels") for name in (_JOB_INDEX, _GLOBAL_INDEX)
)


def find_rank(job: Job) -> Source | None:
    """Return the node rank of the pods of `job.container`; None where some pod of the training cannot know its own.

    Ranks run through the replicated jobs of the training in order, and in each of them through Jobs, then pods.
    """
    world = job.world
    if len(world) < 2:  # one alone
        return _rank(_shape(world[0].job), 0, (0, 0)) if world else None
    every = _all_ranks(_shapes(job), [int(place.job_path[-1]) for place in world])
    return every[job.part] if every else None


def are_given(job: Job) -> bool:
    """Whether the job itself gives a rank to each of the nodes of several replicated jobs, by a flag or by env."""
    return len(job.world) > 1 and "" not in _all_given(job)


def are_shared(job: Job) -> bool:
    """Whether a rank that the command line or the env of `job.container` gives is that of other nodes too."""
    place = job.container
    if job.kind == "TrainJob" or place is None or place.job.jobs * place.job.at_once != 1:
        return True
    return len(job.world) > 1 and _all_given(job).count(_given(job)) > 1


def is_a_sweep(place: Place, launch: Launch) -> bool:
    """Whether each Job of a replicated job is a training of its own, with a torchrun alone in a pod told its index."""
    if "standalone" not in launch.values or place.job.jobs < 2 or place.job.at_once != 1:
        return False
    return any(entry.field_path in _INDEXES for entry in place.container.env)


def find_clash(job: Job, path: str) -> str:
    """Return why nodes of `job.container` that read their rank from a field have the same one, as a clause.

    Args:
        job: the job.
        path: the `fieldPath`, `metadata.annotations['...']`.

    Returns:
        A clause, "" where each node has a rank of its own, or where Muster does not know the field.
    """
    place, found = job.container, re.fullmatch(_KEY, path)
    if place is None or found is None:
        return ""
    jobs, each = place.job.jobs, place.job.at_once
    if job.kind == "TrainJob":
        jobs, each = 1, topologies.pods_of(job)
    if found[1] in _CONSTANT and jobs * each > 1:
        return "is the same on all nodes"
    if found[1] == _COMPLETION_INDEX and jobs > 1:
        return f"counts the pods of one Job, and the nodes are in {jobs} Jobs"
    if found[1] in (_JOB_INDEX, _GLOBAL_INDEX, _GROUP_INDEX) and each > 1:
        return f"counts Jobs, and each Job has {each} nodes"
    return _clash_of_rooms(job, place, found[1])


def _clash_of_rooms(job: Job, place: Place, key: str) -> str:
    mine = _given(job) if len(job.world) > 1 else ""
    if key in (_COMPLETION_INDEX, _JOB_INDEX) and mine:
        for other, given in zip(job.world, _all_given(job), strict=True):
            if other.path != place.path and given == mine:
                return f"starts at 0 in {place.job_name} and in {other.job_name}"
    return ""


def find_start(job: Job, path: str) -> int:
    """Return the rank of the first node of a training whose nodes read theirs from a field, 0 where that is unknown.

    Indexes that count through all replicated jobs begin with those that the training does not use.
    """
    found = re.fullmatch(_KEY, path)
    if job.kind != "JobSet" or found is None or found[1] not in (_GLOBAL_INDEX, _GROUP_INDEX) or not job.world:
        return 0
    starts = list(_starts(_shapes(job)))
    first = min(int(place.job_path[-1]) for place in job.world)
    return starts[first][0 if found[1] == _GLOBAL_INDEX else 1]


@once_for_all
def _all_given(job: Job) -> tuple[str, ...]:
    """Return the ranks that the parts of a training of several are given."""
    return tuple(map(_given, job.views)) if len(job.world) > 1 else ()


@once_for_part
def _given(job: Job) -> str:
    """Return the rank that the container is given, "" for none; the text of one that is read from elsewhere."""
    if job.container is None:
        return ""
    container = job.container.container
    entries = (container.find_env(name) for name in _GIVEN)
    found = (entry.value or str(entry.value_from) for entry in entries if entry is not None)
    return job.identify(container.argv).rank or next(found, "")


class _Shape(NamedTuple):
    """What the ranks of a replicated job's pods depend on."""

    replicas: int
    at_once: int
    turns: bool
    indexed: bool
    group: str


def _shape(job: ReplicatedJob) -> _Shape:
    indexed = job.template.spec.completion_mode in ("", "Indexed")
    return _Shape(job.jobs, job.at_once, job.takes_turns, indexed, job.group_name or "default")


@once_for_all
def _shapes(job: Job) -> list[_Shape]:
    return list(map(_shape, job.jobset.replicated_jobs))


def _all_ranks(shapes: Sequence[_Shape], parts: Sequence[int]) -> tuple[Source, ...] | None:
    """Return the ranks of parts, which are indexes of replicated jobs in the order of their ranks; None as above."""
    found, before, starts = list[Source](), 0, list(_starts(shapes))
    for index in parts:
        rank = _rank(shapes[index], before, starts[index])
        if rank is None:
            return None
        found.append(rank)
        before += shapes[index].replicas * shapes[index].at_once
    return tuple(found)


def _starts(shapes: Sequence[_Shape]) -> Iterator[tuple[int, int]]:
    """Yield how many Jobs are before each replicated job, in the whole JobSet and in its group."""
    every, groups = 0, Counter[str]()
    for shape in shapes:
        yield every, groups[shape.group]
        every += shape.replicas
        groups[shape.group] += shape.replicas


def _rank(shape: _Shape, before: int, starts: tuple[int, int]) -> Source | None:
    if shape.turns:
        return None
    if before == 0 and shape.replicas == 1:
        return _annotation(names.COMPLETION_INDEX_FIELD) if shape.indexed else None
    if shape.at_once != 1:
        return None
    if shape.replicas == 1:
        return EnvVar(value=str(before))
    return _job_index(before, starts)


def _job_index(before: int, starts: tuple[int, int]) -> Source | None:
    """Return the index of JobSet's that counts the Jobs of the training, where each of them has one pod."""
    if before == 0:
        return _annotation(f"metadata.annotations['{_JOB_INDEX}']")
    if before == starts[0]:
        return _annotation(f"metadata.annotations['{_GLOBAL_INDEX}']")
    if before == starts[1]:
        return _annotation(f"metadata.annotations['{_GROUP_INDEX}']")
    return None


def _annotation(field: str) -> Source:
    return EnvVar(value_from=EnvVarSource(field_ref=FieldRef(field_path=field)))
