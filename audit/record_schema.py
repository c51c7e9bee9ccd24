"""The shape of one audit record, schema `muster.dev/audit/v1`, and the check of a value against it.

Programs of other people read the log long after the process that wrote it has ended. So its shape is a published
interface: within v1, fields may be added, but are never renamed, retyped or removed. docs/audit.md explains each field.
Readers check each line before they use its fields, since a file may be edited by hand, or be no audit log.
"""

from __future__ import annotations

import datetime
import functools
import operator
import re
import reprlib
import secrets
from typing import Annotated, Final, Literal, NotRequired, TypeAlias, TypedDict

import msgspec

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
    "event",
    "event_name",
    "job_name",
    "misfit",
    "timestamp",
]

SCHEMA: Final = "muster.dev/audit/v1"
BOOKKEEPING: Final = frozenset({"core/applied"})
"""Rules of changes in which Muster stores its own memory of a job (`changes.restores`), which notices omit."""

Time: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z")]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]

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
    """What an event was about: names and paths, and never what people wrote."""

    session_id: NotRequired[str]
    project_id: NotRequired[str]
    tinker_path: NotRequired[str]
    source_path: NotRequired[str]
    purpose: NotRequired[str]
    status: NotRequired[str]
    record: NotRequired[str]


class RecordedEvent(TypedDict):
    """What happened to the log itself, or to a session or a checkpoint of RL sessions.

    Such a record has no runtime, changes or findings. `name` is RESOURCE_ACTION, such as `checkpoint_saved`.
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


def event(name: str, details: EventDetails, about: RecordedObject, moment: datetime.datetime) -> Record:
    """Return the record of an event that Muster itself caused, an update; `moment` has a time zone."""
    return {
        "schema": SCHEMA,
        "time": timestamp(moment),
        "uid": secrets.token_hex(12),
        "user": {"username": ""},
        "operation": "UPDATE",
        "phase": "validate",
        "object": about,
        "owner": None,
        "runtime": None,
        "framework": None,
        "strategy": None,
        "mode": "enforce",
        "dryRun": False,
        "decision": "allowed",
        "changes": [],
        "findings": [],
        "latencyMicroseconds": 0,
        "message": name,
        "event": {"name": name, "details": details},
    }


def event_name(record: object) -> str:
    """Return the name of the event that a record is about, "" for none; `record` may be any value of JSON."""
    found = record.get("event") if isinstance(record, dict) else None
    return str(found.get("name")) if isinstance(found, dict) else ""


def job_name(record: Record) -> str:
    """Return the name of the job; of one without a name yet, its generateName and a star."""
    return record["object"]["name"] or f"{record['object'].get('generateName', '')}*"


def timestamp(moment: datetime.datetime) -> Time:
    """Write an aware `moment` as the log does: RFC 3339, microseconds, UTC, `Z`."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def misfit(value: object, shape: object = Sealed) -> str | None:
    """Return one sentence about a field of `value` (parsed JSON) that does not fit `shape`; undeclared ones fit.

    None when the value fits.
    """
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        return _sentence(value, what, place.removeprefix(".").removesuffix("`"))
    return None


_LONGEST_QUOTE = 60
_QUOTES = reprlib.Repr()  # looks at no more of a value than is quoted
_QUOTES.maxlevel = 4
_QUOTES.maxdict = _QUOTES.maxlist = 8
_QUOTES.maxstring = _QUOTES.maxother = 3 * _LONGEST_QUOTE
_STEP = re.compile(r"(\w+)|\[(\d+)\]")
_EXPECTED = re.compile(r"Expected `(\w+)")
_NAMES = {"str": "a string", "int": "an integer", "bool": "true or false", "object": "an object", "array": "a list"}


def _sentence(value: object, what: str, place: str) -> str:
    """Return what msgspec tells in words of its own, with the value that it found at a place."""
    if what.startswith("Object missing"):
        return f"{place}{'.' if place else ''}{what.split('`')[1]}: is missing"
    steps = (name or int(index) for name, index in _STEP.findall(place))
    found = functools.reduce(operator.getitem, steps, value)  # type: ignore[arg-type]  # msgspec has come this way
    quote = repr(found[: _LONGEST_QUOTE + 1]) if isinstance(found, str) else _QUOTES.repr(found)
    short = quote if len(quote) <= _LONGEST_QUOTE else quote[:_LONGEST_QUOTE] + "..."
    expected, regex = _EXPECTED.match(what), what.partition(" matching regex ")[2]
    wanted = _NAMES.get(expected[1], expected[1]) if expected else "one of the values that it can have"
    pattern = f" that matches {regex}" if regex else ""
    return f"{place or 'line'}: {short} is not {wanted}{pattern}"
