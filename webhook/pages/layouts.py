"""The parts that all pages share: head, skip link, header, badges and links."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence

from muster.audit.record_schema import BOOKKEEPING, RecordedChange, RecordedFinding, Sealed
from muster.webhook.pages import asked
from muster.webhook.pages.markup import Child, Markup, element

__all__ = [
    "badge",
    "document",
    "is_bookkeeping",
    "job_name",
    "job_query",
    "moment",
    "ordered",
    "problem_page",
    "rule_path",
    "severity",
]

_LOGS = 6  # that the header names
_SEVERITIES = {"error": 0, "warning": 1, "note": 2}


def document(title: str, main: Child, logs: Sequence[str]) -> bytes:
    """Return a whole page.

    Args:
        title: the title of the page, without the name of the product.
        main: the content; it begins with an `h1`.
        logs: the paths of the logs, for the header.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · Muster audit log"),
        element("link", rel="icon", href="/icon.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href="/style.css"),
    )
    header = element(
        "header",
        element("a", "Muster audit log", href="/", class_="brand"),
        element("p", *(element("code", name) for name in logs[:_LOGS]), _more(len(logs) - _LOGS), class_="logs"),
    )
    skip = element("a", "Skip to content", href="#main", class_="skip")
    body = element("body", skip, header, element("main", main, id="main", tabindex="-1"))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n".encode("utf-8", "backslashreplace")


def _more(count: int) -> Child:
    return f" and {count} more" if count > 0 else None


def problem_page(title: str, message: str, logs: Sequence[str]) -> bytes:
    """Return a page with an error message and a link back to the list."""
    back = element("p", element("a", "Back to the newest decisions", href="/"))
    return document(title, [element("h1", title), element("p", message, class_="problem"), back], logs)


def badge(decision: str) -> Markup:
    """Return a decision as a coloured word."""
    return element("span", decision, class_=f"badge {decision}")


def moment(time: str) -> Markup:
    """Return the time of a record in UTC, to the second; the exact time is in the attribute."""
    return element("time", time[:19].replace("T", " "), datetime=time)


def job_name(record: Sealed) -> str:
    """Return the name of a job; one that is only known by its `generateName` ends in a star."""
    return record["object"]["name"] or f"{record['object'].get('generateName', '')}*"


def job_query(namespace: str, name: str, kind: str = "") -> str:
    """Return the path of the list about one job: its records, and those of the JobSet that it owns."""
    filters = {"namespace": asked.literal(namespace), "job": asked.literal(name), "kind": kind}
    return asked.query(**{name: value for name, value in filters.items() if value})


def ordered(record: Sealed) -> tuple[list[RecordedChange], list[RecordedFinding]]:
    """Return changes and findings, the most important ones first."""
    return sorted(record["changes"], key=is_bookkeeping), sorted(record["findings"], key=severity)


def is_bookkeeping(change: RecordedChange) -> bool:
    """Whether a change is not about the job itself; such changes are shown last."""
    return change["rule"] in BOOKKEEPING


def severity(finding: RecordedFinding) -> int:
    """Return the rank of a finding; errors come first."""
    return _SEVERITIES.get(finding["severity"], 0)


def rule_path(rule: str) -> str:
    """Return the path of the page that explains a rule."""
    return f"/rules/{urllib.parse.quote(rule)}"
