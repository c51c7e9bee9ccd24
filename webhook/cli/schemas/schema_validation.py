"""Validation: whether an object has the shape of its kind, as the API server judges it (`kubeconform -strict`).

A member that is null counts as missing, as in the API server (apiextensions-apiserver v0.36 `prunenulls.go`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from muster.strategies.documents import paths, trainjobs
from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.paths import Path
from muster.strategies.documents.runtimes import VERSIONS, Version
from muster.webhook import kubeyaml
from muster.webhook.cli.schemas import schema_shapes
from muster.webhook.cli.schemas.schema_shapes import Kind, Shape

__all__ = ["RULE", "check", "told"]


_MOST = 50  # findings of one object
_GUESSES = 20  # unknown names of one object that are compared with known ones
_LISTED = 12
_LONGEST = 64  # characters of an unknown name that is compared with known ones
_NEAR = 0.7
_CALLED = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "an integer"}
_INT32 = range(-(2**31), 2**31)
_QUANTITY = r"^(\+|-)?(([0-9]+"
_LONGEST_TEXT = 1024  # characters of a text that a pattern is tried on; longer ones break another limit

_Fault = tuple[Path, str, str]


def check(document: Mapping[str, Any], kind: Kind) -> list[Finding]:
    """Return an error for each field that the API server would refuse, the first 50.

    Args:
        document: an object as a user wrote it, of any shape; `apiVersion` and `kind` are texts.
        kind: what it is, as `schema_shapes.known_as` returns it.
    """
    search = _Search(document, kind)
    search.walk(kind.shape, document, ())
    if type(document.get("metadata", {})) is dict and not _is_named(document):
        search.faults.append((("metadata", "name"), "is required", "core/required"))
    return schema_shapes.misnamed(document, kind) + [_finding(document, fault) for fault in search.faults[:_MOST]]


def _is_named(document: Mapping[str, Any]) -> bool:
    metadata = document.get("metadata") or {}
    return bool(metadata.get("name") or metadata.get("generateName"))


def _finding(document: Mapping[str, Any], fault: _Fault) -> Finding:
    path, message, rule = fault
    value = paths.lookup(document, path)
    shown = None if value is paths.ABSENT or (rule == RULE and isinstance(value, dict | list)) else value
    return error(paths.field(document, path), shown, message, rule=rule)


def _is_whole(shape: Shape, value: Any) -> bool:
    """Whether a value is 2.0 where an integer is wanted: JSON does not tell it from 2, and the API server takes it."""
    return type(value) is float and int in shape.types and value.is_integer()


class _Search:
    """Collects the faults of one object."""

    def __init__(self, document: Mapping[str, Any], kind: Kind, *, brief: bool = False) -> None:
        self.faults: list[_Fault] = []
        self._document, self._kind = document, kind
        self._guesses = 0
        self._brief = brief  # it is only asked whether there is a fault

    def walk(self, shape: Shape, value: Any, path: Path) -> None:
        """Add the faults of a value, which is at `path`."""
        if not shape.types or len(self.faults) >= _MOST:
            return
        if type(value) not in shape.types:
            if not _is_whole(shape, value):
                self._misfit(shape, value, path)
            return
        if type(value) is dict:
            self._members(shape, value, path)
        elif type(value) is list:
            self._entries(shape, value, path)
        if shape.limits:
            for message in _broken(shape, value):
                self._add(path, message, "core/value")

    def _misfit(self, shape: Shape, value: Any, path: Path) -> None:
        """Report a wrong type; a word for a number of processes is one of an older Trainer."""
        if path == ("spec", "trainer", "numProcPerNode") and value in ("auto", "cpu", "gpu"):
            known = "is a word, which only older Trainers take"
            cure = "remove it for a process for each GPU, or write a number"
            self._add(path, f"{known}, so {self._kind.trainer} refuses the job; {cure}", RULE)
        else:
            self._add(path, _misfit(shape, value), "core/shape")

    def _unknown(self, name: str, known: Mapping[str, Shape], path: Path) -> None:
        foreign = None if self._brief else told(self._document, path, self._kind, self._fits)
        if foreign is not None:
            self._add(path, foreign, RULE)
        else:
            self._add(path, f"is not a known field{self._hint(name, known)}", "core/unknown-field")

    def _fits(self, kind: Kind) -> bool:
        """Whether the object is as another version wants it."""
        other = _Search(self._document, kind, brief=True)
        other.walk(kind.shape, self._document, ())
        return not other.faults

    def _add(self, path: Path, message: str, rule: str) -> None:
        self.faults.append((path, message, rule))

    def _members(self, shape: Shape, value: dict[str, Any], path: Path) -> None:
        properties, members = shape.properties, shape.members
        for name, child in value.items():
            if child is None:
                continue
            inner = members if properties is None else properties.get(name)
            if inner is not None:
                if not (inner.is_leaf and type(child) in inner.types):
                    self.walk(inner, child, (*path, name))
            elif properties is not None:
                self._unknown(name, properties, (*path, name))
        for name in shape.required:
            if value.get(name) is None:
                self._add((*path, name), "is required", "core/required")

    def _entries(self, shape: Shape, value: list[Any], path: Path) -> None:
        if shape.items is not None:
            for index, entry in enumerate(value):
                self.walk(shape.items, entry, (*path, index))
        if shape.keys is not None:
            for index in _repeated(value, shape.keys):
                message = "repeats an earlier entry, and the API server takes each once; remove one"
                self._add((*path, index), message, "core/duplicate-entry")

    def _hint(self, name: str, known: Mapping[str, Shape]) -> str:
        """Return what may have been meant: a similar name, the same name a level lower, or what there is."""
        self._guesses += 1
        if self._guesses > _GUESSES or not known:
            return "; remove it"
        near = _nearest(name, known)
        if near:
            return f"; did you mean {near}?"
        below = [each for each, shape in known.items() if shape.properties and name in shape.properties]
        if below:
            return f"; {name} is a field of {' and of '.join(below)}"
        return f"; known are {', '.join(known)}" if len(known) <= _LISTED else "; remove it"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    lowered = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lowered, 1, _NEAR) if len(name) <= _LONGEST else []
    return lowered[near[0]] if near else None


def _repeated(entries: list[Any], keys: Mapping[str, Any]) -> Iterator[int]:
    """Yield the places of entries that have the keys of an earlier one; without keys the whole entry counts."""
    seen: set[str | tuple[Any, ...]] = set()
    for index, entry in enumerate(entries):
        identity = _identity(entry, keys)
        if identity is not None and identity in seen:
            yield index
        if identity is not None:
            seen.add(identity)


def _identity(entry: Any, keys: Mapping[str, Any]) -> str | tuple[Any, ...] | None:
    if not keys:
        return json.dumps(entry, sort_keys=True)
    if type(entry) is not dict:
        return None
    found = tuple(default if (value := entry.get(key)) is None else value for key, default in keys.items())
    return None if any(isinstance(each, (dict, list)) for each in found) else found


def _misfit(shape: Shape, value: Any) -> str:
    """Return the message for a value of the wrong type."""
    is_word = str in shape.types and isinstance(value, (bool, int, float))
    return f"must be {_called(shape)}{'; quote it' if is_word else ''}"


def _called(shape: Shape) -> str:
    if len(shape.types) > 1:
        return "an integer or a string" if str in shape.types else "a number"
    return _CALLED[shape.types[0]]


def _broken(shape: Shape, value: Any) -> Iterator[str]:
    """Yield a message for each limit that a value of the right type breaks."""
    limits = shape.limits
    if "enum" in limits and value not in limits["enum"]:
        yield f"must be one of {', '.join(map(str, limits['enum']))}"
    if isinstance(value, (int, float)):
        yield from _number(limits, value)
    elif isinstance(value, str):
        yield from _text(shape, value)
    else:
        yield from _size(limits, value)


def _number(limits: dict[str, Any], value: float) -> Iterator[str]:
    if limits.get("format") == "int32" and value not in _INT32:
        yield "must fit in 32 bits"
    if value < limits.get("minimum", value):
        yield f"must be at least {limits['minimum']}"
    if value > limits.get("maximum", value):
        yield f"must be at most {limits['maximum']}"


def _text(shape: Shape, value: str) -> Iterator[str]:
    limits, pattern = shape.limits, shape.pattern
    if len(value) < limits.get("minLength", 0):
        yield "must not be empty" if limits["minLength"] == 1 else f"must have {limits['minLength']} characters or more"
    if len(value) > limits.get("maxLength", len(value)):
        yield f"must have at most {limits['maxLength']} characters"
    if pattern is not None and len(value) <= _LONGEST_TEXT and not pattern.match(value):
        quantity = limits["pattern"].startswith(_QUANTITY)
        yield "is not a quantity such as 500m, 2 or 4Gi" if quantity else f"must match {limits['pattern']}"


def _size(limits: dict[str, Any], value: dict[str, Any] | list[Any]) -> Iterator[str]:
    few = "minItems" if isinstance(value, list) else "minProperties"
    if len(value) < limits.get(few, 0):
        yield f"must have at least {limits[few]} entr{'y' if limits[few] == 1 else 'ies'}"
    if len(value) > limits.get("maxItems", len(value)):
        yield f"must have at most {limits['maxItems']} entries"


RULE = "core/trainer-version"

_LONGEST_REPLACEMENT = 600  # characters of a replacement; a longer one is described
_Write = Callable[[Mapping[str, Any], Any, Version], str]


def told(document: Mapping[str, Any], path: Path, kind: Kind, fits: Callable[[Kind], bool]) -> str | None:
    """Return what a member is that the Trainer in force does not know; None where no other one knows it either.

    Args:
        document: the whole object.
        path: of the member, as the document has it.
        kind: of the object, in the version in force.
        fits: whether the object is as another version wants it.
    """
    every = {version: schema_shapes.kinds(version.name)[kind.name] for version in VERSIONS.values()}
    knowing = [version for version in every if _knows(every[version].shape, path)]
    if kind.name == "JobSet" or not knowing:
        return None
    order = list(every)
    newer = order.index(knowing[0]) > order.index(kind.trainer)
    value = paths.lookup(document, path)
    instead = _row(path, newer=newer)(document, value, kind.trainer)
    fitting = [version for version in knowing if version.name != "next" and fits(every[version])]
    judged = f"; `--trainer {fitting[-1].name}` judges the file for a cluster that has it" if fitting else ""
    known = f"is known since {knowing[0]}" if newer else f"was removed in {order[order.index(knowing[-1]) + 1]}"
    return f"{known}, {_FATE.format(kind.trainer)}; {instead}{judged}"


_FATE = "so with {} kubectl refuses the object, and from other clients the API server drops the member"


def _knows(shape: Shape, path: Path) -> bool:
    """Whether a shape has what is at a path, down to the type of a plain value."""
    for part in path:
        inner = shape.items if isinstance(part, int) else (shape.properties or {}).get(part, shape.members)
        if inner is None:
            return False
        shape = inner
    return True


def _row(path: Path, *, newer: bool) -> _Write:
    names = [part for part in path if isinstance(part, str)]
    rows = _SINCE if newer else _UNTIL
    for start in range(len(names)):
        if found := rows.get(".".join(names[start:])):
            return found
    return _removed


def _removed(_: Mapping[str, Any], __: Any, version: Version) -> str:
    return f"remove it, for {version} has nothing in its place"


def _says(text: str) -> _Write:
    return lambda _, __, ___: text


def _patched(document: Mapping[str, Any], _: Any, version: Version) -> str:
    """Write what changes the pods of a runtime as the version in force spells it."""
    text = kubeyaml.dump(kubeyaml.Row([trainjobs.spelled(document, version.patches)])).strip()[2:-2]
    if len(text) > _LONGEST_REPLACEMENT:
        text = f"{text[:_LONGEST_REPLACEMENT].rpartition(', ')[0]}, … (and so on, entry by entry)"
    return f"{version} has {version.patches} in its place, so write this: {text}"


def _processes(_: Mapping[str, Any], value: Any, __: Version) -> str:
    if isinstance(value, int):
        wanted = f"numProcPerNode: {value}"
        return f"remove it, and write `{wanted}` into spec.trainer of each TrainJob of this runtime"
    return f"remove it, for {_WORDS.get(str(value), _WORDS['auto'])}"


_WORDS = {
    "auto": "Trainer itself starts a process for each GPU, or for each CPU of a node without GPUs",
    "gpu": "Trainer itself starts a process for each GPU that the job asks for",
    "cpu": "Trainer itself starts a process for each CPU of a job that asks for no GPU",
}

_UNTIL: Mapping[str, _Write] = {
    "spec.podSpecOverrides": _patched,
    "spec.podTemplateOverrides": _patched,
    "spec.labels": _patched,
    "spec.annotations": _patched,
    "torch.numProcPerNode": _processes,
    "torch.elasticPolicy": _says("remove it, for no Trainer ever acted on it"),
    "workloadRef": _says("Kubernetes replaced it by schedulingGroup, so write that"),
}
"""By the end of a member's path: what is written for a Trainer that does not know it any more."""

_RUNTIME = "of the runtime"
_SINCE: Mapping[str, _Write] = {
    "spec.runtimePatches": _patched,
    "spec.podTemplateOverrides": _patched,
    "spec.activeDeadlineSeconds": _says(
        f"write it into the Job {_RUNTIME}, at spec.template.spec.replicatedJobs[node].template.spec"
    ),
    "spec.terminationGracePeriodSeconds": _says(f"write it into the pod {_RUNTIME}"),
    "torch.envInjection": _says("write the PET_ variables into the env of these containers"),
    "mlPolicy.jax": _says("write numNodes alone, and JAX's variables into env"),
    "mlPolicy.xgboost": _says("write numNodes alone, and the DMLC_ variables into env"),
    "podGroupPolicy.volcano": _says("write podGroupPolicy: {coscheduling: {}}"),
    "trainer.resourceClaimsPerNode": _says(
        "write the same list as JSON into the annotation muster.dev/resource-claims"
    ),
    "spec.failurePolicy": _says(f"write failurePolicy, with maxRestarts, into spec.template.spec {_RUNTIME}"),
    "spec.runPolicy": _says("write failurePolicy, as a JobSet has it, into spec.template.spec"),
    "spec.scheduling": _says("write podGroupPolicy"),
}
"""By the end of a member's path: what is written for a Trainer that does not know it yet."""
