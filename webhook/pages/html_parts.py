"""HTML as values, and the parts that pages share; text is always escaped when it becomes part of an element.

A record has names, arguments and errors that every user of the cluster can write. In each text, the special characters
of HTML are escaped, and invisible characters and those that change the direction of text (control characters,
bidirectional marks) are written as escapes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from muster.audit.record_schema import BOOKKEEPING, RecordedChange, RecordedFinding, Sealed

__all__ = [
    "Attribute",
    "Child",
    "Markup",
    "badge",
    "document",
    "element",
    "is_bookkeeping",
    "joined",
    "moment",
    "ordered",
    "problem_page",
    "severity",
    "visible",
]

_LOGS = 6  # that the header names
_SEVERITIES = {"error": 0, "warning": 1, "note": 2}
_VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """HTML that needs no escaping; only `element` and `joined` make it."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]
Attribute = str | int | bool | None


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """Make an element.

    Args:
        tag: the name of the element.
        children: text, which is escaped, elements, or iterables of both; None is left out.
        attributes: a trailing `_` is dropped and others become `-` (`class_`, `aria_label`); True gives an attribute
            without a value, False and None give no attribute.
    """
    opening = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Markup(opening) if tag in _VOID else Markup(f"{opening}{joined(children)}</{tag}>")


def joined(children: Child) -> Markup:
    """Concatenate children."""
    if children is None:
        return Markup()
    if isinstance(children, Markup):
        return children
    if isinstance(children, str | int):
        return Markup(html.escape(visible(str(children))))
    return Markup("".join(joined(child) for child in children))


def visible(text: str) -> str:
    """Write invisible characters as escapes, except ends of lines and tabs."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode() for each in text
    )


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(visible(str(value)))}"'


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


def ordered(record: Sealed) -> tuple[list[RecordedChange], list[RecordedFinding]]:
    """Return changes and findings, the most important ones first."""
    return sorted(record["changes"], key=is_bookkeeping), sorted(record["findings"], key=severity)


def is_bookkeeping(change: RecordedChange) -> bool:
    """Whether a change is not about the job itself; such changes are shown last."""
    return change["rule"] in BOOKKEEPING


def severity(finding: RecordedFinding) -> int:
    """Return the rank of a finding; errors come first."""
    return _SEVERITIES.get(finding["severity"], 0)
