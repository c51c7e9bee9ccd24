"""Ranks: where a pod of a JobSet reads its node rank from, as far as env of a pod template can hold it.

Kubernetes has no arithmetic in env, so a rank is an index that JobSet or the Job controller gives, or a number that is
the same for all pods of the template (jobset v0.12.0 `pkg/controllers/jobset_controller.go`, globalJobIndex and
groupJobIndex; the annotation `batch.kubernetes.io/job-completion-index` of an indexed Job).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from strategies.documents import names, pods
from strategies.documents.pods import EnvVar, Place
from strategies.jobs.jobs import Job, remembered_for_all, remembered_for_place
from strategies.launches import topologies

__all__ = ["Source", "are_given", "are_shared", "find_clash", "find_rank"]

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
_KEY = re.compile(r"metadata\.(?:annotations|labels)\['([^']+)'\]")
_GIVEN = (names.PET_NODE_RANK, "NODE_RANK", "RANK")


def find_rank(job: Job) -> Source | None:
    """Return the node rank of the pods of `job.container`; None where some pod of the training cannot know its own.

    Ranks run through the replicated jobs of the training in order, and in each of them through Jobs, then pods.
    """
    container, before, mine = job.container, 0, None
    for place in job.world:
        rank = _rank(job, place, before)
        if rank is None:
            return None
        if container is not None and place.path == container.path:
            mine = rank
        before += pods.replicas(place.job) * pods.at_once(place.job)
    return mine


def are_given(job: Job) -> bool:
    """Whether the job itself gives a rank to each of the nodes of several replicated jobs, by a flag or by env."""
    return len(job.world) > 1 and not _all_given(job)[""]


def are_shared(job: Job) -> bool:
    """Whether a rank that the command line or the env of `job.container` gives is that of other nodes too."""
    place = job.container
    if job.kind == "TrainJob" or place is None or pods.replicas(place.job) * pods.at_once(place.job) != 1:
        return True
    return _all_given(job)[_given(job, place)] > 1


def find_clash(job: Job, path: str) -> str:
    """Return why nodes of `job.container` that read their rank from a field have the same one, as a clause.

    Args:
        job: the job.
        path: the `fieldPath`, `metadata.annotations['...']`.

    Returns:
        A clause, "" where each node has a rank of its own, or where Muster does not know the field.
    """
    place, found = job.container, _KEY.fullmatch(path)
    if place is None or found is None:
        return ""
    jobs, each = pods.replicas(place.job), pods.at_once(place.job)
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
    mine = _given(job, place)
    if key in (_COMPLETION_INDEX, _JOB_INDEX) and mine:
        for other in job.world:
            if other.path != place.path and _given(job, other) == mine:
                return f"starts at 0 in {place.job_name} and in {other.job_name}"
    return ""


@remembered_for_all
def _all_given(job: Job) -> Counter[str]:
    """Return how many parts of a training are given each rank."""
    return Counter(_given(job, place) for place in job.world)


@remembered_for_place
def _given(job: Job, place: Place) -> str:
    """Return the rank that a container is given, "" for none; the text of one that is read from elsewhere."""
    container = place.container
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    entries = (pods.find_env(container.get("env"), name) for name in _GIVEN)
    found = (str(entry.get("value", entry.get("valueFrom"))) for entry in entries if entry is not None)
    return job.identify(words).rank or next(found, "")


def _rank(job: Job, place: Place, before: int) -> Source | None:
    spec, count = place.job["template"]["spec"], pods.replicas(place.job)
    indexed = spec.get("completionMode") in (None, "Indexed")
    if pods.takes_turns(place.job):
        return None
    if before == 0 and count == 1:
        return _annotation(names.COMPLETION_INDEX_FIELD) if indexed else None
    if pods.at_once(place.job) != 1:
        return None
    if count == 1:
        return {"value": str(before)}
    return _job_index(job, place, before)


def _job_index(job: Job, place: Place, before: int) -> Source | None:
    """Return the index of JobSet's that counts the Jobs of the training, where each of them has one pod."""
    if before == 0:
        return _annotation(f"metadata.annotations['{_JOB_INDEX}']")
    if before == _jobs_before(job, place, lambda _: True):
        return _annotation(f"metadata.annotations['{_GLOBAL_INDEX}']")
    group = place.job.get("groupName") or "default"
    if before == _jobs_before(job, place, lambda other: (other.get("groupName") or "default") == group):
        return _annotation(f"metadata.annotations['{_GROUP_INDEX}']")
    return None


def _jobs_before(job: Job, place: Place, counts: Callable[[Mapping[str, Any]], bool]) -> int:
    jobs = job.document["spec"]["replicatedJobs"][: int(place.job_path[-1])]
    return sum(pods.replicas(each) for each in jobs if counts(each))


def _annotation(field: str) -> Source:
    return {"valueFrom": {"fieldRef": {"fieldPath": field}}}
