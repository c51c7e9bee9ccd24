"""Shapes: whether the members that Muster reads have the types that Kubernetes defines.

The API server has checked an admitted object against its CRD. A file given to the CLI has passed no such check, and a
plugin should not crash on `command: trl sft`. The types are checked here once, and all later code relies on them.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.strategies.documents import paths
from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.paths import Path

__all__ = ["check"]

_STRINGS = [str]
_TEXTS = {"": str}
"""An object whose members may have any name and are strings."""
_ENV = [{"name": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath": str}}}]
_RESOURCES = {"limits": {}, "requests": {}, "claims": [{"name": str, "request": str}]}
_METADATA = {
    "name": str,
    "namespace": str,
    "generateName": str,
    "labels": _TEXTS,
    "annotations": _TEXTS,
    "ownerReferences": [{"apiVersion": str, "kind": str, "name": str, "uid": str}],
}
_SELECTOR = {"matchLabels": _TEXTS, "matchExpressions": [{"key": str, "operator": str, "values": _STRINGS}]}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PODS = {_REQUIRED: [{"topologyKey": str, "labelSelector": _SELECTOR}]}
_PLACEMENT = {
    "nodeSelector": _TEXTS,
    "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
    "topologySpreadConstraints": [{"topologyKey": str}],
    "affinity": {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{**_SELECTOR, "matchFields": [{}]}]}},
        "podAffinity": _PODS,
        "podAntiAffinity": _PODS,
    },
}
_CONTAINER = {
    "name": str,
    "image": str,
    "command": _STRINGS,
    "args": _STRINGS,
    "env": _ENV,
    "envFrom": [{"prefix": str, "configMapRef": {"name": str}}],
    "ports": [{}],
    "resources": _RESOURCES,
    "securityContext": {},
}
_POD_CLAIM = {"name": str, "resourceClaimName": str, "resourceClaimTemplateName": str}
_POD_SPEC = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "resources": _RESOURCES,
    "resourceClaims": [_POD_CLAIM],
    "schedulingGates": [{"name": str}],
    "securityContext": {},
    **_PLACEMENT,
}
_POD = {"metadata": {"labels": _TEXTS, "annotations": _TEXTS}, "spec": _POD_SPEC}
_JOB = {
    "metadata": {"labels": _TEXTS, "annotations": _TEXTS},
    "spec": {"parallelism": int, "completions": int, "template": _POD},
}
_JOBSET_SPEC = {
    "network": {"subdomain": str, "enableDNSHostnames": bool, "publishNotReadyAddresses": bool},
    "coordinator": {"replicatedJob": str, "jobIndex": int, "podIndex": int},
    "replicatedJobs": [
        {"name": str, "replicas": int, "template": _JOB, "dependsOn": [{"name": str, "status": str}]},
    ],
    "volumeClaimPolicies": [{"templates": [{"metadata": {"name": str}, "spec": {"accessModes": _STRINGS}}]}],
}


def _loose(shape: Any) -> Any:
    """Return a shape in which such members may be anything: a runtime is of use all the same, and has its own check."""
    if isinstance(shape, dict):
        return {} if shape is _TEXTS else {member: _loose(inner) for member, inner in shape.items()}
    return [_loose(shape[0])] if isinstance(shape, list) else shape


_RUNTIME = {
    "metadata": _loose(_METADATA),
    "spec": {
        "mlPolicy": {"numNodes": int, "torch": {}},
        "template": {"metadata": {"labels": {}, "annotations": {}}, "spec": _loose(_JOBSET_SPEC)},
    },
}
_PATCHED_METADATA: dict[str, Any] = {"labels": {}, "annotations": {}}
_PATCHED_JOB = {"metadata": _PATCHED_METADATA, "spec": {"template": _POD}}
_PATCHED = {"metadata": _PATCHED_METADATA, "spec": {"replicatedJobs": [{"name": str, "template": _PATCHED_JOB}]}}
_TARGETS = [{"name": str}]
_MOST = 50  # naming the last of a hundred thousand list entries takes a search of the whole list
_DEVICES = {"count": int, "allocationMode": str, "deviceClassName": str}
_CLAIM = {"devices": {"requests": [{"exactly": _DEVICES, "firstAvailable": [_DEVICES]}]}}
_SHAPES: dict[str, Any] = {
    "TrainJob": {
        "metadata": _METADATA,
        "spec": {
            "runtimeRef": {"name": str, "kind": str, "apiGroup": str},
            "runtimePatches": [{"manager": str, "trainingRuntimeSpec": {"template": _PATCHED}}],
            "podTemplateOverrides": [{"targetJobs": _TARGETS, **_POD}],
            "podSpecOverrides": [{"targetJobs": _TARGETS, **_POD_SPEC}],
            "trainer": {
                "image": str,
                "command": _STRINGS,
                "args": _STRINGS,
                "env": _ENV,
                "numNodes": int,
                "resourcesPerNode": _RESOURCES,
                "resourceClaimsPerNode": [_POD_CLAIM],
            },
        },
    },
    "JobSet": {"metadata": _METADATA, "spec": _JOBSET_SPEC},
    "TrainingRuntime": _RUNTIME,
    "ClusterTrainingRuntime": _RUNTIME,
    "RuntimeSnapshot": _RUNTIME,
    "Namespace": {"metadata": _METADATA},
    "Node": {
        "metadata": _METADATA,
        "spec": {"taints": [{"key": str, "value": str, "effect": str}]},
        "status": {"allocatable": {}},
    },
    "ResourceClaimTemplate": {"metadata": _METADATA, "spec": {"spec": _CLAIM}},
    "ResourceClaim": {"metadata": _METADATA, "spec": _CLAIM},
    "DeviceClass": {"metadata": _METADATA, "spec": {"extendedResourceName": str}},
}
_WORDS = {str: "a string", int: "an integer", bool: "true or false"}


def check(document: Mapping[str, Any], kind: str = "") -> list[Finding]:
    """Return an error for each member of the wrong type, the first 50; null counts as missing, as in Kubernetes.

    Args:
        document: an object that Muster reads; one of any other kind has no errors.
        kind: the kind that the caller expects, where that is known; else the `kind` of the document.
    """
    kind = kind or str(document.get("kind"))
    if kind not in _SHAPES or _FITS[kind](document):
        return []
    return [
        _misfit(paths.field(document, path), paths.lookup(document, path), wanted)
        for path, wanted in itertools.islice(_misfits(document, _SHAPES[kind], ()), _MOST)
    ]


def _misfit(field: str, value: Any, wanted: str) -> Finding:
    """Return an error about a member; an object or a list is named and not quoted, for it may hold a secret."""
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return error(field, None, f"is {kind}, and must be {wanted}", rule="core/shape")
    quote = "; quote it" if wanted == _WORDS[str] else ""
    return error(field, value, f"must be {wanted}{quote}", rule="core/shape")


def _fits(shape: Any) -> Callable[[Any], bool]:
    """Return a quick check for documents that fit, as nearly all do; `_misfits` says where one does not."""
    if shape == {}:
        return _is_object
    if shape is _TEXTS:
        return _are_texts
    if isinstance(shape, list):
        return _fits_list(shape[0])
    return _fits_object(shape)[0] if isinstance(shape, dict) else lambda value: type(value) is shape


def _fits_list(shape: Any) -> Callable[[Any], bool]:
    if isinstance(shape, type) or shape == {}:
        of_entries = {shape if isinstance(shape, type) else dict}
        return lambda value: type(value) is list and of_entries.issuperset(map(type, value))
    fits_entry, flat = _fits_object(shape)

    def fits(value: Any) -> bool:
        if type(value) is not list:
            return False
        try:  # a list of env is long, and nearly all of its entries are flat and fit
            forms = zip(map(tuple, value), map(tuple, map(_types, map(dict.values, value))), strict=True)
            others = itertools.compress(value, map(operator.not_, map(flat.__contains__, forms)))
            return all(map(fits_entry, others))
        except TypeError:  # an entry is not an object
            return False

    return fits


_types = functools.partial(map, type)


def _fits_object(shape: Mapping[str, Any]) -> tuple[Callable[[Any], bool], set[_Form]]:
    """Return a quick check for an object, and the forms that fit whatever their values are, of which it learns."""
    members: dict[str, Any] = {
        member: inner if isinstance(inner, type) else _fits(inner) for member, inner in shape.items()
    }
    known: dict[_Form, list[tuple[str, Callable[[Any], bool]]]] = {}
    flat: set[_Form] = set()

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return False
        form = tuple(value), tuple(map(type, value.values()))
        inside = known.get(form)
        if inside is None:
            inside = _inside(value, members)
            if inside is None:
                return False
            if len(known) < _MOST_FORMS and len(repr(form[0])) <= _LONGEST_FORM:
                known[form] = inside
                if not inside:
                    flat.add(form)
        return _are_fit(value, inside)

    return fits, flat


def _are_fit(value: Mapping[str, Any], inside: list[tuple[str, Callable[[Any], bool]]]) -> bool:
    for member, fits in inside:  # noqa: SIM110  # a generator would cost as much again
        if not fits(value[member]):
            return False
    return True


def _inside(value: Mapping[str, Any], members: Mapping[str, Any]) -> list[tuple[str, Callable[[Any], bool]]] | None:
    """Return the members whose own values have to be looked at, and how; None where one is of a wrong type."""
    found = []
    for member, child in value.items():
        wanted = members.get(member)
        if wanted is None or child is None or type(child) is wanted or (wanted is _is_object and _is_object(child)):
            continue
        if type(wanted) is type:
            return None
        found.append((member, wanted))
    return found


def _is_object(value: Any) -> bool:
    return type(value) is dict


def _are_texts(value: Any) -> bool:
    return type(value) is dict and _TEXT_TYPES.issuperset(map(type, value.values()))


_TEXT_TYPES = {str, type(None)}
_Form = tuple[tuple[str, ...], tuple[type, ...]]
"""The members of an object in their order, and the types of their values; few are all that most documents have."""
_MOST_FORMS, _LONGEST_FORM = 64, 256


def _misfits(value: Any, shape: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            yield path, "an object"
            return
        for member, inner in dict.fromkeys(value, str).items() if shape is _TEXTS else shape.items():
            child = value.get(member)
            if child is not None:
                yield from _misfits(child, inner, (*path, member))
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield path, "a list"
            return
        for index, entry in enumerate(value):
            yield from _misfits(entry, shape[0], (*path, index))
    elif type(value) is not shape:
        yield path, _WORDS[shape]


_FITS = {kind: _fits(shape) for kind, shape in _SHAPES.items()}
