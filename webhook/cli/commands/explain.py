"""`muster explain`: for each job, what governs it, what is changed in it and why, and its findings."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence

from muster.audit.record_schema import BOOKKEEPING
from muster.strategies.documents import decoding
from muster.webhook.cli import cases, explanations, problems, terminal
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cli.explanations import Explanation
from muster.webhook.kubeyaml import jsons

__all__ = ["run", "section", "sections", "show"]

_HEADERS = ("PATH", "BEFORE", "AFTER", "RULE", "REASON")
_INDENT = "  "
_LONGEST_VALUE = 120
_SHORTEST_PREFIX = 30
_LABEL = 11
_MAKERS = {"JobSet": "TrainJob", "TrainJob": "OptimizationJob"}
_ENDINGS = {"right": "right", "open": "open", "mend": "to do"}


def run(args: argparse.Namespace) -> int:
    """Explain what is named; see `commandline.json` for the arguments."""
    setup = cases.prepare(args)
    setup.require_readable()
    if args.output == "json":
        decided = list(sections(setup, with_jobsets=args.jobset))
        print(jsons.dump(problems.versioned("explain", _explained(decided, setup))))
    else:
        decided = show(setup, with_jobsets=args.jobset, full=args.full)
    if not decided:
        problems.say("there is nothing to explain: no TrainJob, JobSet or OptimizationJob is among the documents")
        return problems.NOTHING
    return problems.FOUND if any(case.fails() for case in decided) else problems.CLEAN


def show(setup: Setup, *, with_jobsets: bool = True, full: bool = False) -> list[Case]:
    """Print the explanations for people; return the cases that were explained."""
    width, before = terminal.terminal_width(), None
    decided = list(sections(setup, with_jobsets=with_jobsets))
    for explained in _explained(decided, setup):
        print("\n" * (before is not None) + "\n".join(section(explained, before, width, full=full)))
        before = explained
    return decided


def _explained(decided: Sequence[Case], setup: Setup) -> list[Explanation]:
    out: list[Explanation] = []
    for case in decided:
        out.append(explanations.explain(case, setup, out[-1] if out else None))
    return out


def sections(setup: Setup, *, with_jobsets: bool) -> Iterator[Case]:
    """Yield the cases to explain: each job of the input, and after it what Trainer would make, up to the JobSet."""
    for source in setup.sources:
        if cases.is_job(source) or cases.is_search(source):
            case: Case | None = setup.decide(source)
            while case is not None:
                yield case
                case = cases.follow(case, setup) if with_jobsets else None


def section(explained: Explanation, before: Explanation | None, width: int, *, full: bool = False) -> Iterator[str]:
    """Yield the lines of one explanation.

    Args:
        explained: a result of `explanations.explain`.
        before: the one shown before; a prediction does not repeat what it has in common with its TrainJob.
        width: of the lines in characters.
        full: whether to show long values, and Muster's own bookkeeping.
    """
    yield from _hanging(_title(explained), width, "")
    known = set(_facts(before)) if before is not None and explained["predicted"] else set()
    for label, text in _facts(explained):
        lines = terminal.fill(problems.one_line(text), width - len(_INDENT) - _LABEL)
        for number, line in enumerate(lines if (label, text) not in known else ()):
            yield f"{_INDENT}{(label if number == 0 else '').ljust(_LABEL)}{line}".rstrip()
    changes = [change for change in explained["changes"] if full or change["rule"] not in BOOKKEEPING]
    if changes:
        yield ""
        yield from (_INDENT + line for line in _table(changes, width - len(_INDENT), full=full))
    if explained["findings"]:
        yield ""
    for each in explained["findings"]:
        yield from _hanging(_finding(each, explained["file"]), width, _INDENT)
    ending = explained["ending"]
    yield ""
    yield from _hanging(f"{_ENDINGS[ending['kind']]}: {ending['text']}", width, _INDENT)


def _title(explained: Explanation) -> str:
    name = f"{explained['object']} in namespace {explained['namespace']}"
    if explained["predicted"]:
        return f"{name}: PREDICTED, what {explained['predicted']} would make of the {_MAKERS[explained['kind']]} above"
    item = f" item {explained['item']}" if explained["item"] else ""
    return f"{explained['file']}:doc {explained['document']}{item} {name}"


def _facts(explained: Explanation) -> Iterator[tuple[str, str]]:
    runtime, strategy, mode = explained["runtime"], explained["strategy"], explained["mode"]
    yield "runtime", _runtime(runtime)
    yield "framework", explained["framework"] or "none"
    if strategy:
        yield "strategy", f"{strategy['framework']} {strategy['version']} ({strategy['origin']})"
    yield "mode", f"{mode['value']}, by {mode['because']}"
    if explained["launch"]:
        yield "launch", explained["launch"]
    if explained["earlier"]:
        earlier = explained["earlier"]
        fields = ", ".join(earlier["fields"])
        yield "earlier", f"strategy {earlier['strategy']} {earlier['version']} set {fields}"
    if explained["failure"]:
        yield "failure", explained["failure"]
    if explained["unchanged"]:
        yield "unchanged", explained["unchanged"]
    for note in explained["notes"]:
        yield "note", note


def _runtime(runtime: Explanation | None) -> str:
    if runtime is None:
        return "none"
    if runtime["source"] in ("label", "launch"):
        return f"none; the {runtime['source']} of the JobSet names the framework"
    frozen = "frozen by Trainer, " if runtime["source"] == "snapshot" else ""
    where = f"from file {runtime['file']}" if runtime["file"] else "from the cluster"
    return f"{runtime['kind']}/{runtime['name']} ({frozen}{where})"


def _table(changes: Sequence[Explanation], width: int, *, full: bool) -> Iterator[str]:
    prefix = _common([change["path"] for change in changes])
    if prefix:
        yield from terminal.wrap(problems.clean(f"paths below start with {prefix}"), width)
    rows, said = [], ""
    for change in changes:
        path = f"…{change['path'].removeprefix(prefix)}" if prefix else change["path"]
        reason = "as above" if change["reason"] == said else change["reason"]
        said = change["reason"]
        values = (_value(change, "before", full=full), _value(change, "after", full=full))
        rows.append((path, *values, change["rule"], reason))
    yield from terminal.layout(_HEADERS, rows, width)


def _common(paths: Sequence[str]) -> str:
    """Return the common start of several paths, up to a dot; "" when it is too short to save space."""
    if len(paths) < 2:
        return ""
    first, last = min(paths), max(paths)
    same = next((index for index, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    prefix = first[: first.rfind(".", 0, same) + 1]
    return prefix.removesuffix(".") if len(prefix) >= _SHORTEST_PREFIX else ""


def _value(change: Explanation, member: str, *, full: bool) -> str:
    if member not in change:
        return "-"
    value = change[member]
    # An entry of env: its name is already in the path.
    entry = decoding.mapping(value)
    if len(entry) == 2 and change["path"].endswith(f"[{entry.get('name')}]"):
        value = next(part for key, part in entry.items() if key != "name")
    text = json.dumps(value, ensure_ascii=False)
    return text if full or len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _finding(each: Explanation, file: str) -> str:
    where = f"{file}:{each['line']}:{each['column']}: " if each["line"] else ""
    value = "" if each["value"] is None else f"{json.dumps(each['value'], ensure_ascii=False)[:_LONGEST_VALUE]}: "
    return f"{where}{each['severity']} {each['field']}: {value}{each['message']} ({each['rule']})"


def _hanging(text: str, width: int, indent: str) -> Iterator[str]:
    first, *others = terminal.fill(problems.one_line(text), width - len(indent) - len(_INDENT))
    yield indent + first
    yield from (indent + _INDENT + line for line in others)
