"""Removes secrets from a record before it is written, because logs are copied to many places.

Redaction is one pure function on the writer's thread. It covers the whole record: values of changes, quotes in
findings, messages. Most records have nothing that resembles a secret, which a few substring tests on the serialised
record show. The others are walked, and a secret that was found in one place is then replaced in all others.
docs/audit.md lists the rules and their limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import orjson

from muster.webhook.audit.records import Record, RecordedChange, RecordedFinding
from muster.webhook.audit.redaction import bounds, secret_names, texts, walks
from muster.webhook.audit.redaction.echoes import Echoes

__all__ = ["DEFAULT", "Rules", "by_field", "redact"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Additions to the built-in rules: names of secrets, and formats of secret values."""

    names: re.Pattern[str] | None = None
    formats: re.Pattern[str] | None = None

    @classmethod
    def from_patterns(cls, names: Iterable[str] = (), formats: Iterable[str] = ()) -> Rules:
        """Compile regular expressions; ValueError names one that does not compile."""
        return cls(_compiled("name", names, re.IGNORECASE), _compiled("format", formats))

    def judge(self, referring: frozenset[str]) -> texts.Judge:
        """Return the test for secret names; the names in `referring` are always secret."""
        more = self.names
        if more is None and not referring:
            return secret_names.is_secret
        return lambda name: name in referring or secret_names.is_secret(name) or bool(more and more.search(name))


DEFAULT = Rules()
"""The built-in rules only."""

_NAMED = ("object", "owner", "runtime", "framework")
_BODY = ("changes", "findings", "message")
# Bytes of path, field and rule of a change, generously.
_PATHS = 512
_COMMON = b"tokenizer"
_MUSTERS = frozenset({"op", "rule", "severity"})


def redact(record: Record, rules: Rules = DEFAULT) -> Record:
    """Return `record` with each secret replaced by the mark; the input is not changed and shares unchanged parts.

    Raises:
        TypeError: the record has a value that JSON cannot express.
    """
    contexts = [_context(change["field"]) for change in record["changes"]]
    telling = list(map(_telling, record["changes"], contexts))
    reasons = [change["reason"] for change in record["changes"]]
    fields = list(set(contexts))
    body = _lowered([telling, list(set(reasons)), fields, record["findings"], record.get("message")])
    is_quiet = rules == DEFAULT and not texts.is_telling(body)
    if is_quiet and not _head_is_telling(record):
        return _bounded(record, len(body))
    referring = frozenset(_referring_names(record)) if b"secretkeyref" in body else frozenset()
    walk = walks.Walk(rules.judge(referring), rules.formats)
    head = walk.mapping(_head(record)) if rules != DEFAULT or _head_is_telling(record) else {}
    result = cast("Record", {**record, **head})
    if is_quiet and not walk.echoes:
        return _bounded(result, len(body))
    # The hints are for the built-in rules; with any other rule, each part is a suspect.
    thorough = rules != DEFAULT or bool(referring) or texts.is_telling(_lowered(fields))
    suspects = [thorough or texts.is_telling(_lowered(part)) for part in zip(telling, reasons, strict=True)]
    return bounds.bounded(_without_echoes(_walked(result, walk, suspects), walk))


def _bounded(record: Record, octets: int) -> Record:
    """Limit a record; one whose body has few bytes and few paths needs no closer look."""
    return record if octets + _PATHS * len(record["changes"]) < bounds.BYTES // 2 else bounds.bounded(record)


def _head_is_telling(record: Record) -> bool:
    """Whether the head may hold a secret: by its form, or in what the job's author named."""
    named = [record.get(key) for key in _NAMED]
    return texts.is_telling(_lowered(_head(record)), texts.FORM_HINTS) or texts.is_telling(_lowered(named))


def _head(record: Record) -> dict[str, object]:
    head = cast("dict[str, object]", dict(record))
    for key in _BODY:
        head.pop(key, None)
    return head


def _telling(change: RecordedChange, context: str) -> tuple[object, ...]:
    """Return the parts that can contain or name a secret; of paths, which are long and similar, only the end."""
    pointer = change["path"]
    end = pointer[pointer.rfind("/") :]
    return change["field"][len(context) :], end, change.get("before"), change.get("after")


def _context(field: str) -> str:
    """Return a field without its end, which many changes have in common."""
    return field[: max(field.rfind("["), 0)]


def _lowered(part: object) -> bytes:
    return orjson.dumps(part).lower().replace(_COMMON, b"")


def _walked(record: Record, walk: walks.Walk, suspects: list[bool]) -> Record:
    following = frozenset(_values_of_flags(record["changes"], walk))
    pairs = zip(record["changes"], suspects, strict=True)
    record["changes"] = [
        _change(change, walk, following) if suspect or following else change for change, suspect in pairs
    ]
    record["findings"] = [_finding(finding, walk) for finding in record["findings"]]
    if "message" in record:
        record["message"] = walk.text(record["message"])
    return record


def _change(change: RecordedChange, walk: walks.Walk, following: frozenset[str]) -> RecordedChange:
    conceal = _concealment(change, walk, following) or walk.value
    told = {key: walk.text(change[key]) for key in ("path", "field", "reason")}
    values = {side: conceal(change[side]) for side in ("before", "after") if side in change}
    return cast("RecordedChange", {**change, **told, **values})


def _finding(finding: RecordedFinding, walk: walks.Walk) -> RecordedFinding:
    conceal = by_field(finding["field"], walk) or walk.value
    told = {"field": walk.text(finding["field"]), "message": walk.sentence(finding["message"])}
    return cast("RecordedFinding", {**finding, **told, "value": conceal(finding["value"])})


def _concealment(
    change: RecordedChange, walk: walks.Walk, following: frozenset[str]
) -> Callable[[object], object] | None:
    pointer = change["path"]
    last = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    if pointer in following or walk.judge(last):
        return walk.conceal
    return by_field(change["field"], walk)


def by_field(field: str, walk: walks.Walk) -> Callable[[object], object] | None:
    """Choose how to conceal: all of `spec.password`, the value of `env[HF_TOKEN]`, nothing of a container `auth`."""
    item = _item(field)
    if item is None:
        last = field[max(field.rfind("."), field.rfind("]")) + 1 :]
        return walk.conceal if walk.judge(last) and not texts.names_only(last) else None
    return walk.conceal_entry if walk.judge(item) else None


def _item(field: str) -> str | None:
    """Return the name of the list entry or the key that a field ends with, `HF_TOKEN` of `env[HF_TOKEN].value`."""
    whole = field.removesuffix(".value")
    if not whole.endswith("]"):
        return None
    start = whole.find("[", whole.rfind("]", 0, -1) + 1)
    return whole[start + 1 : -1].removeprefix("name=").strip("\"'")


def _values_of_flags(changes: list[RecordedChange], walk: walks.Walk) -> Iterator[str]:
    """Yield pointers of arguments that follow a secret flag (`args/3` when `args/2` is `--hub_token`)."""
    for change in changes:
        parent, _, index = change["path"].rpartition("/")
        if index.isdecimal() and any(walk.is_flag(change.get(side)) for side in ("before", "after")):
            yield f"{parent}/{int(index) + 1}"


def _referring_names(record: Record) -> Iterator[str]:
    """Yield the names of variables that come from a Secret anywhere in the record."""
    for change in record["changes"]:
        for side in (change.get("before"), change.get("after")):
            item = _item(change["field"].removesuffix(".valueFrom"))
            if item and isinstance(side, dict) and "secretKeyRef" in {*side, *_keys(side.get("valueFrom"))}:
                yield item
            yield from walks.names_from_secrets(side)
    for finding in record["findings"]:
        yield from walks.names_from_secrets(finding["value"])


def _keys(value: object) -> Iterable[str]:
    return value if isinstance(value, dict) else ()


def _without_echoes(record: Record, walk: walks.Walk) -> Record:
    if echoes := walk.echoes:
        record["changes"] = [cast("RecordedChange", _hidden(change, echoes)) for change in record["changes"]]
        record["findings"] = [cast("RecordedFinding", _hidden(finding, echoes)) for finding in record["findings"]]
        if "message" in record:
            record["message"] = echoes.text(record["message"])
    return record


def _hidden(part: Mapping[str, object], echoes: Echoes) -> dict[str, object]:
    """Return a change or a finding without echoes; what Muster wrote itself stays, whatever a secret is equal to."""
    return {key: item if key in _MUSTERS else echoes.value(item) for key, item in part.items()}


def _compiled(what: str, patterns: Iterable[str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str] | None:
    checked = [_checked(what, pattern, flags) for pattern in patterns]
    return re.compile("|".join(f"(?:{pattern})" for pattern in checked), flags) if checked else None


def _checked(what: str, pattern: str, flags: re.RegexFlag) -> str:
    try:
        re.compile(pattern, flags)
    except re.error as error:
        message = f"redaction {what} {pattern!r} is not a regular expression: {error}; correct or remove it"
        raise ValueError(message) from error
    return pattern
