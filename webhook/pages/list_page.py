"""The list of decisions: filters, one row for each job or decision, newest first, and a link to older ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from muster.audit.record_schema import Decision, RecordedChange, RecordedFinding, Sealed
from muster.webhook.pages import filters, html_parts, log_scan, record_seal
from muster.webhook.pages.filters import Filters
from muster.webhook.pages.html_parts import Child, Markup, element
from muster.webhook.pages.log_scan import Row

__all__ = ["Fold", "folded", "page"]

_Part = TypeVar("_Part", RecordedChange, RecordedFinding)
_WEIGHTS: dict[Decision, int] = {"error": 0, "denied": 1, "patched": 2, "allowed": 3, "unchanged": 4, "skipped": 5}
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


@dataclass(frozen=True, slots=True)
class Fold:
    """The decisions about one job that a scan found: both phases of its TrainJob and of the JobSet of it.

    Attributes:
        rows: newest first; one row without a record stands alone.
    """

    rows: tuple[Row, ...]

    @property
    def records(self) -> tuple[Sealed, ...]:
        """The records of the rows, newest first."""
        return tuple(row.entry.record for row in self.rows if row.entry.record is not None)

    @property
    def decision(self) -> Decision:
        """The decision that says most about the job: a refusal before a correction before an admission."""
        return min((record["decision"] for record in self.records), key=lambda each: _WEIGHTS.get(each, 0))

    def parts(self) -> tuple[list[RecordedFinding], list[RecordedChange]]:
        """Return the findings and the changes of all decisions, each once, the most important and the oldest first."""
        every = [html_parts.ordered(record) for record in reversed(self.records)]
        findings = _once(each for _, found in every for each in found)
        changes = _once(each for changed, _ in every for each in changed)
        return sorted(findings, key=html_parts.severity), sorted(changes, key=html_parts.is_bookkeeping)


def folded(rows: Iterable[Row]) -> list[Fold]:
    """Put the rows of one job together, in the order of their newest decision; a line without a record stays alone."""
    jobs: dict[tuple[str, str] | int, list[Row]] = {}
    for number, row in enumerate(rows):
        key = log_scan.job_key(row.entry.record) if row.entry.record else number
        jobs.setdefault(key, []).append(row)
    return [Fold(tuple(each)) for each in jobs.values()]


def page(asked: Filters, found: log_scan.Scan, logs: Sequence[str]) -> bytes:
    """Return the page with the results of a scan; `logs` are the paths of the logs."""
    main = [
        element("h1", "Lines without a record" if asked.unreadable else "Decisions"),
        _filters(asked),
        _summary(asked, found),
        _table(asked, found),
        _paging(asked, found),
    ]
    return html_parts.document("Decisions", main, logs)


def _once(parts: Iterable[_Part]) -> Iterator[_Part]:
    seen: set[tuple[str, str]] = set()
    for part in parts:
        key = (part["field"], part["rule"])
        if key not in seen:
            seen.add(key)
            yield part


def _filters(asked: Filters) -> Markup:
    typed = ", ".join(f"{_LABELS[name].lower()} {_cut(value)}" for name, value in asked.typed.items())
    shown = element("span", typed, class_="quiet") if typed else None
    fields = [_field(name, asked.typed.get(name, "")) for name in filters.FILTERS]
    options = zip(filters.VIEWS, ("job", "decision"), strict=True)
    views = (element("option", name, value=view, selected=view == asked.view) for view, name in options)
    clear = element("a", "Clear", href="/") if asked.linked else None
    form = element(
        "form",
        *fields,
        element(
            "p", element("label", "One row for each", for_="view"), element("select", *views, name="view", id="view")
        ),
        element("p", element("button", "Filter", type="submit"), clear, class_="buttons"),
        action="/",
        method="get",
        role="search",
        aria_label="Filter decisions",
    )
    return element("details", element("summary", "Filters", " " if shown else None, shown), form, class_="filters")


def _field(name: str, value: str) -> Markup:
    label = element("label", _LABELS[name], for_=name)
    if choices := {"decision": filters.DECISIONS, "kind": filters.KINDS}.get(name):
        options = [element("option", each, value=each, selected=each == value) for each in choices]
        return element("p", label, element("select", element("option", "any", value=""), options, name=name, id=name))
    example = _EXAMPLES.get(name)
    return element(
        "p",
        label,
        element("input", type="text", name=name, id=name, value=value, placeholder=example, maxlength=300,
                autocomplete="off"),
    )  # fmt: skip


def _summary(asked: Filters, found: log_scan.Scan) -> Markup:
    what = "line" if asked.unreadable else "decision"
    count = f"{len(found.rows)} {what}{'' if len(found.rows) == 1 else 's'}"
    if asked.is_by_job:
        jobs = len(folded(found.rows))
        count = f"{jobs} job{'' if jobs == 1 else 's'}, {count}"
    order = ", newest first" if len(found.rows) > 1 else ""
    if found.older is None:
        reach = "; the logs have nothing older" if found.lines else "; the logs are empty"
    else:
        reach = f"; searched back to {found.reached[:19].replace('T', ' ')} UTC, and there are older records"
    return element("p", f"{count}{order}{reach}.", class_="summary", role="status")


def _table(asked: Filters, found: log_scan.Scan) -> Child:
    if not found.rows:
        return element("p", "No record matches all filters.", class_="empty")
    head = element("tr", *(element("th", name, scope="col") for name in _COLUMNS))
    folds = folded(found.rows) if asked.is_by_job else [Fold((row,)) for row in found.rows]
    rows = [_job(asked, fold) if fold.records else _unreadable(fold.rows[0]) for fold in folds]
    caption = element("caption", "Admission decisions", class_="hidden")
    return element("table", caption, element("thead", head), element("tbody", *rows), class_="decisions")


def _job(asked: Filters, fold: Fold) -> Markup:
    newest = fold.records[0]
    cells = (
        html_parts.moment(newest["time"]),
        [html_parts.badge(fold.decision), _phases(fold)],
        _named(asked, newest),
        _what(newest, *fold.parts()),
        _users(asked, fold),
    )
    return element("tr", *(element("td", each) for each in cells))


def _named(asked: Filters, record: Sealed) -> Child:
    subject, owner = record["object"], record["owner"]
    namespace, name = subject["namespace"], log_scan.job_root(record)
    plain = name if owner or subject["name"] else name.removesuffix("*")
    every = filters.job_query(namespace, plain, view=filters.VIEWS[1])
    link = _link(_cut(name), every, title="Every decision about this job")
    framework = f" · {record['framework']}" if record["framework"] else ""
    kind = owner["kind"] if owner and asked.view == filters.VIEWS[0] else subject["kind"]
    where = _filtered(asked, "namespace", namespace) if namespace else "no namespace"
    return [link, element("span", f"{_cut(kind)} in ", where, _cut(framework), class_="quiet")]


def _filtered(asked: Filters, name: str, value: str) -> Markup:
    """Return a value as a link to the same list with only this value."""
    return _link(_cut(value), filters.query(**{**asked.linked, name: filters.literal(value)}))


def _link(text: str, path: str, **attributes: str) -> Markup:
    """Return a link; of a name that is longer than any of a cluster, only its text."""
    return element("a", text, href=path, **attributes) if len(path) <= _LONGEST_LINK else element("span", text)


def _phases(fold: Fold) -> Markup:
    pairs = [(row, row.entry.record) for row in fold.rows if row.entry.record]
    return _listed([_phase(row, record) for row, record in pairs[:_PHASES]], len(pairs), class_="phases")


def _listed(items: Sequence[Child], count: int, **attributes: str) -> Markup:
    """Return a list of the first items, and how many more there are."""
    more = element("li", f"and {count - len(items)} more", class_="quiet") if count > len(items) else None
    return element("ul", *(element("li", each) for each in items), more, **attributes)


def _phase(row: Row, record: Sealed) -> Child:
    problem = record_seal.own(record, row.found.data or b"")
    name = f"{_cut(record['object']['kind'])} {record['operation'].lower()}, {record['phase']}"
    notes = [record["decision"], "dry run" if record["dryRun"] else None,
             f"mode {record['mode']}" if record["mode"] != "enforce" else None]  # fmt: skip
    return [
        element("a", name, href=f"/record/{row.found.place}"),
        element("span", ": ", ", ".join(note for note in notes if note)),
        element("span", "edited", class_="badge broken", title=problem) if problem else None,
    ]


def _users(asked: Filters, fold: Fold) -> Child:
    names = list(dict.fromkeys(record["user"]["username"] for record in reversed(fold.records)))
    return _listed([_filtered(asked, "user", name) if name else "-" for name in names[:_USERS]], len(names))


def _unreadable(row: Row) -> Markup:
    link = element("a", f"byte {row.found.place.offset} of {row.found.path}", href=f"/record/{row.found.place}")
    problem = element("td", f"{row.entry.problem}", colspan=2)
    return element(
        "tr", element("td", "-"), element("td", html_parts.badge("unreadable")), element("td", link), problem
    )


def _what(newest: Sealed, findings: Sequence[RecordedFinding], changes: Sequence[RecordedChange]) -> Child:
    if newest.get("message"):
        return element("p", _cut(newest["message"]))
    count = len(findings) + len(changes)
    lines = [_line(each, _CLASSES.get(each["severity"], "rule"), each["message"]) for each in findings[:_SHOWN]]
    lines += [_line(each, "rule", each["reason"]) for each in changes[: _SHOWN - len(lines)]]
    if not lines:
        none = "nothing to change" if newest["phase"] == "mutate" else "nothing found"
        return element("span", none, class_="quiet")
    return _listed(lines, count)


def _line(part: RecordedChange | RecordedFinding, kind: str, text: str) -> Child:
    field = part["field"]
    whole = field if len(field) <= _LONGEST_TITLE else f"…{field[-_LONGEST_TITLE:]}"
    rule = _link(_cut(part["rule"]), filters.query(rule=filters.literal(part["rule"])), class_=kind)
    return [element("code", _end(field), title=whole), rule, element("span", _cut(text))]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _end(field: str) -> str:
    """Return a field path, without its beginning when it is long, because its end is the important part."""
    if len(field) <= _LONGEST_FIELD:
        return field
    end = field[-_LONGEST_FIELD:]
    return f"…{end[end.find('.') + 1 :]}"


def _paging(asked: Filters, found: log_scan.Scan) -> Child:
    links = []
    if asked.cursor:
        links.append(element("a", "Newest", href=filters.query(**asked.linked), rel="first"))
    if found.older:
        links.append(element("a", "Older decisions", href=asked.continued(found.older), rel="next"))
    return element("nav", *links, aria_label="Pages", class_="paging") if links else None
