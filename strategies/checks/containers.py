"""Containers: members of a pod that the API server refuses, or the kubelet never starts.

JobSet's webhook looks at none of them. Source: kubernetes `pkg/apis/core/validation/validation.go`
(validateContainerCommon, validateInitContainers, validateEnvVarValueFrom, validateProbe, ValidateSecurityContext),
`pkg/kubelet/kuberuntime/security_context_others.go`.

Only members of the right type are judged: the API server refuses the others, and says so at once.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.checks import mounts, profiles, sources, surroundings
from muster.strategies.checks.sources import Fault
from muster.strategies.documents import labels, loose
from muster.strategies.documents.paths import Path

__all__ = ["Fault", "environment", "faults"]

_REFUSED = "so the API server refuses the pod"
_FIELDS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "spec.host"}
    | {"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
)
_MAPS = ("metadata.labels", "metadata.annotations")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_OF_SIDECARS = ("lifecycle", *_PROBES)
_WORDS = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_HIGHEST_PORT = 65_535
_USERS = ("runAsUser", "runAsNonRoot")
_ROOT = "user 0 is root, and runAsNonRoot forbids it, so the kubelet never starts the container; correct one of the two"


def faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with the containers and volumes of one pod, each at its place inside the pod spec."""
    outer = loose.mapping(spec.get("securityContext"))
    if outer and _is_root(outer) and any(_inherits(each) for each in spec.get("containers") or ()):
        yield ("securityContext", "runAsUser"), 0, _ROOT, "core/security-context"
    yield from _of_all(spec, outer)
    if spec.get("hostNetwork") is True:
        yield from _host_ports(spec)
    yield from _of_init_containers(spec)
    yield from sources.faults(spec.get("volumes"))


def _of_all(spec: Mapping[str, Any], outer: Mapping[str, Any]) -> Iterator[Fault]:
    for member in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(member) or ()):
            if "lifecycle" in container:
                for place, value, message, rule in _pauses(container, spec.get("terminationGracePeriodSeconds")):
                    yield (member, index, *place), value, message, rule
            if "volumeMounts" in container:
                for place, value, message, rule in mounts.faults(container):
                    yield (member, index, *place), value, message, rule
            if not _JUDGED.isdisjoint(container):
                for place, value, message, rule in _container(container, outer):
                    yield (member, index, *place), value, message, rule


def _pauses(container: Mapping[str, Any], grace: Any) -> Iterator[Fault]:
    """Compare the pauses of a container's hooks with the time that the pod has for its end (validateSleepAction)."""
    grace, hooks = _GRACE if grace is None else grace, loose.mapping(container.get("lifecycle"))
    for name in hooks:
        seconds = loose.member(hooks[name], "sleep").get("seconds")
        if type(seconds) is int and type(grace) is int and not 0 <= seconds <= grace:
            message = f"is not within terminationGracePeriodSeconds, {grace}, {_REFUSED}; correct one of them"
            yield ("lifecycle", name, "sleep", "seconds"), seconds, message, "core/hook"


_GRACE = 30  # seconds, the default of Kubernetes


def _host_ports(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Compare the ports of containers on the network of the machine, where both are the same port."""
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            theirs, own = port.get("hostPort"), port.get("containerPort")
            if type(theirs) is int and theirs and theirs != own:
                message = f"is the containerPort, {own}, where hostNetwork is true, {_REFUSED}; remove it"
                yield ("containers", index, "ports", number, "hostPort"), theirs, message, "core/port"


def _of_init_containers(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for index, container in enumerate(spec.get("initContainers") or ()):
        for name in _OF_SIDECARS if container.get("restartPolicy") != "Always" else ():
            if container.get(name) is not None:
                message = (
                    f"an init container has none unless its restartPolicy is Always, {_REFUSED}; remove it, or write "
                    "restartPolicy: Always where it runs beside the others"
                )
                yield ("initContainers", index, name), None, message, "core/probe"


def environment(entries: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    """Yield what is wrong with the sources of a list of variables, each at its place inside that list."""
    called = list(map(_name, entries))
    if not all(called) or "=" in "".join(called):
        for index, name in enumerate(called):
            if not name or "=" in name:
                yield (
                    (index, "name"),
                    name,
                    f"a variable has a name without =, {_REFUSED}; correct it",
                    "core/env-source",
                )
    sources = list(map(_source, entries))
    for index in itertools.compress(itertools.count(), map(operator.is_not, sources, itertools.repeat(None))):
        entry, source = entries[index], sources[index]
        held = [name for name in _SOURCES if source.get(name) is not None]
        if len(held) != 1:
            message = f"needs one source of {', '.join(_SOURCES[:-1])}, {_REFUSED}; correct it"
            yield (index, "valueFrom"), None, message, "core/env-source"
        elif entry.get("value"):
            message = f"has a value and a source of one, {_REFUSED}; remove one of the two"
            yield (index, "valueFrom"), None, message, "core/env-source"
        else:
            for place, value, message in _reference(held[0], loose.mapping(source[held[0]])):
                yield (index, "valueFrom", held[0], place), value, message, "core/env-source"


_name: Callable[[Mapping[str, Any]], Any] = operator.methodcaller("get", "name")
_source: Callable[[Mapping[str, Any]], Any] = operator.methodcaller("get", "valueFrom")
_Inner = tuple[Path, Any, str]


def _container(container: Mapping[str, Any], outer: Mapping[str, Any]) -> Iterator[Fault]:
    for member in container:
        if member in _JUDGES and container[member] is not None:
            for place, found, message, rule in _JUDGES[member](member, container[member], outer):
                yield (member, *place), found, message, rule


def _env(_member: str, entries: Any, _outer: object) -> Iterator[Fault]:
    return environment(entries)


def _reference(kind: str, source: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Judge a field or a resource of the pod that a variable names."""
    if kind == "fieldRef":
        path = source.get("fieldPath")
        if isinstance(path, str) and not _is_field(path):
            message = (
                f"is not a field that a variable can have, {_REFUSED}; use metadata.labels['KEY'], "
                f"metadata.annotations['KEY'] or one of {', '.join(sorted(_FIELDS - {'spec.host'}))}"
            )
            yield "fieldPath", path, message
    elif kind == "resourceFieldRef":
        name = source.get("resource")
        if isinstance(name, str) and not _is_resource(name):
            message = (
                "a variable can have the limits or requests of cpu, memory, ephemeral-storage and huge pages alone, "
                f"{_REFUSED}; write the number itself"
            )
            yield "resource", name, message
    else:
        yield from surroundings.key(kind, source)


def _is_field(path: str) -> bool:
    if path in _FIELDS:
        return True
    start, bracket, rest = path.partition("['")
    if not bracket or not rest.endswith("']") or start not in _MAPS:
        return False
    return labels.is_key(rest[:-2] if start == _MAPS[0] else rest[:-2].lower())


def _is_resource(name: str) -> bool:
    part, _, resource = name.partition(".")
    return part in ("limits", "requests") and (resource in _RESOURCES or resource.startswith("hugepages-"))


def _word(member: str, value: Any, _outer: object) -> Iterator[Fault]:
    allowed = _WORDS[member]
    if isinstance(value, str) and value and value not in allowed:
        yield (), value, f"is not {' or '.join(allowed)}, {_REFUSED}; use one of them", "core/word"


def _image(_member: str, value: Any, _outer: object) -> Iterator[Fault]:
    if isinstance(value, str) and value != value.strip():
        yield (), value, f"begins or ends with white space, {_REFUSED}; remove it", "core/word"


def _folder(_member: str, value: Any, _outer: object) -> Iterator[Fault]:
    """Judge the folder that a container starts in (OCI runtime-spec `config.md`, process.cwd)."""
    if isinstance(value, str) and value and not value.startswith("/"):
        message = "is not an absolute path, so the container runtime never starts the container; begin it with /"
        yield (), value, message, "core/working-dir"


def _ports(_member: str, ports: Any, _outer: object) -> Iterator[Fault]:
    names = set()
    for index, port in enumerate(ports):
        number, protocol, name = port.get("containerPort"), port.get("protocol"), port.get("name")
        if type(number) is int and not 0 < number <= _HIGHEST_PORT:
            message = f"is not a port, which is a number from 1 to {_HIGHEST_PORT}, {_REFUSED}; correct it"
            yield (index, "containerPort"), number, message, "core/port"
        if isinstance(protocol, str) and protocol and protocol not in _PROTOCOLS:
            message = f"is not {' or '.join(_PROTOCOLS)}, {_REFUSED}; use one of them"
            yield (index, "protocol"), protocol, message, "core/port"
        if isinstance(name, str) and name:
            if name in names:
                message = f"another port of the container has this name, {_REFUSED}; rename one"
                yield (index, "name"), name, message, "core/port"
            names.add(name)


def _security(_member: str, context: Any, outer: Mapping[str, Any]) -> Iterator[Fault]:
    if not isinstance(context, dict):
        return
    rule = "core/security-context"
    if context.get("allowPrivilegeEscalation") is False:
        added = loose.mapping(context.get("capabilities")).get("add")
        raised = isinstance(added, list) and "CAP_SYS_ADMIN" in added
        if context.get("privileged") is True or raised:
            what = "CAP_SYS_ADMIN" if raised else "privileged"
            message = f"{what} excludes allowPrivilegeEscalation: false, {_REFUSED}; remove one of the two"
            yield ("allowPrivilegeEscalation",), False, message, rule
    yield from profiles.faults(context)
    own = next((name for name in _USERS if context.get(name) is not None), None)
    if own is not None and _is_root({**outer, **{name: context[name] for name in _USERS if name in context}}):
        yield (own,), context[own], _ROOT, rule


def _inherits(container: Mapping[str, Any]) -> bool:
    """Whether a container says nothing of its user, so that the pod's word holds for it."""
    own = loose.mapping(container.get("securityContext"))
    return all(own.get(name) is None for name in _USERS)


def _is_root(context: Mapping[str, Any]) -> bool:
    return context.get("runAsNonRoot") is True and type(context.get("runAsUser")) is int and context["runAsUser"] == 0


def _probe(member: str, probe: Any, _outer: object) -> Iterator[Fault]:
    if not isinstance(probe, dict):
        return
    kinds = [name for name in _HANDLERS if probe.get(name) is not None]
    if len(kinds) != 1:
        has = " and ".join(kinds) or "none"
        message = f"needs one of {', '.join(_HANDLERS)}, and has {has}, {_REFUSED}; correct it"
        yield (), None, message, "core/probe"
    yield from surroundings.action(probe)
    for name in _NUMBERS:
        if type(probe.get(name)) is int and probe[name] < 0:
            yield (name,), probe[name], f"is below 0, {_REFUSED}; raise it", "core/probe"
    needed = probe.get("successThreshold")
    if member != "readinessProbe" and type(needed) is int and needed > 1:
        message = f"is 1 in a livenessProbe and a startupProbe, {_REFUSED}; remove it"
        yield ("successThreshold",), needed, message, "core/probe"


_JUDGES: Mapping[str, Callable[[str, Any, Mapping[str, Any]], Iterator[Fault]]] = {
    "env": _env,
    "envFrom": surroundings.env_from,
    "lifecycle": surroundings.hooks,
    "image": _image,
    "workingDir": _folder,
    "ports": _ports,
    "securityContext": _security,
    **dict.fromkeys(_WORDS, _word),
    **dict.fromkeys(_PROBES, _probe),
}
_JUDGED = frozenset(_JUDGES)
