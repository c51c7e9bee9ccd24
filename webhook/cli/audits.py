"""`muster audit`: list, show and verify the log of decisions.

Each FILE is one log with all its rotated elders, oldest first; `-` is standard input. Lines that hold no record are
counted and never stop the reading: `verify` says what happened to them.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from webhook import yamls
from webhook.audit import files, queries, records, verification
from webhook.cli import problems, reports
from webhook.cli.problems import CommandError
from webhook.yamls import jsons, sources

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says; see `main` for the arguments."""
    action = {"ls": _list, "show": _show, "verify": _verify}[args.action]
    try:
        return action(args)
    except OSError as error:
        raise CommandError(f"{error.filename}: cannot be read: {error.strerror or error}") from error


def _list(args: argparse.Namespace) -> int:
    now = datetime.datetime.now(datetime.UTC)
    entries = _Counted(_entries(args.file))
    selected = queries.select(
        entries,
        job=args.job,
        namespace=args.namespace,
        user=args.user,
        decision=args.decision,
        framework=args.framework,
        kind=args.kind,
        since=_moment(args.since, now, "--since"),
        until=_moment(args.until, now, "--until"),
    )
    for entry in selected:
        if entry.record is not None:
            print(_line(entry.record) if args.output == "text" else jsons.dump(entry.record, indent=None))
    entries.report()
    return problems.CLEAN


def _show(args: argparse.Namespace) -> int:
    entries = _Counted(_entries(args.file))
    found = [entry.record for entry in entries if entry.record is not None and _is_wanted(entry.record, args)]
    if args.output == "json":
        print(jsons.dump(found))
    else:
        sys.stdout.write(yamls.dump_all(found) if found else "")
    entries.report()
    if not found:
        wanted = f"uid {args.uid}" if args.uid is not None else f"number {args.seq}"
        print(problems.one_line(f"muster: no record has {wanted}"), file=sys.stderr)
    return problems.CLEAN if found else problems.FOUND


def _verify(args: argparse.Namespace) -> int:
    broken = 0
    for name, lines in _logs(args.file):
        counted = itertools.count()
        lines_seen = (line for line, _ in zip(lines, counted, strict=False))
        for problem in verification.verify(lines_seen, restarts=args.restarts):
            broken += 1
            print(problems.one_line(problem))
        print(problems.one_line(f"{name}: {reports.plural(next(counted), 'line')} read"), file=sys.stderr)
    reports.warn([f"{reports.plural(broken, 'problem')} found" if broken else "the chain is intact"])
    return problems.FOUND if broken else problems.CLEAN


def _logs(names: Sequence[str]) -> Iterator[tuple[str, Iterable[files.Line]]]:
    """Yield each log once, also when its elders are named beside it (`audit.log*`)."""
    runs = {name: (files.rotated(Path(name)) or [Path(name)]) for name in dict.fromkeys(names) if name != sources.STDIN}
    for name in dict.fromkeys(names):
        if name == sources.STDIN:
            yield "stdin", files.numbered(sys.stdin.buffer, "stdin")
        elif not any(set(runs[name]) < set(other) for other in runs.values()):
            yield name, files.lines(runs[name])


def _entries(names: Sequence[str]) -> Iterator[queries.Entry]:
    for _, lines in _logs(names):
        yield from queries.parsed(lines)


class _Counted:
    """Passes entries on and counts those that hold no record."""

    def __init__(self, entries: Iterable[queries.Entry]) -> None:
        self._entries = entries
        self._problems: list[queries.Entry] = []

    def __iter__(self) -> Iterator[queries.Entry]:
        for entry in self._entries:
            if entry.record is None:
                self._problems.append(entry)
            yield entry

    def report(self) -> None:
        """Say on stderr how many lines were no records, and where the first one is."""
        if self._problems:
            first = self._problems[0]
            count = reports.plural(len(self._problems), "line")
            text = f"muster: {count} without a record, the first at {first.file}:{first.line}: {first.problem}"
            reports.warn([problems.one_line(text)])


def _is_wanted(record: records.Sealed, args: argparse.Namespace) -> bool:
    return bool(record["uid"] == args.uid if args.uid is not None else record["seq"] == args.seq)


def _moment(text: str | None, now: datetime.datetime, option: str) -> datetime.datetime | None:
    try:
        return None if text is None else queries.moment(text, now)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error


def _line(record: records.Sealed) -> str:
    """Return one line: when, number, phase and decision, the object, who asked, and what came of it."""
    subject = record["object"]
    name = subject["name"] or f"{subject.get('generateName', '')}*"
    parts = [
        record["time"][:19] + "Z",
        f"#{record['seq']}",
        f"{record['operation']}/{record['phase']}",
        record["decision"],
        f"{subject['kind']} {subject['namespace']}/{name}",
        f"framework={record['framework'] or '-'}",
        f"mode={record['mode']}",
        f"user={record['user']['username'] or '-'}",
        f"changes={len(record['changes'])}",
        f"findings={len(record['findings'])}",
        f"uid={record['uid']}",
    ]
    return problems.clean("  ".join(parts + ["dry-run"] * record["dryRun"]))
