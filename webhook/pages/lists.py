"""The list of decisions: filters, one row for each decision, newest first, and a link to older ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.audit.records import RecordedChange, RecordedFinding, Sealed
from webhook.pages import asked, layouts, scans, seals
from webhook.pages.asked import Asked
from webhook.pages.markup import Child, Markup, element

__all__ = ["page"]

_CLASSES = {"error": "rule error", "note": "rule note"}
_SHOWN = 2  # maximum number of changes or findings in one row
_LONGEST = 220
_LONGEST_FIELD = 50
_LONGEST_TITLE = 2000
_COLUMNS = ("Time (UTC)", "Decision", "Job", "What was changed or found, and why", "Asked by")
_LABELS = {
    "job": "Job",
    "namespace": "Namespace",
    "kind": "Kind",
    "decision": "Decision",
    "framework": "Framework",
    "rule": "Rule",
    "user": "Asked by",
    "since": "From",
    "until": "Until",
    "text": "Words in reasons",
    "uid": "Request uid",
}
_EXAMPLES = {"job": "sft-*", "rule": "trl/*", "since": "2h or 2026-03-01T08:00Z", "until": "15m"}


def page(question: Asked, found: scans.Scan, logs: Sequence[str]) -> bytes:
    """Return the page with the results of a scan."""
    heading = element("h1", "Lines without a record" if question.unreadable else "Decisions")
    main = [heading, _form(question), _summary(question, found), _table(found), _paging(question, found)]
    return layouts.document("Decisions", main, logs)


def _form(question: Asked) -> Markup:
    fields = [_field(name, question.typed.get(name, "")) for name in asked.FILTERS]
    buttons = [element("button", "Filter", type="submit"), element("a", "Clear", href="/") if question.typed else None]
    return element(
        "form",
        *fields,
        element("p", *buttons, class_="buttons"),
        action="/",
        method="get",
        role="search",
        aria_label="Filter decisions",
    )


def _field(name: str, value: str) -> Markup:
    choices = {"decision": asked.DECISIONS, "kind": asked.KINDS}.get(name)
    if choices:
        options = [element("option", each, value=each, selected=each == value) for each in choices]
        control = element("select", element("option", "any", value=""), options, name=name, id=name)
    else:
        example = _EXAMPLES.get(name)
        control = element(
            "input",
            type="text",
            name=name,
            id=name,
            value=value,
            placeholder=example,
            maxlength=300,
            autocomplete="off",
        )
    return element("p", element("label", _LABELS[name], for_=name), control)


def _summary(question: Asked, found: scans.Scan) -> Markup:
    what = "line" if question.unreadable else "decision"
    count = f"{len(found.rows)} {what}{'' if len(found.rows) == 1 else 's'}"
    order = ", newest first" if len(found.rows) > 1 else ""
    if found.older is None:
        reach = "; the logs have nothing older" if found.lines else "; the logs are empty"
    else:
        reach = f"; searched back to {found.reached[:19].replace('T', ' ')} UTC, and there are older records"
    return element("p", f"{count}{order}{reach}.", class_="summary", role="status")


def _table(found: scans.Scan) -> Child:
    if not found.rows:
        return element("p", "No record matches all filters.", class_="empty")
    head = element("tr", *(element("th", name, scope="col") for name in _COLUMNS))
    rows = [_record(row, row.entry.record) if row.entry.record else _unreadable(row) for row in found.rows]
    caption = element("caption", "Admission decisions", class_="hidden")
    return element("table", caption, element("thead", head), element("tbody", *rows), class_="decisions")


def _record(row: scans.Row, record: Sealed) -> Markup:
    subject = record["object"]
    link = element("a", _cut(layouts.job_name(record)), href=f"/record/{row.found.place}")
    framework = f" · {record['framework']}" if record["framework"] else ""
    where = f"{_cut(subject['kind'])} in {_cut(subject['namespace']) or 'no namespace'}{_cut(framework)}"
    problem = seals.own(record, row.found.data or b"")
    notes = [f"{record['operation'].lower()}, {record['phase']}", "dry run" if record["dryRun"] else None,
             f"mode {record['mode']}" if record["mode"] != "enforce" else None]  # fmt: skip
    decision = [
        layouts.badge(record["decision"]),
        element("span", ", ".join(note for note in notes if note), class_="quiet"),
        element("span", "edited", class_="badge broken", title=problem) if problem else None,
    ]
    cells = (layouts.moment(record["time"]), decision, [link, element("span", where, class_="quiet")], _what(record))
    return element(
        "tr", *(element("td", each) for each in cells), element("td", _cut(record["user"]["username"]) or "-")
    )


def _unreadable(row: scans.Row) -> Markup:
    link = element("a", f"byte {row.found.place.offset} of {row.found.path}", href=f"/record/{row.found.place}")
    said = element("td", f"{row.entry.problem}", colspan=2)
    return element("tr", element("td", "-"), element("td", layouts.badge("unreadable")), element("td", link), said)


def _what(record: Sealed) -> Child:
    if record.get("message"):
        return element("p", _cut(record["message"]))
    changes, findings = layouts.ordered(record)
    every = [*map(_finding, findings), *map(_change, changes)]
    if not every:
        none = "nothing to change" if record["phase"] == "mutate" else "nothing found"
        return element("span", none, class_="quiet")
    more = element("li", f"and {len(every) - _SHOWN} more", class_="quiet") if len(every) > _SHOWN else None
    return element("ul", *(element("li", *each) for each in every[:_SHOWN]), more)


def _change(change: RecordedChange) -> Iterator[Child]:
    yield element("code", _end(change["field"]), title=_whole(change["field"]))
    yield element("span", _cut(change["rule"]), class_="rule")
    yield element("span", _cut(change["reason"]))


def _finding(finding: RecordedFinding) -> Iterator[Child]:
    yield element("code", _end(finding["field"]), title=_whole(finding["field"]))
    yield element("span", _cut(finding["rule"]), class_=_CLASSES.get(finding["severity"], "rule"))
    yield element("span", _cut(finding["message"]))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _whole(field: str) -> str:
    """Return a field path, cut only when it is longer than any of a job."""
    return field if len(field) <= _LONGEST_TITLE else f"…{field[-_LONGEST_TITLE:]}"


def _end(field: str) -> str:
    """Return a field path, without its beginning when it is long, because its end is the important part."""
    if len(field) <= _LONGEST_FIELD:
        return field
    end = field[-_LONGEST_FIELD:]
    return f"…{end[end.find('.') + 1 :]}"


def _paging(question: Asked, found: scans.Scan) -> Child:
    links = []
    if question.cursor:
        links.append(element("a", "Newest", href=asked.query(**question.typed), rel="first"))
    if found.older:
        links.append(element("a", "Older decisions", href=question.continued(found.older), rel="next"))
    return element("nav", *links, aria_label="Pages", class_="paging") if links else None
