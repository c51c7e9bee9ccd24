"""The page of one decision: each change with values before and after, rule and reason, then all other facts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar

from muster.audit.record_schema import RecordedChange, RecordedFinding, Sealed, job_name
from muster.webhook import catalogue
from muster.webhook.pages import filters, html_parts, record_seal, side_by_side
from muster.webhook.pages.html_parts import Child, Markup, element
from muster.webhook.pages.log_scan import Row

__all__ = ["page", "unreadable_page"]

_MAX_PARTS = 200
_MAX_BYTES = 1024 * 1024  # of the changes, and of the findings, that are shown; a whole record has no more
_MAX_ROWS = 10_000  # lines of them
_LONGEST_RULE = 100  # characters of an id that is looked up
_Part = TypeVar("_Part", RecordedChange, RecordedFinding)
_MISSING = element("em", "not set", class_="quiet")


def page(record: Sealed, standing: record_seal.Standing, place: str, logs: Sequence[str]) -> bytes:
    """Return the page of a record.

    Args:
        record: the record to show.
        standing: its place in the chain.
        place: its place, for the link to its JSON.
        logs: the paths of the logs.
    """
    subject = record["object"]
    title = f"{subject['kind']} {subject['namespace']}/{job_name(record)}"
    changes, findings = html_parts.ordered(record)
    heading = element("h1", html_parts.badge(record["decision"]), " ", title)
    main = [
        heading,
        _lead(record),
        None if standing.is_intact else element("p", _standing(standing), class_="problem", role="alert"),
        _section("What was found", [_finding(each) for each in _shown(findings)]),
        _more(findings, "findings"),
        _section(_changed(record), [_change(each) for each in _shown(changes)]),
        _more(changes, "changes"),
        _facts(record, standing),
        _paths(record, standing, place),
    ]
    return html_parts.document(f"{record['decision']}: {title}", main, logs)


def unreadable_page(row: Row, logs: Sequence[str]) -> bytes:
    """Return the page of a line that holds no record."""
    start = (row.found.data or b"")[:4000].decode("utf-8", "backslashreplace")
    main = [
        element("h1", html_parts.badge("unreadable"), f" Byte {row.found.place.offset} of {row.found.path}"),
        element("p", f"This line is {row.entry.problem}.", class_="problem"),
        element("pre", start),
        element("p", "`muster audit verify` shows what happened to the log."),
    ]
    return html_parts.document("A line without a record", main, logs)


def _lead(record: Sealed) -> Markup:
    dry = "a dry run, nothing was stored" if record["dryRun"] else None
    parts = [
        f"{record['operation']}, asked by {record['user']['username'] or 'nobody'}",
        f"{record['phase']} phase",
        f"mode {record['mode']}",
        dry,
    ]
    told = element("p", html_parts.moment(record["time"]), " UTC · ", " · ".join(each for each in parts if each))
    return element("div", told, element("p", record["message"]) if record.get("message") else None, class_="lead")


def _changed(record: Sealed) -> str:
    if record["decision"] == "patched":
        return "What was changed"
    return "What would be changed" if record["mode"] != "enforce" else "Changes"


def _shown(parts: Sequence[_Part]) -> Sequence[_Part]:
    """Return the first parts, as many as fit on a page."""
    sizes = itertools.accumulate(side_by_side.size(each) for each in parts[:_MAX_PARTS])
    rows = itertools.accumulate(side_by_side.rows(each) for each in parts[:_MAX_PARTS])
    return parts[: sum(size <= _MAX_BYTES and row <= _MAX_ROWS for size, row in zip(sizes, rows, strict=True))]


def _more(parts: Sequence[_Part], what: str) -> Child:
    left = len(parts) - len(_shown(parts))
    return element("p", f"{left} more {what} are in the JSON.") if left else None


def _section(title: str, parts: Sequence[Child]) -> Child:
    return element("section", element("h2", title), *parts) if parts else None


def _change(change: RecordedChange) -> Markup:
    before, after = _written(change, "before"), _written(change, "after")
    head = element("tr", element("th", "Before", scope="col"), element("th", "After", scope="col"))
    if before is None or after is None:
        rows = [element("tr", element("td", _whole(before, "cut")), element("td", _whole(after, "added")))]
    else:
        rows = [_row(each) for each in side_by_side.sides(before, after)]
    return element(
        "article",
        element("h3", element("code", change["field"]), _rule(change["rule"])),
        element("p", change["reason"], class_="reason"),
        _meaning(change["rule"]),
        element("div", element("table", head, *rows, class_="sides"), class_="scroll", tabindex=0,
                role="group", aria_label=f"{change['field']}, before and after"),
    )  # fmt: skip


def _written(change: RecordedChange, side: str) -> list[str] | None:
    return side_by_side.lines(change[side]) if side in change else None  # type: ignore[literal-required]  # one of two names


def _whole(lines: list[str] | None, kind: str) -> Child:
    return _MISSING if lines is None else [_line(line, kind) for line in lines]


def _row(side: side_by_side.Side) -> Markup:
    if side.kind == "same":
        return element("tr", element("td", _line(side.before, "")), element("td", _line(side.after, "")), class_="same")
    return element("tr", element("td", _line(side.before, "cut")), element("td", _line(side.after, "added")))


def _line(text: str | None, kind: str) -> Child:
    if text is None:
        return None
    return element({"cut": "del", "added": "ins"}.get(kind, "span"), text, class_="line")


def _finding(finding: RecordedFinding) -> Markup:
    value = None if finding["value"] is None else element("pre", "\n".join(side_by_side.lines(finding["value"])))
    return element(
        "article",
        element("h3", element("code", finding["field"]), _rule(finding["rule"])),
        element("p", element("strong", finding["severity"]), ": ", finding["message"], class_="reason"),
        _meaning(finding["rule"]),
        value,
    )


def _rule(rule: str) -> Markup:
    return element(
        "a", rule, href=filters.query(rule=filters.literal(rule)), class_="rule", title="All decisions with this rule"
    )


def _meaning(rule: str) -> Child:
    """Return what a rule means and why; None for a rule of a strategy from another package."""
    found = catalogue.find(rule) if len(rule) <= _LONGEST_RULE else None
    if found is None:
        return None
    summary = element("summary", "What it means", class_="means")
    return element("details", summary, element("p", f"{found[0].title}. {found[0].why}"))


def _facts(record: Sealed, standing: record_seal.Standing) -> Markup:
    pairs = [part for name, value in _known(record, standing) for part in (element("dt", name), element("dd", value))]
    return element("section", element("h2", "About this decision"), element("dl", *pairs))


def _known(record: Sealed, standing: record_seal.Standing) -> Iterator[tuple[str, Child]]:
    user, owner, runtime, strategy = record["user"], record["owner"], record["runtime"], record["strategy"]
    namespace = record["object"]["namespace"]
    groups = ", ".join(user.get("groups", []))
    yield "Asked by", f"{user['username'] or 'nobody'}{f' ({groups})' if groups else ''}"
    if owner:
        link = filters.job_query(namespace, owner["name"], kind="TrainJob")
        yield "Made for", element("a", f"{owner['kind']} {owner['name']}", href=link)
    elif record["object"]["kind"] == "TrainJob" and record["object"]["name"]:
        link = filters.job_query(namespace, record["object"]["name"], kind="JobSet")
        yield "JobSets", element("a", "decisions about the JobSet that Trainer made", href=link)
    if runtime:
        yield "Runtime", f"{runtime['kind']} {runtime['name']} ({runtime['source']})"
    yield "Framework", record["framework"] or "none"
    if strategy:
        yield "Strategy", f"{strategy['framework']} {strategy['version']}, {strategy['origin']}"
    yield "Decided in", f"{record['latencyMicroseconds'] / 1000:.2f} ms"
    yield "Time", element("time", record["time"], datetime=record["time"])
    yield "Request", element("a", record["uid"], href=filters.query(uid=record["uid"]), title="Both webhooks' records")
    yield "Chain", f"record {record['seq']}: {_standing(standing)}"
    if record.get("dropped"):
        yield "Lost", f"{record['dropped']} records just before this one were not written"
    yield "Hash", element("code", record["hash"])


def _standing(standing: record_seal.Standing) -> str:
    problems = [standing.problem, *(each.problem for each in (standing.before, standing.after) if each)]
    told = "; ".join(problem for problem in problems if problem)
    if told:
        return told
    before, after = standing.before, standing.after
    behind = f"follows record {before.seq}" if before else "no record is before it in the log"
    return f"as it was written; {behind}, {f'record {after.seq} follows it' if after else 'it is the newest record'}"


def _paths(record: Sealed, standing: record_seal.Standing, place: str) -> Markup:
    namespace, name = record["object"]["namespace"], record["object"]["name"] or record["object"].get("generateName")
    owner = record["owner"]["name"] if record["owner"] else name
    links = [element("a", "As JSON", href=f"/json/{place}")]
    if owner:
        links.insert(0, element("a", "All decisions about this job", href=filters.job_query(namespace, owner)))
    if standing.before:
        links.append(element("a", "Record before", href=f"/record/{standing.before.place}", rel="prev"))
    if standing.after:
        links.append(element("a", "Record after", href=f"/record/{standing.after.place}", rel="next"))
    return element("nav", *links, aria_label="Onwards", class_="paging")
