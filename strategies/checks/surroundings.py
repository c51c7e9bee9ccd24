"""Surroundings of containers: names, files, resolvers, variables and hooks that the API server refuses.

JobSet's webhook looks at none of them, so that a Job, or its pods, are refused hours later. Source: kubernetes v1.36.3
`pkg/apis/core/validation/validation.go` (ValidateEnvFrom, ValidateEnv, validateConfigMapKeySelector, validateHandler,
validatePodDNSConfig, ValidateHostAliases, validateOS, ValidatePreemptionPolicy, validateSysctls,
validateLocalNonReservedPath, validateDownwardAPIVolumeFile).

Only members of the right type are judged. What no pod has is not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.strategies.checks import profiles
from muster.strategies.documents import labels, loose
from muster.strategies.documents.paths import Path

__all__ = ["Fault", "action", "env_from", "faults", "hooks", "key"]

Fault = tuple[Path, Any, str, str]
"""Place inside the pod spec, value, message and rule."""

_REFUSED = "so the API server refuses the pod"
_CONFLICT, _ENV, _FILE = "core/pod-member", "core/env-source", "core/volume-source"
_WORDS = {
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "preemptionPolicy": ("PreemptLowerPriority", "Never"),
}
_SYSTEMS = ("linux", "windows")
_MOST_SERVERS, _HIGHEST_PORT, _LONGEST_KEY = 3, 65_535, 253
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_SYSCTL = re.compile(r"[a-z0-9][-_a-z0-9]*([./][a-z0-9][-_a-z0-9]*)*")
_HOST = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_FIELDS = frozenset({"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"})
_KEYED = ("metadata.labels['", "metadata.annotations['")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_NUMBERS = ("fsGroup", "runAsUser", "runAsGroup")


def faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong around the containers of one pod, whose shape has been checked."""
    if _JUDGED.isdisjoint(spec):
        return
    for member, judge in _OF_PODS.items():
        if spec.get(member) is not None:
            yield from judge(member, spec)


def _word(member: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    value, allowed = spec[member], _WORDS[member]
    if isinstance(value, str) and value and value not in allowed:
        yield (member,), value, f"is not {' or '.join(allowed)}, {_REFUSED}; use one of them", _CONFLICT
    elif value == "None" and not loose.sequence(loose.mapping(spec.get("dnsConfig")).get("nameservers")):
        message = f"needs dnsConfig.nameservers, {_REFUSED}; add them, or use ClusterFirst"
        yield (member,), value, message, _CONFLICT


def _resolver(member: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    servers = loose.sequence(loose.mapping(spec[member]).get("nameservers"))
    if len(servers) > _MOST_SERVERS:
        yield (member, "nameservers"), len(servers), f"are at most {_MOST_SERVERS}, {_REFUSED}", _CONFLICT
    for index, server in enumerate(servers[:_MOST_SERVERS]):
        if isinstance(server, str) and not _ADDRESS.fullmatch(server):
            yield (member, "nameservers", index), server, f"is not an IP address, {_REFUSED}; write one", _CONFLICT


def _aliases(member: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    for index, alias in enumerate(loose.sequence(spec[member])):
        address = loose.mapping(alias).get("ip")
        if isinstance(address, str) and not _ADDRESS.fullmatch(address):
            yield (member, index, "ip"), address, f"is not an IP address, {_REFUSED}; write one", _CONFLICT


def _name(member: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    value = spec[member]
    right = labels.is_object if member == "nodeName" else _HOST.fullmatch
    if isinstance(value, str) and value and not right(value):
        yield (member,), value, f"takes small letters, digits and -, {_REFUSED}; correct it", "core/name"


def _system(member: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    name = loose.mapping(spec[member]).get("name")
    if isinstance(name, str) and name not in _SYSTEMS:
        yield (member, "name"), name, f"is not {' or '.join(_SYSTEMS)}, {_REFUSED}; use one of them", _CONFLICT


def _security(member: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    context = loose.mapping(spec[member])
    for name in _NUMBERS:
        if type(context.get(name)) is int and context[name] < 0:
            yield (member, name), context[name], f"is below 0, {_REFUSED}; correct it", "core/security-context"
    for inside, value, message, rule in profiles.faults(context):
        yield (member, *inside), value, message, rule
    for index, entry in enumerate(loose.sequence(context.get("sysctls"))):
        written = loose.mapping(entry).get("name")
        if isinstance(written, str) and not (len(written) <= _LONGEST_KEY and _SYSCTL.fullmatch(written)):
            message = f"is not a name of sysctl, {_REFUSED}; write it as net.core.somaxconn"
            yield (member, "sysctls", index, "name"), written, message, "core/security-context"


def _volumes(member: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    for index, volume in enumerate(loose.sequence(spec[member])):
        if not isinstance(volume, dict) or _OF_FILES.isdisjoint(volume):
            continue
        sources: list[tuple[Path, Mapping[str, Any]]] = [((), volume)]
        sources += [
            (("projected", "sources", number), loose.mapping(each))
            for number, each in enumerate(loose.sequence(loose.mapping(volume.get("projected")).get("sources")))
        ]
        for place, held in sources:
            for kind in [each for each in held if each in _KINDS]:
                for inside, value, message in _items(kind, held[kind]):
                    yield (member, index, *place, kind, *inside), value, message, _FILE


_KINDS = frozenset({"configMap", "secret", "downwardAPI"})
_OF_FILES = _KINDS | {"projected"}


def _items(kind: str, source: Any) -> Iterator[tuple[Path, Any, str]]:
    for index, item in enumerate(loose.sequence(loose.mapping(source).get("items"))):
        path = loose.mapping(item).get("path")
        if isinstance(path, str) and (path.startswith(("/", "..")) or ".." in path.split("/")):
            yield ("items", index, "path"), path, f"is relative and has no .., {_REFUSED}; write it without"
        field = loose.member(item, "fieldRef").get("fieldPath")
        if kind == "downwardAPI" and isinstance(field, str) and field not in _FIELDS and not field.startswith(_KEYED):
            message = f"is not a field that a file can have, {_REFUSED}; use one of {', '.join(sorted(_FIELDS))}"
            yield ("items", index, "fieldRef", "fieldPath"), field, message


def env_from(_member: str, sources: Any, _outer: object) -> Iterator[Fault]:
    """Yield what is wrong with the objects that a container takes all its variables from."""
    for index, source in enumerate(loose.sequence(sources)):
        held = [name for name in ("configMapRef", "secretRef") if loose.mapping(source).get(name) is not None]
        if len(held) != 1:
            message = f"needs one of configMapRef and secretRef, {_REFUSED}; write an entry for each"
            yield (index,), None, message, _ENV
        for name in held:
            written = loose.mapping(source[name]).get("name")
            if isinstance(written, str) and not labels.is_object(written.removesuffix("-") or "-"):
                message = f"no object has a name of other than small letters, digits, - and ., {_REFUSED}; correct it"
                yield (index, name, "name"), written, message, "core/object-name"


def key(kind: str, source: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield what is wrong with the key of a ConfigMap or a Secret that a variable names."""
    written = source.get("key") if kind in ("configMapKeyRef", "secretKeyRef") else None
    if isinstance(written, str) and written and not _is_key(written):
        yield "key", written, f"a key has letters, digits, -, _ and . alone, {_REFUSED}; correct it"


def _is_key(key: str) -> bool:
    return len(key) <= _LONGEST_KEY and _KEY.fullmatch(key) is not None and key != "." and not key.startswith("..")


def hooks(_member: str, lifecycle: Any, _outer: object) -> Iterator[Fault]:
    """Yield what is wrong with the hooks of a container."""
    for name in ("postStart", "preStop"):
        hook = loose.mapping(lifecycle).get(name)
        held = [kind for kind in _HANDLERS if loose.mapping(hook).get(kind) is not None]
        if isinstance(hook, dict) and len(held) != 1:
            message = f"needs one of {', '.join(_HANDLERS)}, {_REFUSED}; correct it"
            yield (name,), " and ".join(held) or None, message, "core/hook"


def action(probe: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with the port and the scheme of a probe."""
    for kind in ("httpGet", "tcpSocket", "grpc"):
        asked = loose.mapping(probe.get(kind))
        port, scheme = asked.get("port"), asked.get("scheme")
        if type(port) is int and not 0 < port <= _HIGHEST_PORT:
            message = f"is not a port, which is a number from 1 to {_HIGHEST_PORT}, {_REFUSED}; correct it"
            yield (kind, "port"), port, message, "core/probe"
        if isinstance(scheme, str) and scheme not in ("", "HTTP", "HTTPS"):
            yield (kind, "scheme"), scheme, f"is not HTTP or HTTPS, {_REFUSED}; use one of them", "core/probe"


_OF_PODS: Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[Fault]]] = {
    **dict.fromkeys(_WORDS, _word),
    **dict.fromkeys(("nodeName", "hostname"), _name),
    "dnsConfig": _resolver,
    "hostAliases": _aliases,
    "os": _system,
    "securityContext": _security,
    "volumes": _volumes,
}
_JUDGED = frozenset(_OF_PODS)
