"""Workflow commands, by which GitHub Actions shows findings beside the lines of a change.

Source: docs.github.com, Workflow commands for GitHub Actions; actions/toolkit, packages/core/src/command.ts
(`escapeData`, `escapeProperty`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from muster.webhook.cli import places, unjudged
from muster.webhook.cli.cases import Case
from muster.webhook.cli.problems import one_line
from muster.webhook.cli.unjudged import Unjudged
from muster.webhook.kubeyaml.composer import Spot
from muster.webhook.kubeyaml.sources import Origin, Unreadable

__all__ = ["lines"]

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def lines(decided: Sequence[Case], others: Sequence[Unjudged], unreadable: Sequence[Unreadable]) -> Iterator[str]:
    """Yield one command for each finding and failure, and for what is not judged or cannot be read."""
    for case in decided:
        title = f"{case.title}{' (predicted)' if case.predicted else ''}"
        for each in case.findings:
            place = _place(case.source.origin, places.of_finding(case, each))
            yield _command(_LEVELS[each.severity.value], {**place, "title": each.rule}, f"{title} {each}")
        if case.failure:
            yield _command("error", _place(case.source.origin, places.of_case(case)), f"{title} {case.failure}")
    for other in others:
        if other.what:
            yield _command(_LEVELS[other.level], _place(other.origin, None), str(other))
    yield from (_command("notice", {}, told) for told in unjudged.counted(each for each in others if not each.what))
    for broken in unreadable:
        yield _command("error", _place(broken.origin, None), str(broken))


def _place(origin: Origin, spot: Spot | None) -> dict[str, str]:
    line = spot.line if spot is not None else origin.line
    column = {"col": str(spot.column)} if spot is not None else {}
    return {"file": origin.file, **({"line": str(line)} if line else {}), **column}


def _command(level: str, properties: Mapping[str, str], text: str) -> str:
    given = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    return f"::{level}{' ' if given else ''}{given}::{_escaped(one_line(text), _DATA)}"


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(each, each) for each in text)
