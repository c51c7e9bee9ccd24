"""Fields: names of labels, variables and objects that the kubelet never finds, so that it waits or fills in nothing.

Kubernetes takes a missing label for an empty text (kubernetes `pkg/fieldpath/fieldpath.go`
ExtractFieldPathAsString). Only names in the domains of the Job controller and of JobSet are judged: what these two give
to pods is known (`api/batch/v1/types.go`; jobset `pkg/controllers/jobset_controller.go` labelAndAnnotateObject,
`api/jobset/v1alpha2/jobset_types.go`). No ConfigMap, Secret or claim has a name that its own validation refuses
(kubernetes `pkg/apis/core/validation/validation.go` ValidateConfigMapName).
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import labels, loose
from muster.strategies.documents.findings import Severity
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template

__all__ = ["Fault", "faults", "unnamed"]

Fault = tuple[Path, Any, str, str, Severity]
"""Place inside the pod spec, value, message, rule and severity."""

_BATCH, _JOBSET, _FORMER = "batch.kubernetes.io/", "jobset.sigs.k8s.io/", "jobset.x-k8s.io/"
_OF_BATCH = (
    *("job-name", "controller-uid", "job-completion-index", "cronjob-scheduled-timestamp"),
    *("job-index-failure-count", "job-index-ignored-failure-count"),
)
_OF_JOBSET = (
    *("jobset-name", "jobset-uid", "replicatedjob-name", "replicatedjob-replicas", "global-replicas", "job-index"),
    *("job-global-index", "job-key", "coordinator", "group-name", "group-replicas", "job-group-index"),
    *("restart-attempt", "job-restart-attempt", "in-place-restart-attempt", "disable-in-place-restart"),
)
_GIVEN = frozenset({*(_BATCH + each for each in _OF_BATCH), *(_JOBSET + each for each in _OF_JOBSET)})
_MEMBERS = ("containers", "initContainers")
_KEYED = ("metadata.labels['", "metadata.annotations['")
_source: Callable[[Mapping[str, Any]], Any] = operator.methodcaller("get", "valueFrom")


def faults(job: Job, template: Template) -> Iterator[Fault]:
    """Yield what the kubelet never finds for the containers and volumes of one pod."""
    for index, volume in enumerate(loose.items(template.raw_spec, "volumes")):
        for kind, member in _VOLUMES.items():
            for inside, value, message in _named(loose.mapping(volume.get(kind)), member):
                yield ("volumes", index, kind, *inside), value, message, "core/object-name", Severity.ERROR
    for part in _MEMBERS:
        for index, container in enumerate(template.raw_spec.get(part) or ()):
            found = [(*each, "core/object-name", Severity.ERROR) for each in unnamed(container)]
            found += _of_container(template, container) if job.kind == "JobSet" else ()
            for inside, value, message, rule, severity in found:
                yield (part, index, *inside), value, message, rule, severity


def _of_container(template: Template, container: Mapping[str, Any]) -> Iterator[Fault]:
    for number, name in _unfilled(container) if container.get("volumeMounts") else ():
        message = "the container has no variable of this name, so the kubelet never starts it; add it to env"
        yield ("volumeMounts", number, "subPathExpr"), name, message, "core/sub-path", Severity.ERROR
    for number, key in _unknown(container.get("env") or ()):
        if not any(key in written for kind in ("labels", "annotations") for written, _ in template.metadata(kind)):
            message = (
                "neither Kubernetes nor JobSet gives it to pods, so the variable is empty; "
                f"use {_near(key)}, or write it into the labels of the pod template"
            )
            place: Path = ("env", number, "valueFrom", "fieldRef", "fieldPath")
            yield place, key, message, "core/unset-field", Severity.WARNING


def unnamed(holder: Mapping[str, Any]) -> Iterator[tuple[Path, Any, str]]:
    """Yield the names in `env` that no ConfigMap and no Secret can have."""
    for index, entry in enumerate(holder.get("env") or ()):
        for kind in ("configMapKeyRef", "secretKeyRef") if entry.get("valueFrom") else ():
            for inside, value, message in _named(loose.member(entry["valueFrom"], kind), "name"):
                yield ("env", index, "valueFrom", kind, *inside), value, message


def _named(source: Mapping[str, Any], member: str) -> Iterator[tuple[Path, Any, str]]:
    name = source.get(member)
    if isinstance(name, str) and name and not labels.is_object(name) and source.get("optional") is not True:
        message = "no object has a name of other than small letters, digits, - and ., so the containers wait for it"
        yield (member,), name, f"{message} for ever; correct it"


_VOLUMES = {"persistentVolumeClaim": "claimName", "configMap": "name", "secret": "secretName"}


def _unfilled(container: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the variables in the paths of mounts that nothing sets (kubelet ExpandContainerVolumeMounts)."""
    mounts = container["volumeMounts"]
    if not isinstance(mounts, list) or container.get("envFrom"):
        return
    paths = [mount.get("subPathExpr") if isinstance(mount, dict) else None for mount in mounts]
    if not any(paths):
        return
    known = {entry.get("name") for entry in container.get("env") or ()} | _GIVEN_BY_KUBERNETES
    for index, text in enumerate(paths):
        for name in _REFERENCE.findall(text[:_LONGEST]) if isinstance(text, str) else ():
            if name not in known and "_SERVICE_" not in name and "_PORT" not in name:
                yield index, name


_GIVEN_BY_KUBERNETES = {"JOB_COMPLETION_INDEX"}  # and what it gives of Services
_REFERENCE = re.compile(r"(?<!\$)\$\(([A-Za-z_][\w.-]*)\)")
_LONGEST = 4096


def _unknown(env: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """Yield the entries that name a key of these domains which nobody gives."""
    sources = list(map(_source, env))
    for index in itertools.compress(itertools.count(), sources):
        reference = sources[index].get("fieldRef")
        path = reference.get("fieldPath") if isinstance(reference, dict) else None
        if isinstance(path, str) and path not in _USUAL and path.startswith(_KEYED) and path.endswith("']"):
            key = path.partition("['")[2][:-2]
            if key not in _GIVEN and key.startswith((_BATCH, _JOBSET, _FORMER)):
                yield index, key


_USUAL = frozenset(f"{start}{key}']" for start in _KEYED for key in _GIVEN)


def _near(key: str) -> str:
    """Return what may be meant: the key of the same name in the right domain, else the index of the pod."""
    name = key.partition("/")[2]
    return next((each for each in sorted(_GIVEN) if each.endswith(f"/{name}")), f"{_BATCH}job-completion-index")
