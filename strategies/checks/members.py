"""Members of a pod that exclude each other, and names of objects that no object can have.

JobSet's webhook looks at none of them. Sources: kubernetes `pkg/apis/core/validation/validation.go`
validateHostUsers, validateContainerResizePolicy, ValidateServiceAccountName, validateSecretKeySelector,
`plugin/pkg/admission/priority/admission.go` computePriority; the names of ConfigMaps, Secrets and claims of volumes are
those of their own validation (ValidateConfigMapName), so that a pod which names another one waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.checks import images
from muster.strategies.documents import labels, loose
from muster.strategies.documents.paths import Path
from muster.strategies.launches.endless import Reader

__all__ = ["Fault", "endless_init", "faults"]

Fault = tuple[Path, Any, str, str]
"""Place inside the pod spec, value, message and rule."""

_REFUSED = "so the API server refuses the pod"
_WAITS = "so the containers wait for it for ever"
_CONFLICT, _NAMED = "core/pod-member", "core/object-name"
_HOST = ("hostNetwork", "hostPID", "hostIPC")
_CLASSES = ("serviceAccountName", "runtimeClassName", "priorityClassName")
_VOLUMES = {"persistentVolumeClaim": "claimName", "configMap": "name", "secret": "secretName"}
_SOURCES = ("configMapKeyRef", "secretKeyRef")


def faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with the members of one pod, whose shape has been checked."""
    if spec.get("hostUsers") is False:
        yield from _host_users(spec)
    if spec.get("shareProcessNamespace") is True and spec.get("hostPID") is True:
        message = f"a pod cannot have this and hostPID at once, {_REFUSED}; remove it, or hostPID"
        yield ("shareProcessNamespace",), True, message, _CONFLICT
    if spec.get("priority") and not spec.get("priorityClassName"):
        message = (
            f"the number comes from a class of priorities alone, {_REFUSED}; write the name of the class into "
            "priorityClassName"
        )
        yield ("priority",), spec["priority"], message, _CONFLICT
    for member in _CLASSES:
        name = spec.get(member)
        if isinstance(name, str) and name and not labels.is_object(name):
            yield (member,), name, f"{_NO_NAME}, {_REFUSED}; correct it", _NAMED
    for index, volume in enumerate(loose.sequence(spec.get("volumes"))):
        for inside, name in _named(volume):
            yield ("volumes", index, *inside), name, f"{_NO_NAME}, {_WAITS}; correct it", _NAMED
    yield from _of_containers(spec)


def _of_containers(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for member in ("containers", "initContainers"):
        for index, container in enumerate(loose.sequence(spec.get(member))):
            for inside, value, message, rule in _of_container(container, spec):
                yield (member, index, *inside), value, message, rule


def endless_init(spec: Mapping[str, Any], reader: Reader) -> Iterator[Fault]:
    """Yield the init containers that never end, so that their pod never starts."""
    for index, container in enumerate(loose.sequence(spec.get("initContainers"))):
        if container.get("restartPolicy") != "Always" and reader.never_ends(container):
            message = (
                "never ends, and the other containers start when this init container has ended, so that the pod never "
                "starts; write restartPolicy: Always, which makes it run beside them"
            )
            yield ("initContainers", index, "command"), container.get("name"), message, "core/endless-init"


_NO_NAME = "no object has a name of other than small letters, digits, - and ."


def _host_users(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for member in _HOST:
        if spec.get(member) is True:
            message = f"hostUsers: false excludes it, {_REFUSED}; remove one of the two"
            yield (member,), True, message, _CONFLICT


def _named(volume: Any) -> Iterator[tuple[Path, str]]:
    """Yield the place of a name that no object of a volume can have."""
    for kind, member in _VOLUMES.items() if isinstance(volume, dict) else ():
        source = volume.get(kind)
        name = source.get(member) if isinstance(source, dict) else None
        if isinstance(name, str) and name and not labels.is_object(name) and source.get("optional") is not True:
            yield (kind, member), name


def _of_container(container: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Fault]:
    image = container.get("image")
    wrong = images.wrong(image) if isinstance(image, str) and image == image.strip() else ""
    if wrong:
        yield ("image",), image, f"the kubelet never starts this container: {wrong}", "core/image"
    for index, entry in enumerate(loose.sequence(container.get("env"))):
        if entry.get("valueFrom") is not None:
            yield from _reference(("env", index, "valueFrom"), entry["valueFrom"])
    for index, policy in enumerate(loose.sequence(container.get("resizePolicy"))):
        if spec.get("restartPolicy") == "Never" and loose.mapping(policy).get("restartPolicy") == "RestartContainer":
            message = f"a pod with restartPolicy: Never takes NotRequired alone, {_REFUSED}; write it, or remove this"
            yield ("resizePolicy", index, "restartPolicy"), "RestartContainer", message, _CONFLICT


def _reference(place: Path, source: Any) -> Iterator[Fault]:
    """Judge the ConfigMap or the Secret, and the key in it, that a variable names."""
    for kind in _SOURCES:
        held = loose.member(source, kind)
        name, key = held.get("name"), held.get("key")
        if isinstance(name, str) and name and not labels.is_object(name) and held.get("optional") is not True:
            yield (*place, kind, "name"), name, f"{_NO_NAME}, {_WAITS}; correct it", _NAMED
        if key == "":
            yield (*place, kind, "key"), "", f"needs the key of the value, {_REFUSED}; write it", "core/env-source"
