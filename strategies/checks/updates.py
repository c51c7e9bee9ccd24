"""Updates: changes of a job that its API server or JobSet's webhook refuses.

The refusal comes anyhow, so these are warnings; Muster says what to do instead. What controllers change is allowed:
metadata but for the queue, status, `suspend`, and of a suspended JobSet what Kueue writes into its pod templates.
Sources: trainer `pkg/apis/trainer/v1alpha1/trainjob_types.go` (self == oldSelf, which is asked only where both
exist) and `pkg/runtime/framework/plugins/jobset/jobset.go` checkRuntimePatchesImmutability; jobset
`pkg/webhooks/jobset_webhook.go` ValidateUpdate and `api/jobset/v1alpha2/jobset_types.go`; kueue of 2026-08-22
`pkg/controller/jobframework/validation.go` validateUpdateForQueueName.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from muster.strategies.documents import overrides, paths, quantities, trainjobs
from muster.strategies.documents.findings import Finding, warning

__all__ = ["check_update"]

_RULE = "core/immutable"
_OF_TRAINJOB = ("initializer", "trainer", "activeDeadlineSeconds", "managedBy")
_OF_JOBSET = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")
_ELASTIC = ("parallelism", "completions")
_OF_PODS = ("nodeSelector", "tolerations", "schedulingGates")
_NEW = "cannot be changed once the job exists, so the API server refuses the update; delete the job and create it again"


def check_update(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Finding]:
    """Report what an update of a TrainJob or JobSet changes and may not change.

    Args:
        kind: which of the two.
        old: the job as the cluster has it; its shape has been checked.
        new: the job as it would be stored.
    """
    before, after = old.get("spec") or {}, new.get("spec") or {}
    yield from _queue(old, new, suspended=after.get("suspend") is True)
    if before == after:
        return
    if kind == "TrainJob":
        yield from _fixed(before, after, _OF_TRAINJOB)
        yield from _of_trainjob(old, new)
    else:
        yield from _fixed(before, after, _OF_JOBSET)
        if before.get("network") is not None and after.get("network") is None:
            message = (
                "the API server lets it be taken away, and the controller of JobSet then panics at this job; keep it"
            )
            yield warning("spec.network", None, message, rule=_RULE)
        if before.get("managedBy") != after.get("managedBy"):
            yield warning("spec.managedBy", after.get("managedBy"), _NEW, rule=_RULE)
        if before.get("replicatedJobs") != after.get("replicatedJobs"):
            yield from _replicated(before, after)


def _fixed(before: Mapping[str, Any], after: Mapping[str, Any], members: Sequence[str]) -> Iterator[Finding]:
    """Compare members of which both exist, as `self == oldSelf` does."""
    for member in members:
        was, now = before.get(member), after.get(member)
        if was is not None and now is not None and not _same(was, now):
            yield warning(_first(was, now, f"spec.{member}"), None, _NEW, rule=_RULE)


def _of_trainjob(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Finding]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if trainjobs.runtime_ref(old) != trainjobs.runtime_ref(new):
        yield warning("spec.runtimeRef", trainjobs.runtime_ref(new)[1], _NEW, rule=_RULE)
    if (before.get("initializer") is None) != (after.get("initializer") is None):
        message = (
            "the API server takes it in and out, and Trainer could then never apply the JobSet again, so the job could "
            "not be resumed; delete the job and create it again"
        )
        yield warning("spec.initializer", None, message, rule=_RULE)
    patches = [_timeless(overrides.patches(each)) for each in (old, new)]
    if not _same(*patches) and True not in (before.get("suspend"), after.get("suspend")):
        message = (
            "can be changed only while the job is suspended, so Trainer refuses the update; write suspend: true with it"
        )
        place = (overrides.entries(new) or overrides.entries(old))[0].place
        yield warning(paths.field(new, place[:2]), None, message, rule=_RULE)


def _queue(old: Mapping[str, Any], new: Mapping[str, Any], *, suspended: bool) -> Iterator[Finding]:
    """Report another queue of a job that runs (Kueue `pkg/controller/jobframework/validation.go`)."""
    one, other = ((each.get("metadata") or {}).get("labels") or {} for each in (old, new))
    if not suspended and one.get(_QUEUE) and one[_QUEUE] != other.get(_QUEUE):
        message = (
            "can be changed only while the job is suspended, so Kueue refuses the update; write suspend: true first"
        )
        yield warning(f"metadata.labels[{_QUEUE}]", other.get(_QUEUE), message, rule=_RULE)


_QUEUE = "kueue.x-k8s.io/queue-name"


def _timeless(patches: Any) -> Any:
    """Return patches without the time that Trainer's webhook writes."""
    if not isinstance(patches, list):
        return patches
    return [{key: each[key] for key in each if key != "time"} if isinstance(each, dict) else each for each in patches]


def _replicated(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the replicated jobs of a JobSet, but for what a suspended one may change."""
    old, new = (list(each.get("replicatedJobs") or ()) for each in (before, after))
    suspended = True in (before.get("suspend"), after.get("suspend"))
    if [each.get("name") for each in old] != [each.get("name") for each in new]:
        yield warning("spec.replicatedJobs", None, _NEW, rule=_RULE)
        return
    for was, now in zip(old, new, strict=True):
        field = f"spec.replicatedJobs[{now.get('name')}]"
        one, other = (_masked(each, suspended=suspended, elastic=False) for each in (was, now))
        if _same(one, other):
            continue
        one, other = (_masked(each, suspended=suspended, elastic=True) for each in (was, now))
        if _same(one, other):
            message = f"{_NEW}, unless JobSet runs with the feature gate ElasticJobSet"
            yield warning(f"{field}.template.spec.parallelism", None, message, rule=_RULE)
            continue
        yield warning(_first(one, other, field), None, _NEW, rule=_RULE)


def _masked(job: Mapping[str, Any], *, suspended: bool, elastic: bool) -> Mapping[str, Any]:
    """Return a replicated job without what may change."""
    outer = job.get("template") or {}
    spec = outer.get("spec") or {}
    pod = spec.get("template") or {}
    if elastic and spec.get("completionMode") == "Indexed":
        spec = {key: spec[key] for key in spec if key not in _ELASTIC}
    if suspended:
        inner, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
        pod = {
            **pod,
            "spec": {key: inner[key] for key in inner if key not in _OF_PODS},
            "metadata": {key: metadata[key] for key in metadata if key not in ("labels", "annotations")},
        }
    return {**job, "template": {**outer, "spec": {**spec, "template": pod}}}


def _same(one: Any, other: Any, *, amounts: bool = False) -> bool:
    """Whether two values are equal as typed values: nothing is as good as empty, and 1000m of a resource is 1."""
    if one == other or (not one and not other and not isinstance(one, bool) and not isinstance(other, bool)):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        every = {**one, **other}
        return all(_same(one.get(key), other.get(key), amounts=amounts or key in _AMOUNTS) for key in every)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(partial(_same, amounts=amounts), one, other))
    return amounts and _amount(one) is not None and _amount(one) == _amount(other)


_AMOUNTS = frozenset({"limits", "requests", "capacity", "sizeLimit", "divisor", "overhead"})
"""Members that hold amounts, or objects of amounts."""


def _amount(written: Any) -> Any:
    try:
        return quantities.exact(written) if isinstance(written, str | int) and not isinstance(written, bool) else None
    except ValueError:
        return None


def _first(one: Any, other: Any, field: str, *, amounts: bool = False) -> str:
    """Return the place of the first difference; the values there are not told, of which one may be a secret."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            inside = amounts or key in _AMOUNTS
            if not _same(one.get(key), other.get(key), amounts=inside):
                return _first(one.get(key), other.get(key), f"{field}.{key}", amounts=inside)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (was, now) in enumerate(zip(one, other, strict=True)):
            if not _same(was, now, amounts=amounts):
                name = now.get("name") if isinstance(now, dict) else None
                return _first(was, now, f"{field}[{index if name is None else name}]", amounts=amounts)
    return field
