"""Fields: names of labels, variables and objects that the kubelet never finds, so that it waits or fills in nothing.

Kubernetes takes a missing label for an empty text (kubernetes `pkg/fieldpath/fieldpath.go`
ExtractFieldPathAsString). Only names in the domains of the Job controller and of JobSet are judged: what these two give
to pods is known (`api/batch/v1/types.go`; jobset `pkg/controllers/jobset_controller.go` labelAndAnnotateObject,
`api/jobset/v1alpha2/jobset_types.go`). No ConfigMap, Secret or claim has a name that its own validation refuses
(kubernetes `pkg/apis/core/validation/validation.go` ValidateConfigMapName).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from muster.strategies.documents import labels
from muster.strategies.documents.findings import Severity
from muster.strategies.documents.model import Container, EnvVar, EnvVarSource, Volume
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
_KEYED = ("metadata.labels['", "metadata.annotations['")


def faults(job: Job, template: Template) -> Iterator[Fault]:
    """Yield what the kubelet never finds for the containers and volumes of one pod."""
    for index, volume in enumerate(template.pod.volumes):
        for place, name in _of_volume(volume):
            yield ("volumes", index, *place), name, _UNNAMED, "core/object-name", Severity.ERROR
    for inside, container in template.containers:
        found = [(*each, "core/object-name", Severity.ERROR) for each in unnamed(container.env)]
        found += _of_container(template, container) if job.kind == "JobSet" else ()
        for place, value, message, rule, severity in found:
            yield (*inside, *place), value, message, rule, severity


def _of_container(template: Template, container: Container) -> Iterator[Fault]:
    for number, name in _unfilled(container):
        message = "the container has no variable of this name, so the kubelet never starts it; add it to env"
        yield ("volumeMounts", number, "subPathExpr"), name, message, "core/sub-path", Severity.ERROR
    for number, key in _unknown(container.env):
        meta = (template.job.template.spec.template.metadata, template.job.template.metadata)
        if not any(key in each.labels or key in each.annotations for each in meta):
            message = (
                "neither Kubernetes nor JobSet gives it to pods, so the variable is empty; "
                f"use {_near(key)}, or write it into the labels of the pod template"
            )
            place: Path = ("env", number, "valueFrom", "fieldRef", "fieldPath")
            yield place, key, message, "core/unset-field", Severity.WARNING


def unnamed(env: Sequence[EnvVar]) -> Iterator[tuple[Path, Any, str]]:
    """Yield the names in `env` that no ConfigMap and no Secret can have."""
    for index, entry in enumerate(env):
        source = entry.value_from or EnvVarSource()
        for kind, ref in (("configMapKeyRef", source.config_map_key_ref), ("secretKeyRef", source.secret_key_ref)):
            if ref is not None and not ref.optional and _is_wrong(ref.name):
                yield ("env", index, "valueFrom", kind, "name"), ref.name, _UNNAMED


def _of_volume(volume: Volume) -> Iterator[tuple[Path, str]]:
    """Yield the names in a volume that no object can have."""
    claim, files, secret = volume.persistent_volume_claim, volume.config_map, volume.secret
    if claim is not None and _is_wrong(claim.claim_name):
        yield ("persistentVolumeClaim", "claimName"), claim.claim_name
    if files is not None and not files.optional and _is_wrong(files.name):
        yield ("configMap", "name"), files.name
    if secret is not None and not secret.optional and _is_wrong(secret.secret_name):
        yield ("secret", "secretName"), secret.secret_name


def _is_wrong(name: str) -> bool:
    return bool(name) and not labels.is_object(name)


_UNNAMED = (
    "no object has a name of other than small letters, digits, - and ., so the containers wait for it for ever; "
    "correct it"
)


def _unfilled(container: Container) -> Iterator[tuple[int, str]]:
    """Yield the variables in the paths of mounts that nothing sets (kubelet ExpandContainerVolumeMounts)."""
    if container.env_from or not any(each.sub_path_expr for each in container.volume_mounts):
        return
    known = {entry.name for entry in container.env} | _GIVEN_BY_KUBERNETES
    for index, mount in enumerate(container.volume_mounts):
        for name in _REFERENCE.findall(mount.sub_path_expr[:_LONGEST]):
            if name not in known and "_SERVICE_" not in name and "_PORT" not in name:
                yield index, name


_GIVEN_BY_KUBERNETES = {"JOB_COMPLETION_INDEX"}  # and what it gives of Services
_REFERENCE = re.compile(r"(?<!\$)\$\(([A-Za-z_][\w.-]*)\)")
_LONGEST = 4096


def _unknown(env: Sequence[EnvVar]) -> Iterator[tuple[int, str]]:
    """Yield the entries that name a key of these domains which nobody gives."""
    for index, entry in enumerate(env):
        reference = entry.value_from.field_ref if entry.value_from is not None else None
        path = reference.field_path if reference is not None else ""
        if path not in _USUAL and path.startswith(_KEYED) and path.endswith("']"):
            key = path.partition("['")[2][:-2]
            if key not in _GIVEN and key.startswith((_BATCH, _JOBSET, _FORMER)):
                yield index, key


_USUAL = frozenset(f"{start}{key}']" for start in _KEYED for key in _GIVEN)


def _near(key: str) -> str:
    """Return what may be meant: the key of the same name in the right domain, else the index of the pod."""
    name = key.partition("/")[2]
    return next((each for each in sorted(_GIVEN) if each.endswith(f"/{name}")), f"{_BATCH}job-completion-index")
