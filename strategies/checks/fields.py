"""Fields: variables that are read from a label or an annotation of the pod that no pod has, so that they are empty.

Kubernetes takes a missing label for an empty text (kubernetes `pkg/fieldpath/fieldpath.go`
ExtractFieldPathAsString). Only names in the domains of the Job controller and of JobSet are judged: what these two give
to pods is known (`api/batch/v1/types.go`; jobset `pkg/controllers/jobset_controller.go` labelAndAnnotateObject,
`api/jobset/v1alpha2/jobset_types.go`).
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template

__all__ = ["check"]

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


def check(job: Job, template: Template) -> Iterator[Finding]:
    """Report the variables of the containers of a JobSet's pods that are read from what the pods do not have."""
    if job.kind != "JobSet":
        return
    for member in _MEMBERS:
        for index, container in enumerate(template.spec.get(member) or ()):
            env = container.get("env")
            for number, name in _unfilled(container) if container.get("volumeMounts") else ():
                place = (*template.pod_path, member, index, "volumeMounts", number, "subPathExpr")
                message = "the container has no variable of this name, so the kubelet never starts it; add it to env"
                yield error(template.locate(place), name, message, rule="core/sub-path")
            for number, key in _unknown(env) if env else ():
                if not any(
                    key in written for part in ("labels", "annotations") for written, _ in template.metadata(part)
                ):
                    place = (*template.pod_path, member, index, "env", number, "valueFrom", "fieldRef", "fieldPath")
                    message = (
                        "neither Kubernetes nor JobSet gives it to pods, so the variable is empty; "
                        f"use {_near(key)}, or write it into the labels of the pod template"
                    )
                    yield warning(template.locate(place), key, message, rule="core/unset-field")


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
