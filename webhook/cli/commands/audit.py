"""`muster audit`: list, follow, show and verify the audit log, or serve it as web pages.

Each FILE is one log with all its rotated files, oldest first; `-` is standard input. Lines without a record are counted
and skipped: `verify` reports what happened to them.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from muster.audit import follows, log_files, queries, record_schema, verification
from muster.webhook import kubeyaml
from muster.webhook.cli import problems
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import jsons, sources

__all__ = ["run"]

_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")  # what a shell makes of `<(kubectl logs ...)`
_PAUSE = 0.25  # seconds between two checks of a log that is followed


def run(args: argparse.Namespace) -> int:
    """Run the subcommand; see `commandline.json` for the arguments."""
    action = {"ls": _list, "show": _show, "verify": _verify, "serve": _serve}[args.action]
    try:
        return action(args)
    except OSError as error:
        if error.filename is None:  # standard output, which may be a closed pipe: `main` knows what to do
            raise
        raise CommandError(f"{error.filename}: cannot be read: {error.strerror or error}") from error


def _list(args: argparse.Namespace) -> int:
    now = datetime.datetime.now(datetime.UTC)
    live = args.follow or sources.STDIN in args.file
    entries = _Counted(_followed(args.file) if args.follow else _entries(args.file))
    questions = queries.Questions(
        job=args.job,
        namespace=args.namespace,
        user=args.user,
        decision=args.decision,
        framework=args.framework,
        kind=args.kind,
        rule=args.rule,
        text=args.text,
        since=_moment(args.since, now, "--since"),
        until=_moment(args.until, now, "--until"),
    )
    for entry in queries.select(entries, questions):
        if entry.record is not None:
            line = _line(entry.record) if args.output == "text" else jsons.dump(entry.record, indent=None)
            print(line, flush=live)
    entries.report()
    return problems.CLEAN


def _show(args: argparse.Namespace) -> int:
    entries = _Counted(_entries(args.file))
    found = (entry.record for entry in entries if entry.record is not None and _is_wanted(entry.record, args))
    parts, count = (_as_json if args.output == "json" else _as_yaml), itertools.count()
    for part in parts(record for record, _ in zip(found, count, strict=False)):
        sys.stdout.write(part)
    entries.report()
    if next(count):
        return problems.CLEAN
    wanted = f"uid {args.uid}" if args.uid is not None else f"number {args.seq}"
    print(problems.one_line(f"muster: there is no record with {wanted}"), file=sys.stderr)
    return problems.FOUND


def _as_json(found: Iterable[record_schema.Sealed]) -> Iterator[str]:
    """Write a list, one record at a time: a log may have one uid in each of its lines."""
    is_empty = True
    for record in found:
        yield "[\n" if is_empty else ",\n"
        yield textwrap.indent(jsons.dump(record), "  ")
        is_empty = False
    yield "[]\n" if is_empty else "\n]\n"


def _as_yaml(found: Iterable[record_schema.Sealed]) -> Iterator[str]:
    """Write documents, one record at a time."""
    between = ""
    for record in found:
        yield between + kubeyaml.dump(record)
        between = "---\n"


def _verify(args: argparse.Namespace) -> int:
    from muster.webhook.cli.commands import audit_anchors  # noqa: PLC0415  # the other actions need no anchors

    expected, broken = audit_anchors.expected(args), 0
    for name, lines in _logs(args.file):
        counted = itertools.count()
        lines_seen = (line for line, _ in zip(lines, counted, strict=False))
        for problem in verification.verify(lines_seen, expected, restarts=args.restarts, name=name):
            broken += problem.is_fault
            print(problems.one_line(problem))
        print(problems.one_line(f"{name}: {problems.plural(next(counted), 'line')} read"), file=sys.stderr)
    problems.warn([f"{problems.plural(broken, 'problem')} found" if broken else "the chain is intact"])
    return problems.FOUND if broken else problems.CLEAN


def _serve(args: argparse.Namespace) -> int:
    from muster.webhook.cli.commands import audit_serve  # noqa: PLC0415  # the other actions need no HTTP

    return audit_serve.serve(args)


def _logs(names: Sequence[str]) -> Iterator[tuple[str, Iterable[log_files.LogLine]]]:
    """Yield each log once, also when its rotated files are named too (`audit.log*`)."""
    runs = {
        name: (log_files.rotated(Path(name)) or [Path(name)]) for name in dict.fromkeys(names) if name != sources.STDIN
    }
    for name in dict.fromkeys(names):
        if name == sources.STDIN:
            yield "stdin", log_files.numbered(sys.stdin.buffer, "stdin")
        elif name.startswith(_DESCRIPTORS):
            with Path(name).open("rb") as stream:
                yield name, log_files.numbered(stream, name)
        elif not any(set(runs[name]) < set(other) for other in runs.values()):
            yield name, log_files.lines(runs[name])


def _entries(names: Sequence[str]) -> Iterator[queries.Entry]:
    for _, lines in _logs(names):
        yield from queries.parsed(lines)


def _followed(names: Sequence[str]) -> Iterator[queries.Entry]:
    """Follow logs until interrupted; standard input is read to its end."""
    if list(names) == [sources.STDIN]:
        return _entries(names)
    if sources.STDIN in names:
        raise CommandError("-: standard input cannot be followed together with files; run one command for each")
    paths = [Path(name) for name in dict.fromkeys(names)]
    for path in paths:
        log_files.opened((log_files.rotated(path) or [path])[-1]).close()  # raises the reason when it cannot be read
    return queries.parsed(follows.follow(paths, lambda: time.sleep(_PAUSE)))


class _Counted:
    """Passes entries on and counts those without a record."""

    def __init__(self, entries: Iterable[queries.Entry]) -> None:
        self._entries = entries
        self._first: queries.Entry | None = None
        self._count = 0

    def __iter__(self) -> Iterator[queries.Entry]:
        for entry in self._entries:
            if entry.record is None:
                self._first = self._first or entry
                self._count += 1
            yield entry

    def report(self) -> None:
        """Print on stderr how many lines have no record, and where the first one is."""
        if self._first:
            first = self._first
            count = problems.plural(self._count, "line")
            text = f"muster: {count} without a record, the first at {first.file}:{first.line}: {first.problem}"
            problems.warn([problems.one_line(text)])


def _is_wanted(record: record_schema.Sealed, args: argparse.Namespace) -> bool:
    return bool(record["uid"] == args.uid if args.uid is not None else record["seq"] == args.seq)


def _moment(text: str | None, now: datetime.datetime, option: str) -> datetime.datetime | None:
    try:
        return None if text is None else queries.moment(text, now)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error


def _line(record: record_schema.Sealed) -> str:
    """Return one line: time, number, phase, decision, object, user, numbers of changes and findings."""
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
    if "event" in record:  # of RL sessions, which have no framework and change no job
        parts = [*parts[:2], record["event"]["name"], parts[4], parts[7], parts[-1]]
    return problems.clean("  ".join(parts + ["dry-run"] * record["dryRun"]))
