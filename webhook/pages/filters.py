"""What a URL asks for: the filters of the form, and where the list continues."""

from __future__ import annotations

import datetime
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from muster.audit import queries
from muster.audit.record_schema import Decision
from muster.webhook.pages import log_scan
from muster.webhook.pages.log_places import GoneError

__all__ = [
    "DECISIONS",
    "FILTERS",
    "KINDS",
    "UNREADABLE",
    "VIEWS",
    "Filters",
    "QuestionError",
    "job_query",
    "literal",
    "query",
]

UNREADABLE = "unreadable"
"""The value of the decision filter for lines without a record."""
DECISIONS = (*get_args(Decision), UNREADABLE)
KINDS = ("TrainJob", "JobSet", "OptimizationJob")
VIEWS = ("jobs", "decisions")
"""What a row of the list stands for; jobs is the default."""
FILTERS = ("job", "namespace", "kind", "decision", "framework", "rule", "user", "since", "until", "text", "uid")
_VIEW = "view"
_CONTINUED = "before"
_LONGEST = 300


class QuestionError(ValueError):
    """A filter that cannot be used; the message names it and the allowed values."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The list that a URL asks for.

    Attributes:
        typed: the filters as they were typed, for the form and for links.
        view: what a row stands for, of `VIEWS`.
        questions: the same filters for `queries`.
        unreadable: whether to list lines without a record instead of records.
        cursor: where the list continues; None for its newest end.
    """

    typed: Mapping[str, str]
    questions: queries.Questions
    unreadable: bool = False
    cursor: log_scan.Cursor | None = None
    view: str = VIEWS[0]

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[str, str]], now: datetime.datetime) -> Filters:
        """Read the query of a URL; QuestionError names the first part that cannot be used."""
        values = _checked(pairs)
        typed = {name: values[name] for name in FILTERS if values.get(name)}
        decision = typed.get("decision")
        plain = {name: typed[name] for name in ("job", "namespace", "kind", "framework", "rule", "user", "text", "uid")
                 if name in typed}  # fmt: skip
        questions = queries.Questions(
            **plain,
            decision=None if decision == UNREADABLE else cast("Decision | None", decision),
            since=_moment(typed, "since", now),
            until=_moment(typed, "until", now),
        )
        view = values.get(_VIEW) or VIEWS[0]
        return cls(typed, questions, decision == UNREADABLE, _cursor(values.get(_CONTINUED)), view)

    @property
    def linked(self) -> dict[str, str]:
        """The filters and the view, for links; what is as by default is left out."""
        return {**self.typed, **({} if self.view == VIEWS[0] else {_VIEW: self.view})}

    @property
    def is_by_job(self) -> bool:
        """Whether a row stands for a job."""
        return self.view == VIEWS[0] and not self.unreadable

    def continued(self, cursor: log_scan.Cursor) -> str:
        """Return the path and query of the same list, starting at a cursor."""
        return query(**self.linked, before=str(cursor))


def query(**values: str) -> str:
    """Return the path and query of a list."""
    return f"/?{urllib.parse.urlencode(values)}"


def literal(text: str) -> str:
    """Return a pattern that matches only this text, even if it contains wildcards."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in text)


def job_query(namespace: str, name: str, **more: str) -> str:
    """Return the path of the list about one job: its records, and those of the JobSet that it owns."""
    return query(**{"namespace": literal(namespace), "job": literal(name), **more})


def _checked(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in pairs:
        text = value.strip()
        if name not in (*FILTERS, _VIEW, _CONTINUED):
            raise QuestionError(f"{name[:60]!r} is not a filter; the filters are {', '.join(FILTERS)}")
        if name in values:
            raise QuestionError(f"{name}: is given twice; give it once")
        if len(text) > _LONGEST and name != _CONTINUED:
            raise QuestionError(f"{name}: has {len(text)} characters; give at most {_LONGEST}")
        values[name] = text
    for name, allowed in (("decision", DECISIONS), ("kind", KINDS), (_VIEW, VIEWS)):
        if values.get(name) and values[name] not in allowed:
            raise QuestionError(f"{name}: {values[name]!r} is not one of {', '.join(allowed)}")
    return values


def _moment(typed: Mapping[str, str], name: str, now: datetime.datetime) -> datetime.datetime | None:
    try:
        return queries.moment(typed[name], now) if name in typed else None
    except ValueError as error:
        raise QuestionError(f"{name}: {error}") from error


def _cursor(text: str | None) -> log_scan.Cursor | None:
    try:
        return log_scan.Cursor.parse(text) if text else None
    except GoneError as error:
        raise QuestionError(f"{_CONTINUED}: {error}; begin at the newest record") from error
