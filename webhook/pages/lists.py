"""The list of decisions: filters, one row for each job or decision, newest first, and a link to older ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from muster.audit.record_schema import RecordedChange, RecordedFinding, Sealed
from muster.webhook import catalogue
from muster.webhook.pages import asked, layouts, overviews, scans, seals, subjects
from muster.webhook.pages.asked import Asked
from muster.webhook.pages.folds import Fold, folded
from muster.webhook.pages.markup import Child, Markup, element
from muster.webhook.pages.tallies import Tally

__all__ = ["page"]

_CLASSES = {"error": "rule error", "note": "rule note"}
_PHASES = 8  # maximum number of decisions in one row
_USERS = 3
_SHOWN = 2  # maximum number of changes or findings in one row
_LONGEST = 220
_LONGEST_LINK = 1_500
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


def page(question: Asked, found: scans.Scan, tally: Tally, logs: Sequence[str]) -> bytes:
    """Return the page with the results of a scan.

    Args:
        question: what was asked for.
        found: the results.
        tally: the counts for the overview, which is on the first page of the list of jobs, and the values of filters.
        logs: the paths of the logs.
    """
    is_first = question.cursor is None and question.view == asked.VIEWS[0] and not question.unreadable
    heading = element("h1", "Lines without a record" if question.unreadable else "Decisions")
    main = [
        heading,
        _meaning(question),
        _filters(question, tally.values),
        overviews.section(question, tally) if is_first else None,
        _summary(question, found),
        _table(question, found),
        _paging(question, found),
        _exports(question),
    ]
    return layouts.document("Decisions", main, logs)


def _meaning(question: Asked) -> Child:
    """Return a link to the meaning of the rule that is filtered by."""
    rule = asked.plain(question.typed.get("rule", ""))
    if not rule or catalogue.find(rule) is None:
        return None
    return element("p", element("a", f"What {rule} means", href=layouts.rule_path(rule)))


def _filters(question: Asked, offered: Mapping[str, Sequence[str]]) -> Markup:
    typed = ", ".join(f"{_LABELS[name].lower()} {_cut(value)}" for name, value in question.typed.items())
    told = element("span", typed, class_="quiet") if typed else None
    return element("details", element("summary", "Filters", " " if told else None, told),
                   _form(question, offered), class_="filters")  # fmt: skip


def _form(question: Asked, offered: Mapping[str, Sequence[str]]) -> Markup:
    fields = [_field(name, question.typed.get(name, ""), offered.get(name, ())) for name in asked.FILTERS]
    buttons = [element("button", "Filter", type="submit"), element("a", "Clear", href="/") if question.linked else None]
    return element(
        "form",
        *fields,
        element("p", element("label", "One row for each", for_="view"), _view(question.view)),
        element("p", *buttons, class_="buttons"),
        action="/",
        method="get",
        role="search",
        aria_label="Filter decisions",
    )


def _view(chosen: str) -> Markup:
    named = zip(asked.VIEWS, ("job", "decision"), strict=True)
    options = (element("option", name, value=view, selected=view == chosen) for view, name in named)
    return element("select", *options, name="view", id="view")


def _field(name: str, value: str, offered: Sequence[str]) -> Markup:
    choices = {"decision": asked.DECISIONS, "kind": asked.KINDS}.get(name)
    if choices:
        options = [element("option", each, value=each, selected=each == value) for each in choices]
        control = element("select", element("option", "any", value=""), options, name=name, id=name)
        return element("p", element("label", _LABELS[name], for_=name), control)
    control = element(
        "input",
        type="text",
        name=name,
        id=name,
        value=value,
        placeholder=_EXAMPLES.get(name),
        maxlength=300,
        autocomplete="off",
        list=f"values-{name}" if offered else None,
    )
    values = (element("option", value=asked.literal(each)) for each in offered)
    known = element("datalist", *values, id=f"values-{name}") if offered else None
    return element("p", element("label", _LABELS[name], for_=name), control, known)


def _summary(question: Asked, found: scans.Scan) -> Markup:
    what = "line" if question.unreadable else "decision"
    count = f"{len(found.rows)} {what}{'' if len(found.rows) == 1 else 's'}"
    if _is_folded(question):
        jobs = len(folded(found.rows))
        count = f"{jobs} job{'' if jobs == 1 else 's'}, {count}"
    order = ", newest first" if len(found.rows) > 1 else ""
    if found.older is None:
        reach = "; the logs have nothing older" if found.lines else "; the logs are empty"
    else:
        reach = f"; searched back to {found.reached[:19].replace('T', ' ')} UTC, and there are older records"
    return element("p", f"{count}{order}{reach}.", class_="summary", role="status")


def _is_folded(question: Asked) -> bool:
    return question.view == asked.VIEWS[0] and not question.unreadable


def _table(question: Asked, found: scans.Scan) -> Child:
    if not found.rows:
        return element("p", "No record matches all filters.", class_="empty")
    head = element("tr", *(element("th", name, scope="col") for name in _COLUMNS))
    folds = folded(found.rows) if _is_folded(question) else [Fold((row,)) for row in found.rows]
    rows = [_job(question, fold) if fold.records else _unreadable(fold.rows[0]) for fold in folds]
    caption = element("caption", "Admission decisions", class_="hidden")
    return element("table", caption, element("thead", head), element("tbody", *rows), class_="decisions")


def _job(question: Asked, fold: Fold) -> Markup:
    newest = fold.records[0]
    findings, changes = fold.said()
    cells = (
        layouts.moment(newest["time"]),
        [layouts.badge(fold.decision), _phases(fold)],
        _named(question, newest),
        _what(newest, findings, changes),
        _users(question, fold),
    )
    return element("tr", *(element("td", each) for each in cells))


def _named(question: Asked, record: Sealed) -> Child:
    subject = record["object"]
    namespace = subject["namespace"]
    name = subjects.job_root(record)
    plain = name if record["owner"] or subject["name"] else name.removesuffix("*")
    link = _link(_cut(name), _every(namespace, plain), title="Every decision about this job")
    framework = f" · {record['framework']}" if record["framework"] else ""
    kind = record["owner"]["kind"] if record["owner"] and question.view == asked.VIEWS[0] else subject["kind"]
    where = _filtered(question, "namespace", namespace) if namespace else "no namespace"
    return [link, element("span", f"{_cut(kind)} in ", where, _cut(framework), class_="quiet")]


def _every(namespace: str, name: str) -> str:
    return asked.query(namespace=asked.literal(namespace), job=asked.literal(name), view=asked.VIEWS[1])


def _filtered(question: Asked, name: str, value: str) -> Markup:
    """Return a value as a link to the same list with only this value."""
    return _link(_cut(value), asked.query(**{**question.linked, name: asked.literal(value)}))


def _link(text: str, path: str, **attributes: str) -> Markup:
    """Return a link; of a name that is longer than any of a cluster, only its text."""
    return element("a", text, href=path, **attributes) if len(path) <= _LONGEST_LINK else element("span", text)


def _phases(fold: Fold) -> Markup:
    pairs = [(row, row.entry.record) for row in fold.rows if row.entry.record]
    items = [_phase(row, record) for row, record in pairs[:_PHASES]]
    more = element("li", f"and {len(pairs) - _PHASES} more", class_="quiet") if len(pairs) > _PHASES else None
    return element("ul", *items, more, class_="phases")


def _phase(row: scans.Row, record: Sealed) -> Markup:
    problem = seals.own(record, row.found.data or b"")
    name = f"{_cut(record['object']['kind'])} {record['operation'].lower()}, {record['phase']}"
    notes = [record["decision"], "dry run" if record["dryRun"] else None,
             f"mode {record['mode']}" if record["mode"] != "enforce" else None]  # fmt: skip
    return element(
        "li",
        element("a", name, href=f"/record/{row.found.place}"),
        element("span", ": ", ", ".join(note for note in notes if note)),
        element("span", "edited", class_="badge broken", title=problem) if problem else None,
    )


def _users(question: Asked, fold: Fold) -> Child:
    names = list(dict.fromkeys(record["user"]["username"] for record in reversed(fold.records)))
    shown = [element("li", _filtered(question, "user", name) if name else "-") for name in names[:_USERS]]
    more = element("li", f"and {len(names) - _USERS} more", class_="quiet") if len(names) > _USERS else None
    return element("ul", *shown, more)


def _unreadable(row: scans.Row) -> Markup:
    link = element("a", f"byte {row.found.place.offset} of {row.found.path}", href=f"/record/{row.found.place}")
    said = element("td", f"{row.entry.problem}", colspan=2)
    return element("tr", element("td", "-"), element("td", layouts.badge("unreadable")), element("td", link), said)


def _what(newest: Sealed, findings: Sequence[RecordedFinding], changes: Sequence[RecordedChange]) -> Child:
    if newest.get("message"):
        return element("p", _cut(newest["message"]))
    every = [*map(_finding, findings), *map(_change, changes)]
    if not every:
        none = "nothing to change" if newest["phase"] == "mutate" else "nothing found"
        return element("span", none, class_="quiet")
    more = element("li", f"and {len(every) - _SHOWN} more", class_="quiet") if len(every) > _SHOWN else None
    return element("ul", *(element("li", *each) for each in every[:_SHOWN]), more)


def _change(change: RecordedChange) -> Iterator[Child]:
    yield element("code", _end(change["field"]), title=_whole(change["field"]))
    yield _rule(change["rule"], "rule")
    yield element("span", _cut(change["reason"]))


def _finding(finding: RecordedFinding) -> Iterator[Child]:
    yield element("code", _end(finding["field"]), title=_whole(finding["field"]))
    yield _rule(finding["rule"], _CLASSES.get(finding["severity"], "rule"))
    yield element("span", _cut(finding["message"]))


def _rule(rule: str, kind: str) -> Markup:
    return _link(_cut(rule), asked.query(rule=asked.literal(rule)), class_=kind)


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
        links.append(element("a", "Newest", href=asked.query(**question.linked), rel="first"))
    if found.older:
        links.append(element("a", "Older decisions", href=question.continued(found.older), rel="next"))
    return element("nav", *links, aria_label="Pages", class_="paging") if links else None


def _exports(question: Asked) -> Child:
    if question.unreadable:
        return None
    links = (
        element("a", name, href=asked.query(path, **question.typed), download=True)
        for name, path in (("CSV", "/export.csv"), ("JSON lines", "/export.jsonl"))
    )
    return element("nav", "Export what is filtered:", *links, aria_label="Export", class_="paging")
