"""The shape of one audit record, schema `muster.dev/audit/v1`.

Programs of other people read the log long after the process that wrote it has ended. So its shape is a published
interface: within v1, fields may be added, but are never renamed, retyped or removed. The shapes are only declared here;
`schemas` checks lines against them, and docs/audit.md explains every field.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Final, Literal, NotRequired, TypeAlias, TypedDict

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
    "timestamp",
]

SCHEMA: Final = "muster.dev/audit/v1"
BOOKKEEPING: Final = frozenset({"core/applied"})
"""Rules of changes in which Muster stores its own memory (`muster.strategies.changes.restores`); notices for people
omit these changes. The rule is written out here, so that who only writes a log needs nothing of the domain."""

# The second argument of Annotated is the regular expression that `schemas.check` uses.
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
