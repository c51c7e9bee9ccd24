"""Validation: whether an object has the shape of its kind, as the API server judges it (`kubeconform -strict`).

A member that is null counts as missing, as in the API server (apiextensions-apiserver v0.36 `prunenulls.go`).
"""

from __future__ import annotations

import difflib
import functools
import json
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from muster.strategies.documents import decoding, meanings, paths, trainjobs
from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.paths import Path
from muster.strategies.documents.runtimes import VERSIONS, Version
from muster.webhook import kubeyaml
from muster.webhook.cli.schemas import schema_shapes
from muster.webhook.cli.schemas.schema_shapes import Kind, Limits, Shape
from muster.webhook.cluster.readers import Document

__all__ = ["RULE", "check", "corrected", "told"]


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


def check(document: Document, kind: Kind) -> list[Finding]:
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


def corrected(document: Document, kind: Kind) -> Document | None:
    """Return a document as it was evidently meant, None where it is as it should be or not all of it is evident.

    Values of a wrong type become what they mean, and members that stand a level too high or too low move.
    """
    search = _Search(document, kind)
    search.walk(kind.shape, document, ())
    shapes = sum(rule == "core/shape" for _, _, rule in search.faults)
    if not search.edits or shapes > sum(new == old for old, new, _ in search.edits):
        return None
    for old, new, value in search.edits:
        if new != old:
            document = _put(document, old, paths.ABSENT)
        document = _put(document, new, value)
    return document


def _put(node: Any, path: Path, value: object) -> Any:
    """Return a copy with a value at `path`, or without what is there; objects around it that are missing are made."""
    first, *rest = path
    inner = _put(paths.lookup(node, (first,)), tuple(rest), value) if rest else value
    if isinstance(first, int):
        return [inner if place == first else each for place, each in enumerate(node)]
    kept = {name: each for name, each in decoding.mapping(node).items() if name != first}
    return kept if inner is paths.ABSENT else {**kept, first: inner}


def _is_named(document: Document) -> bool:
    metadata = decoding.member(document, "metadata")
    return bool(metadata.get("name") or metadata.get("generateName"))


def _finding(document: Document, fault: _Fault) -> Finding:
    path, message, rule = fault
    value = paths.lookup(document, path)
    shown = None if value is paths.ABSENT or (rule == RULE and isinstance(value, dict | list)) else value
    return error(paths.field(document, path), shown, message, rule=rule)


def _is_whole(shape: Shape, value: object) -> bool:
    """Whether a value is 2.0 where an integer is wanted: JSON does not tell it from 2, and the API server takes it."""
    return type(value) is float and int in shape.types and value.is_integer()


class _Search:
    """Collects the faults of one object."""

    def __init__(self, document: Document, kind: Kind, *, brief: bool = False) -> None:
        self.faults: list[_Fault] = []
        self.edits: list[tuple[Path, Path, object]] = []  # where a value is, where it is meant to be, and what it means
        self._document, self._kind = document, kind
        self._guesses = 0
        self._brief = brief  # it is only asked whether there is a fault

    def walk(self, shape: Shape, value: object, path: Path) -> None:
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
        if shape.limits is not None:
            for message in _broken(shape.limits, shape.pattern, value):
                self._add(path, message, "core/value")

    def _misfit(self, shape: Shape, value: object, path: Path) -> None:
        """Report a wrong type; a word for a number of processes is one of an older Trainer."""
        if path == ("spec", "trainer", "numProcPerNode") and value in ("auto", "cpu", "gpu"):
            known = "is a word, which only older Trainers take"
            cure = "remove it for a process for each GPU, or write a number"
            self._add(path, f"{known}, so {self._kind.trainer} refuses the job; {cure}", RULE)
        else:
            member = path[-1] if path else ""
            self._add(path, _misfit(shape, value, member), "core/shape")
            meant = next(
                (found for each in shape.types if (found := meanings.meant(value, each, member)) is not None), None
            )
            if meant is not None:
                self.edits.append((path, path, meant))

    def _unknown(self, name: str, known: Mapping[str, Shape], path: Path) -> None:
        foreign = None if self._brief else told(self._document, path, self._kind, self._fits)
        if foreign is not None:
            self._add(path, foreign, RULE)
        else:
            self._add(path, f"is not a known field{self._hint(name, known, path)}", "core/unknown-field")

    def _fits(self, kind: Kind) -> bool:
        """Whether the object is as another version wants it."""
        other = _Search(self._document, kind, brief=True)
        other.walk(kind.shape, self._document, ())
        return not other.faults

    def _add(self, path: Path, message: str, rule: str) -> None:
        self.faults.append((path, message, rule))

    def _members(self, shape: Shape, value: dict[str, object], path: Path) -> None:
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

    def _entries(self, shape: Shape, value: list[object], path: Path) -> None:
        if shape.items is not None:
            for index, entry in enumerate(value):
                self.walk(shape.items, entry, (*path, index))
        if shape.keys is not None:
            for index in _repeated(value, shape.keys):
                message = "repeats an earlier entry, and the API server takes each once; remove one"
                self._add((*path, index), message, "core/duplicate-entry")

    def _hint(self, name: str, known: Mapping[str, Shape], path: Path) -> str:
        """Return what may have been meant: a similar name, the same name at another level, or what there is."""
        self._guesses += 1
        if self._guesses > _GUESSES or not known:
            return "; remove it"
        near = _nearest(name, known)
        if near:
            return f"; did you mean {near}?"
        return self._elsewhere(name, known, path) or (
            f"; known are {', '.join(known)}" if len(known) <= _LISTED else "; remove it"
        )

    def _elsewhere(self, name: str, known: Mapping[str, Shape], path: Path) -> str:
        """Return where a member belongs, "" where nothing says that."""
        below = [each for each, shape in known.items() if shape.properties and name in shape.properties]
        if below:
            if len(below) == 1:
                self._move(path, (*path[:-1], below[0], name))
            return f"; {name} is a field of {' and of '.join(below)}"
        above = self._above(name, path)
        if above:
            self._move(path, (*above, name))
            return f"; {name} is a field of {above[-1]}, and not of {path[-2]}: write it there"
        maps = [each for each, shape in known.items() if shape.members is not None]
        if maps and _QUALIFIED.search(name):
            if "limits" in maps:  # Kubernetes takes them for the requests, too
                self._move(path, (*path[:-1], "limits", name))
            return f"; write it below {' or '.join(maps)}"
        if path[:-1] in (("spec",), ("spec", "trainer")) and name in _of_pods():
            cure = f"which spec.{self._kind.trainer.patches} changes"
            return (
                f"; it is a field of pods or containers, {cure}; `muster init trl-sft --volume CLAIM` writes an example"
            )
        return ""

    def _above(self, name: str, path: Path) -> Path:
        """Return the nearest object around a member's own that has a field of this name; () for none."""
        value = paths.lookup(self._document, path)
        for end in range(len(path) - 2, 0, -1):
            around = _at(self._kind.shape, path[:end])
            inner = (around.properties or {}).get(name) if around else None
            if inner is not None and type(value) in inner.types:
                return path[:end]
        return ()

    def _move(self, path: Path, place: Path) -> None:
        """Note where a member belongs, unless something stands there."""
        if paths.lookup(self._document, place) is paths.ABSENT:
            self.edits.append((path, place, paths.lookup(self._document, path)))


def _at(shape: Shape | None, path: Path) -> Shape | None:
    for part in path:
        if shape is not None:
            shape = shape.items if isinstance(part, int) else (shape.properties or {}).get(part, shape.members)
    return shape


@functools.cache
def _of_pods() -> frozenset[str]:
    """Return the members of pods and of their containers."""
    parts = ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
    jobset = schema_shapes.kinds()["JobSet"].shape
    shapes = (_at(jobset, parts), _at(jobset, (*parts, "containers", 0)))
    return frozenset(name for each in shapes if each for name in each.properties or {})


_QUALIFIED = re.compile(r"/|^(cpu|memory|ephemeral-storage)$")
"""Names that labels, annotations and quantities have, and members have not."""


def _nearest(name: str, known: Iterable[str]) -> str | None:
    lowered = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lowered, 1, _NEAR) if len(name) <= _LONGEST else []
    return lowered[near[0]] if near else None


def _repeated(entries: list[object], keys: Mapping[str, object]) -> Iterator[int]:
    """Yield the places of entries that have the keys of an earlier one; without keys the whole entry counts."""
    seen: set[str | tuple[object, ...]] = set()
    for index, entry in enumerate(entries):
        identity = _identity(entry, keys)
        if identity is not None and identity in seen:
            yield index
        if identity is not None:
            seen.add(identity)


def _identity(entry: object, keys: Mapping[str, object]) -> str | tuple[object, ...] | None:
    if not keys:
        return json.dumps(entry, sort_keys=True)
    if type(entry) is not dict:
        return None
    found = tuple(default if (value := entry.get(key)) is None else value for key, default in keys.items())
    return None if any(isinstance(each, (dict, list)) for each in found) else found


def _misfit(shape: Shape, value: object, member: object) -> str:
    """Return the message for a value of the wrong type."""
    cures = (meanings.shown(value, each, member) for each in shape.types)
    return f"must be {_called(shape)}{next(filter(None, cures), '')}"


def _called(shape: Shape) -> str:
    if len(shape.types) > 1:
        return "an integer or a string" if str in shape.types else "a number"
    return _CALLED[shape.types[0]]


def _broken(limits: Limits, pattern: re.Pattern[str] | None, value: object) -> Iterator[str]:
    """Yield a message for each limit that a value of the right type breaks."""
    if limits.enum is not None and value not in limits.enum:
        yield f"must be one of {', '.join(map(str, limits.enum))}"
    match value:
        case int() | float():
            yield from _number(limits, value)
        case str():
            yield from _text(limits, pattern, value)
        case dict():
            yield from _size(len(value), limits.min_properties or 0, None)
        case list():
            yield from _size(len(value), limits.min_items or 0, limits.max_items)


def _number(limits: Limits, value: float) -> Iterator[str]:
    if limits.format == "int32" and value not in _INT32:
        yield "must fit in 32 bits"
    if limits.minimum is not None and value < limits.minimum:
        yield f"must be at least {limits.minimum}"
    if limits.maximum is not None and value > limits.maximum:
        yield f"must be at most {limits.maximum}"


def _text(limits: Limits, pattern: re.Pattern[str] | None, value: str) -> Iterator[str]:
    if len(value) < (limits.min_length or 0):
        yield "must not be empty" if limits.min_length == 1 else f"must have {limits.min_length} characters or more"
    if limits.max_length is not None and len(value) > limits.max_length:
        yield f"must have at most {limits.max_length} characters"
    if pattern is not None and len(value) <= _LONGEST_TEXT and not pattern.match(value):
        quantity = pattern.pattern.startswith(_QUANTITY)
        yield "is not a quantity such as 500m, 2 or 4Gi" if quantity else f"must match {limits.pattern}"


def _size(count: int, least: int, most: int | None) -> Iterator[str]:
    if count < least:
        yield f"must have at least {least} entr{'y' if least == 1 else 'ies'}"
    if most is not None and count > most:
        yield f"must have at most {most} entries"


RULE = "core/trainer-version"

_LONGEST_REPLACEMENT = 600  # characters of a replacement; a longer one is described


def told(document: Document, path: Path, kind: Kind, fits: Callable[[Kind], bool]) -> str | None:
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
    instead = _row(path, newer=newer) or f"remove it, for {kind.trainer} has nothing in its place"
    if "{patched}" in instead:
        instead = _patched(document, kind.trainer)
    instead = instead.replace("{processes}", _processes(paths.lookup(document, path)))
    fitting = [version for version in knowing if version.name != "next" and fits(every[version])]
    judged = f"; `--trainer {fitting[-1].name}` judges the file for a cluster that has it" if fitting else ""
    known = f"is known since {knowing[0]}" if newer else f"was removed in {order[order.index(knowing[-1]) + 1]}"
    return f"{known}, {_FATE.format(kind.trainer)}; {instead}{judged}"


_FATE = "so with {} kubectl refuses the object, and from other clients the API server drops the member"


def _knows(shape: Shape, path: Path) -> bool:
    """Whether a shape has what is at a path, down to the type of a plain value."""
    for part in path:
        named = shape.properties if shape.properties is not None else {}
        inner = shape.items if isinstance(part, int) else named.get(part, shape.members)
        if inner is None:
            return False
        shape = inner
    return True


def _row(path: Path, *, newer: bool) -> str:
    """Return what `versions.toml` says of a member, "" for nothing."""
    names = [part for part in path if isinstance(part, str)]
    rows = _rows()["newer" if newer else "removed"]
    ends = (".".join(names[start:]) for start in range(len(names)))
    return next((rows[each] for each in ends if each in rows), "")


@functools.cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(pathlib.Path(__file__).with_name("versions.toml").read_text("utf-8"))


def _patched(document: Document, version: Version) -> str:
    """Write what changes the pods of a runtime as the version in force spells it."""
    text = kubeyaml.dump(kubeyaml.Row([trainjobs.spelled(document, version.patches)])).strip()[2:-2]
    if len(text) > _LONGEST_REPLACEMENT:
        text = f"{text[:_LONGEST_REPLACEMENT].rpartition(', ')[0]}, … (and so on, entry by entry)"
    return f"{version} has {version.patches} in its place, so write this: {text}"


def _processes(value: object) -> str:
    if isinstance(value, int):
        return f"and write `numProcPerNode: {value}` into spec.trainer of each TrainJob of this runtime"
    return f"for {_WORDS.get(str(value), _WORDS['auto'])}"


_WORDS = {
    "auto": "Trainer itself starts a process for each GPU, or for each CPU of a node without GPUs",
    "gpu": "Trainer itself starts a process for each GPU that the job asks for",
    "cpu": "Trainer itself starts a process for each CPU of a job that asks for no GPU",
}
