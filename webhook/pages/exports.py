"""What is filtered, as a file: the records as they are in the log, or a table for a spreadsheet.

An export reads block by block, each within a budget and with no file open in between, and ends at a number of records
or of lines. Then its last line says where the next export continues, so that nobody takes a part for the whole.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import orjson

from muster.audit.record_schema import Sealed
from muster.webhook.pages import scans, subjects
from muster.webhook.pages.asked import Asked
from muster.webhook.pages.markup import visible
from muster.webhook.pages.shelves import Shelf

__all__ = ["FORMS", "Bounds", "Form", "blocks"]

_BLOCK = scans.Budget(rows=200, jobs=200, lines=5_000, data=16 * 1024 * 1024)
_LONGEST = 2_000  # characters of a cell
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_COLUMNS: dict[str, Callable[[Sealed], object]] = {
    "time": lambda record: record["time"],
    "decision": lambda record: record["decision"],
    "operation": lambda record: record["operation"],
    "phase": lambda record: record["phase"],
    "kind": lambda record: record["object"]["kind"],
    "namespace": lambda record: record["object"]["namespace"],
    "name": lambda record: record["object"]["name"],
    "job": subjects.job_root,
    "framework": lambda record: record["framework"],
    "runtime": lambda record: record["runtime"]["name"] if record["runtime"] else "",
    "mode": lambda record: record["mode"],
    "dryRun": lambda record: record["dryRun"],
    "user": lambda record: record["user"]["username"],
    "changed": lambda record: _lines(f"{each['field']} ({each['rule']})" for each in record["changes"]),
    "found": lambda record: _lines(
        f"{each['severity']}: {each['field']}: {each['message']} ({each['rule']})" for each in record["findings"]
    ),
    "message": lambda record: record.get("message", ""),
    "uid": lambda record: record["uid"],
    "seq": lambda record: record["seq"],
    "hash": lambda record: record["hash"],
}


class Bounds(NamedTuple):
    """At most how many records an export has, and how many lines it reads for them."""

    records: int = 10_000
    lines: int = 200_000


class Form(NamedTuple):
    """How an export is written: its media type, its first bytes, and those of one row and of the end of a part."""

    media: str
    head: bytes
    row: Callable[[scans.Row], bytes]
    end: Callable[[str], bytes]


def blocks(shelf: Shelf, question: Asked, path: str, bounds: Bounds | None = None) -> Iterator[bytes]:
    """Yield an export in parts; each is made when it is asked for, and reads within the budget of a block.

    Args:
        shelf: the logs.
        question: what is filtered, and where it begins.
        path: the path of the export, of `FORMS`, for the link to the rest.
        bounds: where the export ends.

    Raises:
        GoneError: rotation deleted the file in which the export continues.
        OSError: a file cannot be read.
    """
    form, bounds = FORMS[path], bounds or Bounds()
    cursor, lines, rows = question.cursor, 0, 0
    head = form.head
    while True:
        budget = replace(_BLOCK, rows=min(_BLOCK.rows, bounds.records - rows))
        found = scans.scan(shelf, question.questions, cursor, budget=budget)
        kept = [row for row in found.rows if row.entry.record is not None]
        cursor, lines, rows = found.older, lines + found.lines, rows + len(found.rows)
        yield head + b"".join(map(form.row, kept))
        head = b""
        if cursor is None:
            return
        if rows >= bounds.records or lines >= bounds.lines:
            yield form.end(question.continued(cursor, path))
            return


def _lines(parts: Iterator[str]) -> str:
    return "\n".join(parts)


def _csv(values: list[object]) -> bytes:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([_cell(value) for value in values])
    return out.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: object) -> str:
    """Write a value so that a spreadsheet takes it as text: what could begin a formula gets an apostrophe before it."""
    text = visible("" if value is None else str(value)[: _LONGEST + 1])
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULAS) or text.startswith(_FORMULAS) else text


def _csv_row(row: scans.Row) -> bytes:
    record = row.entry.record
    return _csv([column(record) for column in _COLUMNS.values()]) if record else b""


def _json_row(row: scans.Row) -> bytes:
    return (row.found.data or b"") + b"\n"


FORMS = {
    "/export.csv": Form("text/csv", _csv(list(_COLUMNS)), _csv_row, lambda link: _csv(["continued at", link])),
    "/export.jsonl": Form(
        "application/x-ndjson", b"", _json_row, lambda link: orjson.dumps({"continued at": link}) + b"\n"
    ),
}
"""The forms of an export, by path."""
