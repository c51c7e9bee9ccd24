"""Queues: labels and annotations of Kueue that its own webhooks refuse, or that nothing reads where they stand.

Source: kueue of 2026-08-22 `pkg/controller/jobframework/validation.go` and `tas_validation.go`; it reads the
annotations of pod templates alone (`pkg/controller/jobs/{jobset,trainjob}`, validateTopologyRequest).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import labels
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, placed
from muster.strategies.launches import topologies

__all__ = ["check"]

_DOMAIN = "kueue.x-k8s.io/"
_PODSET = f"{_DOMAIN}podset-"
_QUEUE, _SECONDS = f"{_DOMAIN}queue-name", f"{_DOMAIN}max-exec-time-seconds"
_ELASTIC = f"{_DOMAIN}elastic-job"
_REQUIRED, _PREFERRED = f"{_PODSET}required-topology", f"{_PODSET}preferred-topology"
_UNCONSTRAINED, _GROUP = f"{_PODSET}unconstrained-topology", f"{_PODSET}group-name"
_SLICE, _SIZE = f"{_PODSET}slice-required-topology", f"{_PODSET}slice-size"
_LAYERS = f"{_PODSET}slice-required-topology-constraints"
_TOPOLOGIES = (_REQUIRED, _PREFERRED, _UNCONSTRAINED)
_OF_PODS = frozenset({*_TOPOLOGIES, _GROUP, _SLICE, _SIZE, _LAYERS})
_LABELS, _NOTES = frozenset({_QUEUE, _SECONDS}), _OF_PODS | {_QUEUE, _ELASTIC}
_TRUTHS = frozenset({"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"})
_DIGITS = 9
_PAIR = 2
_RULE = "core/kueue"
_REFUSED = "so Kueue refuses the job"

_Fault = tuple[str, Any, str]


def check(job: Job, templates: Sequence[Template]) -> Iterator[Finding]:
    """Check what a job, or the runtime of a TrainJob, says to Kueue.

    Args:
        job: the job as it will be stored.
        templates: its replicated jobs.
    """
    metadata = job.document.get("metadata") or {}
    own, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    report = error if _QUEUE in own else warning  # without a queue, Kueue may not be there
    if (own and not _LABELS.isdisjoint(own)) or (notes and not _NOTES.isdisjoint(notes)):
        yield from _of_object(own, notes, report)
    groups: dict[str, list[tuple[Template, Mapping[str, Any]]]] = {}
    for template in templates:
        written = template.annotations
        if written and not _OF_PODS.isdisjoint(written):
            path = template.annotations_path
            for key, value, message in (
                *_faults(written),
                *_above(written, topologies.pods_of_replicated_job(job, template.job)),
            ):
                yield placed(job, report(template.locate((*path, key)), value, message, rule=_RULE))
            if isinstance(written.get(_GROUP), str):
                groups.setdefault(written[_GROUP], []).append((template, written))
    for name, group in groups.items():
        message = _ungrouped(job, group)
        if message:
            template = group[0][0]
            field = template.locate((*template.annotations_path, _GROUP))
            yield placed(job, report(field, name, message, rule=_RULE))


def _of_object(own: Mapping[str, Any], notes: Mapping[str, Any], report: Callable[..., Finding]) -> Iterator[Finding]:
    for key in own:
        if key == _QUEUE and isinstance(own[key], str) and not labels.is_object(own[key]):
            message = f"is the name of a LocalQueue, which takes small letters, digits, - and ., {_REFUSED}; correct it"
            yield error(f"metadata.labels[{key}]", own[key], message, rule=_RULE)
        elif key == _SECONDS and not (str(own[key]).isdecimal() and str(own[key]).strip("0")):
            message = f"is a number of seconds above 0, {_REFUSED}; correct it"
            yield report(f"metadata.labels[{key}]", own[key], message, rule=_RULE)
    for key in notes:
        if key in _OF_PODS:
            message = "Kueue reads it from the pod templates alone, so nothing keeps to it; write it there"
            yield warning(f"metadata.annotations[{key}]", notes[key], message, rule=_RULE)
        elif key == _QUEUE and _QUEUE not in own:
            message = "Kueue reads the queue from a label, so this job is in no queue; write it into metadata.labels"
            yield warning(f"metadata.annotations[{key}]", notes[key], message, rule=_RULE)
        elif key == _ELASTIC and notes[key] == "true":
            message = f"is not for TrainJobs and JobSets, {_REFUSED}; remove it"
            yield report(f"metadata.annotations[{key}]", notes[key], message, rule=_RULE)


def _faults(written: Mapping[str, Any]) -> Iterator[_Fault]:
    """Judge the annotations of one pod template (ValidateTASPodSetRequest)."""
    named = [key for key in _TOPOLOGIES if key in written]
    if len(named) > 1:
        yield named[-1], written[named[-1]], f"excludes {named[0]}, {_REFUSED}; remove one of the two"
    for key in (_REQUIRED, _PREFERRED, _SLICE):
        if isinstance(written.get(key), str) and not labels.is_key(written[key]):
            yield key, written[key], f"is not the key of a label of nodes, {_REFUSED}; correct it"
    if str(written.get(_UNCONSTRAINED, "true")) not in _TRUTHS:
        yield _UNCONSTRAINED, written[_UNCONSTRAINED], f"is true or false, {_REFUSED}; correct it"
    if _SLICE in written and _SIZE not in written:
        yield _SLICE, written[_SLICE], f"needs {_SIZE}, the pods of one slice, {_REFUSED}; add it"
    if _SIZE in written and _SLICE not in written and _LAYERS not in written:
        yield _SIZE, written[_SIZE], f"needs {_SLICE}, {_REFUSED}; add it, or remove this"
    if isinstance(written.get(_SIZE), str) and not _number(written[_SIZE]):
        yield _SIZE, written[_SIZE], f"is a number of pods from 1 on, {_REFUSED}; correct it"
    if _LAYERS in written and (_SLICE in written or _SIZE in written):
        other = _SLICE if _SLICE in written else _SIZE
        yield _LAYERS, None, f"excludes {other}, {_REFUSED}; remove one of the two"
    if _GROUP in written:
        yield from _of_group(written)


def _of_group(written: Mapping[str, Any]) -> Iterator[_Fault]:
    name = written[_GROUP]
    if isinstance(name, str) and name.isascii() and name.isdecimal():
        yield _GROUP, name, f"is a name, not a number, {_REFUSED}; rename it"
    others = [key for key in (_SIZE, _SLICE, _LAYERS) if key in written]
    if others:
        yield _GROUP, name, f"excludes {others[0]}, {_REFUSED}; remove one of the two"
    if _REQUIRED not in written and _PREFERRED not in written:
        yield _GROUP, name, f"needs {_REQUIRED} or {_PREFERRED}, {_REFUSED}; add one"


def _above(written: Mapping[str, Any], count: int) -> Iterator[_Fault]:
    size = _number(written.get(_SIZE))
    if size > count:
        yield _SIZE, written[_SIZE], f"is above the {count} pods of this replicated job, {_REFUSED}; lower it"


def _ungrouped(job: Job, group: Sequence[tuple[Template, Mapping[str, Any]]]) -> str:
    """Return what is wrong with the replicated jobs of one group (ValidatePodSetGroupingTopology)."""
    if len(group) != _PAIR:
        return f"is the group of {len(group)} replicated jobs, and a group has two, {_REFUSED}; correct it"
    counts = [topologies.pods_of_replicated_job(job, template.job) for template, _ in group]
    if 1 not in counts:
        both = " and ".join(map(str, counts))
        return f"is a group of {both} pods, and one of the two replicated jobs has one pod, {_REFUSED}; correct it"
    if any(group[0][1].get(key) != group[1][1].get(key) for key in (_REQUIRED, _PREFERRED)):
        return f"is a group of two replicated jobs that ask for different topologies, {_REFUSED}; correct one"
    return ""


def _number(text: Any) -> int:
    """Return a number of pods, 0 for what is none."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _DIGITS else 0
