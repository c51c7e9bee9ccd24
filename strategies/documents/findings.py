"""Findings: what validation and enforcement tell the person who wrote the job.

A finding has the shape of Kubernetes' `field.Error`: a field path, the offending value, a message that says what to do.
Every rule adds its own findings and never stops another rule, so that one `kubectl apply` shows everything wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = [
    "MOST",
    "OPEN",
    "Finding",
    "Severity",
    "beginning",
    "error",
    "errors",
    "limited",
    "note",
    "once",
    "quoted",
    "warning",
]

MOST = 300
"""Findings of one decision; the others are counted."""

_SHOWN = 120
_LONGEST = 1024  # characters of a quoted text, and of a message
_WORD = 200  # characters before a cut in which a word is looked for, so that none is cut in two
_ENTRIES = 32  # of a quoted list or object, at each of three levels
_LEVELS = 3


class Severity(Enum):
    """How much a finding says against a job.

    `ERROR` denies the job in mode `enforce`. `WARNING` is shown, and the job passes. `NOTE` says what Muster could not
    see, or why it stayed silent; the command line and the audit log show it, and kubectl does not.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One error, warning or note about one field.

    Attributes:
        severity: whether it denies the job.
        field: keyed field path, `spec.trainer.numNodes`.
        value: the offending value as the document holds it, shortened where it is long; None when a field is missing.
        message: what is wrong and what to do, one sentence, no full stop.
        rule: id of the rule that reported it, such as `trl/unknown-flag`.
        stands_for: how many findings of this severity it is; more than one where it counts those that are left out.
    """

    severity: Severity
    field: str
    value: Any
    message: str
    rule: str
    stands_for: int = 1

    @property
    def identity(self) -> tuple[str, str, str, str, str]:
        """What two findings have in common that say the same, to be compared and hashed."""
        return self.severity.value, self.field, repr(self.value), self.message, self.rule

    def __str__(self) -> str:
        """Return `field: value: message`, without the value when it is None, as the API server prints field errors."""
        if self.value is None:
            return f"{self.field}: {self.message}"
        return f"{self.field}: {quoted(self.value)}: {self.message}"


def error(field: str, value: Any, message: str, *, rule: str) -> Finding:
    """Make a finding that denies the job."""
    return _made(Severity.ERROR, field, value, message, rule)


def warning(field: str, value: Any, message: str, *, rule: str) -> Finding:
    """Make a finding that is shown while the job passes."""
    return _made(Severity.WARNING, field, value, message, rule)


OPEN = "open: the guard measures it at the start"
"""How a note ends about what documents cannot tell; docs/guard.md says which jobs have the guard."""


def note(field: str, value: Any, message: str, *, rule: str) -> Finding:
    """Make a finding about what Muster could not see, which is not a reproach."""
    return _made(Severity.NOTE, field, value, message, rule)


def limited(found: Sequence[Finding]) -> list[Finding]:
    """Return at most `MOST` findings: errors before warnings before notes, and a last one that counts the others.

    Args:
        found: all findings of one decision, in order.
    """
    if len(found) <= MOST:
        return list(found)
    ranked = sorted(range(len(found)), key=lambda place: (_RANKS[found[place].severity], place))
    kept = [found[place] for place in sorted(ranked[: MOST - 1])]
    rest = f"and {len(found) - len(kept)} more findings; mend these first, and apply the job again to see the others"
    severity = found[ranked[MOST - 1]].severity
    same = sum(found[place].severity is severity for place in ranked[MOST - 1 :])
    return [*kept, Finding(severity, "the object", None, rest, "core/more-findings", same)]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that deny the job."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def once(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings without repetitions, which several parts of one job may have in common."""
    return list({finding.identity: finding for finding in reversed(list(findings))}.values())[::-1]


def _made(severity: Severity, field: str, value: Any, message: str, rule: str) -> Finding:
    field, message = _short(field, 0), _short(message, 0)  # texts; what a plugin gave instead is for `guards` to refuse
    return Finding(severity, field, _short(value, _LEVELS), message, rule)


def _short(value: Any, levels: int) -> Any:
    """Return a value with long texts cut and long lists and objects ended by a count; a short one as it is."""
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, dict):
        return _short_members(value, levels)
    return _short_entries(value, levels) if isinstance(value, list | tuple) else value


def _short_members(value: dict[Any, Any], levels: int) -> dict[Any, Any]:
    if not levels:
        return {"…": len(value)} if value else value
    some = itertools.islice(value.items(), _ENTRIES)
    short = {_cut(key) if isinstance(key, str) else key: _short(member, levels - 1) for key, member in some}
    return short if len(value) <= _ENTRIES else {**short, "…": f"and {len(value) - _ENTRIES} more"}


def _short_entries(value: list[Any] | tuple[Any, ...], levels: int) -> list[Any] | tuple[Any, ...]:
    if not levels:
        return ["…"] if value else value
    short = [_short(entry, levels - 1) for entry in value[:_ENTRIES]]
    if len(value) > _ENTRIES:
        short.append(f"and {len(value) - _ENTRIES} more")
    return tuple(short) if isinstance(value, tuple) else short


def quoted(value: Any) -> str:
    """Return a value as a message quotes it: a text as Python writes it, true and null as YAML does, and cut."""
    return beginning(_written(value, _LEVELS), _SHOWN)


def _written(value: Any, levels: int) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, dict) and levels:
        return f"{{{', '.join(f'{key!r}: {_written(each, levels - 1)}' for key, each in value.items())}}}"
    if isinstance(value, list) and levels:
        return f"[{', '.join(_written(each, levels - 1) for each in value)}]"
    return repr(value)


def beginning(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters; the dots say that it was cut, so that no secret ends at them."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _cut(text: str) -> str:
    """Cut a long text before a word, so that nobody sees half of a secret that is known by its form."""
    if len(text) <= _LONGEST:
        return text
    start = text[: _LONGEST - 1]
    blank = max(start.rfind(" ", _LONGEST - _WORD), start.rfind("\n", _LONGEST - _WORD))
    return f"{start[:blank] if blank > 0 else start}…"
