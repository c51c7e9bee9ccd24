"""The shape of one audit record, schema `muster.dev/audit/v1`, and the check of a value against it.

Programs of other people read the log long after the process that wrote it has ended. So its shape is a published
interface: within v1, fields may be added, but are never renamed, retyped or removed. docs/audit.md explains each field.
Readers check each line before they use its fields, since a file may be edited by hand, or be no audit log.
"""

from __future__ import annotations

import datetime
import functools
import re
import reprlib
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, TypedDict, Union, cast

__all__ = [
    "BOOKKEEPING",
    "SCHEMA",
    "Decision",
    "Digest",
    "EventDetails",
    "Link",
    "Mode",
    "Omitted",
    "Operation",
    "Owner",
    "Phase",
    "Record",
    "RecordedChange",
    "RecordedEvent",
    "RecordedFinding",
    "RecordedObject",
    "RecordedRuntime",
    "RecordedStrategy",
    "Sealed",
    "Time",
    "User",
    "check",
    "is_link",
    "misfit",
    "timestamp",
]

SCHEMA: Final = "muster.dev/audit/v1"
BOOKKEEPING: Final = frozenset({"core/applied"})
"""Rules of changes in which Muster stores its own memory of a job (`changes.restores`), which notices omit."""

# The second argument of Annotated is the regular expression that `check` uses.
Time: TypeAlias = Annotated[str, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"]
Digest: TypeAlias = Annotated[str, r"[0-9a-f]{64}"]

Operation: TypeAlias = Literal["CREATE", "UPDATE"]
Phase: TypeAlias = Literal["mutate", "validate"]
Mode: TypeAlias = Literal["enforce", "warn", "audit", "off"]
Decision: TypeAlias = Literal["patched", "unchanged", "allowed", "denied", "error", "skipped"]


class User(TypedDict):
    """The user that the API server authenticated (AdmissionReview `request.userInfo`)."""

    username: str
    groups: NotRequired[list[str]]


class RecordedObject(TypedDict):
    """The object under admission. `name` is empty while only `generateName` is known, as at CREATE."""

    kind: str
    namespace: str
    name: str
    generateName: NotRequired[str]


class Owner(TypedDict):
    """The TrainJob that owns the JobSet under admission."""

    kind: str
    name: str
    uid: str


class RecordedRuntime(TypedDict):
    """The training runtime that governs the job, and how it was found."""

    kind: str
    name: str
    source: Literal["snapshot", "live", "label", "none"]


class RecordedStrategy(TypedDict):
    """The strategy that decided: `origin` is `in-tree` or the distribution that the plugin came in."""

    framework: str
    version: str
    origin: str


class RecordedChange(TypedDict):
    """One JSON Patch operation and why: `path` is a JSON pointer, `field` the same place with list items by name."""

    op: str
    path: str
    field: str
    before: NotRequired[object]
    after: NotRequired[object]
    rule: str
    reason: str


class RecordedFinding(TypedDict):
    """One finding of validation about one field."""

    severity: str
    field: str
    value: object
    message: str
    rule: str


class EventDetails(TypedDict):
    """What an event of RL sessions was about: names and paths, and never what people wrote."""

    session_id: NotRequired[str]
    project_id: NotRequired[str]
    tinker_path: NotRequired[str]
    source_path: NotRequired[str]
    purpose: NotRequired[str]
    status: NotRequired[str]


class RecordedEvent(TypedDict):
    """What happened to a session or a checkpoint of RL sessions; such a record has no runtime, changes or findings.

    `name` is RESOURCE_ACTION, such as `checkpoint_saved`.
    """

    name: str
    details: EventDetails


class Omitted(TypedDict):
    """How many changes and findings a record has no room for."""

    changes: int
    findings: int


class Record(TypedDict):
    """One admission decision, as the admission pipeline records it, or one event of RL sessions."""

    schema: Literal["muster.dev/audit/v1"]
    time: Time
    uid: str
    user: User
    operation: Operation
    phase: Phase
    object: RecordedObject
    owner: Owner | None
    runtime: RecordedRuntime | None
    framework: str | None
    strategy: RecordedStrategy | None
    mode: Mode
    dryRun: bool
    decision: Decision
    changes: list[RecordedChange]
    findings: list[RecordedFinding]
    latencyMicroseconds: int
    message: NotRequired[str]
    omitted: NotRequired[Omitted]
    event: NotRequired[RecordedEvent]


class Link(TypedDict):
    """A record's place in the chain: its number, the hash of the previous record, its own hash."""

    seq: int
    prev: Digest
    hash: Digest


class Sealed(Record, Link):
    """A record in the log; `dropped` counts the records just before it that were not written there."""

    dropped: NotRequired[int]


def timestamp(moment: datetime.datetime) -> Time:
    """Write an aware `moment` as the log does: RFC 3339, microseconds, UTC, `Z`."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def check(value: object, shape: object = Sealed) -> list[str]:
    """Return one sentence for each field of `value` (parsed JSON) that does not fit `shape`; undeclared ones fit."""
    return list(_problems(value, shape, ""))


def misfit(value: object, shape: object = Sealed) -> str | None:
    """Return the first sentence of `check`; None when the value fits."""
    return next(_problems(value, shape, ""), None)


def is_link(value: object) -> typing.TypeGuard[Link]:
    """Whether `value` has a place in a chain; its other fields are not checked."""
    return misfit(value, Link) is None


_LONGEST_QUOTE = 60
_NAMES: dict[object, str] = {str: "a string", int: "an integer", bool: "true or false", type(None): "null"}


def _problems(value: object, shape: object, path: str) -> Iterator[str]:
    origin, args = _taken_apart(shape)
    if origin is TypedDict:
        yield from _fields(value, cast("type", shape), path)
    elif origin in (Union, types.UnionType):
        tried = [list(_problems(value, each, path)) for each in args]
        if all(tried):
            yield from tried[0]
    elif origin is list and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(item, args[0], f"{path}[{index}]")
    elif wanted := _wanted(value, shape, origin, args):
        quote = repr(value[: _LONGEST_QUOTE + 1]) if isinstance(value, str) else _quotes().repr(value)
        short = quote if len(quote) <= _LONGEST_QUOTE else quote[:_LONGEST_QUOTE] + "..."
        yield f"{path or 'line'}: {short} is not {wanted}"


def _fields(value: object, shape: type, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path or 'line'}: {_quotes().repr(value)[:_LONGEST_QUOTE]} is not an object"
        return
    for name, (hint, required) in _hints(shape).items():
        here = f"{path}.{name}" if path else name
        if name in value:
            yield from _problems(value[name], hint, here)
        elif required:
            what = shape.__name__.removeprefix("Recorded").lower()  # `finding`, the name in the log
            yield f"{here}: is missing; every {what} has it"


# Any: a shape is made of shapes, of the strings of a Literal, or of a pattern.
def _wanted(value: object, shape: object, origin: object, args: tuple[Any, ...]) -> str:
    """Return what a value should be that has no fields or items, "" when it fits."""
    if origin is list:
        return "a list"
    if origin is Literal:
        return "" if value in args else f"one of {', '.join(args)}"
    if origin is not None:
        fits = isinstance(value, str) and bool(re.fullmatch(args[1], value))
        return "" if fits else f"a string that matches {args[1]}"
    fits = shape is object or (
        isinstance(value, cast("type", shape)) and not (shape is int and isinstance(value, bool))
    )
    return "" if fits else _NAMES.get(shape, str(shape))


@functools.cache
def _taken_apart(shape: object) -> tuple[object, tuple[Any, ...]]:
    """Split a shape into its origin (None for a plain type) and its arguments."""
    if typing.is_typeddict(shape):
        return TypedDict, ()
    origin = typing.get_origin(shape)
    return (origin, typing.get_args(shape)) if origin else (None, ())


@functools.cache
def _hints(shape: type) -> dict[str, tuple[object, bool]]:
    """Return the fields of a shape, and which of them must be there."""
    hints = typing.get_type_hints(shape, include_extras=True).items()
    optional = {name for name, hint in hints if typing.get_origin(hint) is NotRequired}
    return {
        name: (typing.get_args(hint)[0] if name in optional else hint, name not in optional) for name, hint in hints
    }


@functools.cache
def _quotes() -> reprlib.Repr:
    """Return a writer of values that looks at no more of one than is quoted."""
    quotes = reprlib.Repr()
    quotes.maxlevel = 4
    quotes.maxdict = quotes.maxlist = 8
    quotes.maxstring = quotes.maxother = 3 * _LONGEST_QUOTE
    return quotes
