"""`muster status`: what became of a job and why it does not run, from a live cluster; without a name, of all jobs."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from muster import backoffs
from muster.audit import log_files, queries
from muster.audit.record_schema import Sealed
from muster.kube import clients, transports
from muster.webhook.cli import cluster_connections, job_status, observed, problems, terminal
from muster.webhook.cli.job_status import Status
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import jsons

__all__ = ["run"]

_RECORDS = 50  # of the audit log that are kept of one job
_JOBS = 10_000  # of which records are kept
_CLEAR = "\x1b[H\x1b[2J"
_CAP = 30.0  # seconds between two tries at most


def run(args: argparse.Namespace) -> int:
    """Show the status of one job or of all; see `commandline.json` for the arguments."""
    return cluster_connections.ask(_run(args))


async def _run(args: argparse.Namespace) -> int:
    async with cluster_connections.connected(args) as sender:
        namespace = "" if args.all_namespaces else args.namespace or clients.namespace_of(args.kubeconfig, args.context)
        asked = observed.Asked(sender, _audit(args.audit))
        if args.watch:
            return await _watch(args, asked, namespace)
        found = await _found(args, asked, namespace)
        if not found:
            return _nothing(args, namespace)
        _show(args, found)
        return _code(args, found)


async def _found(args: argparse.Namespace, asked: observed.Asked, namespace: str) -> list[Status]:
    if args.job is None or args.all_namespaces:
        found = await observed.every(asked, namespace)
        return [job_status.of(each) for each in found if args.job in {None, each.name}]
    here = await observed.one(asked, namespace, args.job)
    return [job_status.of(here)] if here else []


def _nothing(args: argparse.Namespace, namespace: str) -> int:
    where = f"namespace {namespace}" if namespace else "the cluster"
    what = "TrainJob or JobSet" if args.job is None else f"TrainJob or JobSet {args.job}"
    if args.output == "json":
        print(jsons.dump([] if args.job is None else None))
    problems.say(f"there is no {what} in {where}; -n NAMESPACE looks elsewhere, -A everywhere")
    return problems.NOTHING


def _show(args: argparse.Namespace, found: Sequence[Status]) -> None:
    if args.output == "json":
        items = problems.versioned("status", found)
        print(jsons.dump(items if args.job is None or args.all_namespaces else items[0]))
        return
    for line in _lines(args, found):
        print(line)


def _lines(args: argparse.Namespace, found: Sequence[Status]) -> list[str]:
    width = terminal.terminal_width()
    if args.job is None:
        return list(job_status.summary(found, width, spaces=args.all_namespaces))
    return [line for each in found for line in job_status.lines(each, width)]


def _code(args: argparse.Namespace, found: Sequence[Status]) -> int:
    return problems.FOUND if args.check and any(map(job_status.is_wrong, found)) else problems.CLEAN


async def _watch(args: argparse.Namespace, asked: observed.Asked, namespace: str) -> int:
    """Show what changes until interrupted; with `--check`, until every job has ended."""
    screen = _Screen(args)
    backoff = backoffs.Backoff(base=args.every, cap=_CAP)
    while True:
        pause = args.every
        try:
            found = await _found(args, asked, namespace)
        except transports.RefusedError as error:
            if error.status in {401, 403}:
                raise
            pause = screen.lost(error, backoff)
        except transports.TransportError as error:
            pause = screen.lost(error, backoff)
        else:
            backoff.reset()
            screen.show(found)
            if args.check and found and all(map(job_status.has_ended, found)):
                return _code(args, found)
        await _pause(pause)


class _Screen:
    """Where a watch shows its found: redrawn on a terminal, one line for each change elsewhere."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._terminal = args.output != "json" and sys.stdout.isatty()
        self._said: dict[tuple[str, str], str] = {}
        self._drawn: list[str] = []

    def show(self, found: Sequence[Status]) -> None:
        """Show what is new."""
        if self._terminal:
            self._draw(_lines(self._args, found) or ["there are no such jobs yet"])
            return
        now = {(each["namespace"], each["name"]): (each, job_status.brief(each)) for each in found}
        for key, (status, brief) in now.items():
            if self._said.get(key) != brief:
                self._said[key] = brief
                item = problems.versioned("status", [status])[0]
                _say(jsons.dump(item, indent=None) if self._is_json else brief)
        for namespace, name in [key for key in self._said if key not in now]:
            del self._said[namespace, name]
            gone = {"schema": problems.schema("status"), "namespace": namespace, "name": name, "phase": "Gone"}
            _say(jsons.dump(gone, indent=None) if self._is_json else f"{namespace}/{name}: gone")

    def lost(self, error: transports.TransportError, backoff: backoffs.Backoff) -> float:
        """Say once that the cluster does not answer, and return the seconds until the next try."""
        pause = backoff.delay()
        text = f"the cluster cannot be read, and is asked again: {error}"
        if self._terminal:
            self._draw([*self._drawn, "", problems.one_line(f"muster: {text}")], keep=False)
        elif backoff.failures == 1:
            problems.say(text)
        return pause

    @property
    def _is_json(self) -> bool:
        return bool(self._args.output == "json")

    def _draw(self, lines: list[str], *, keep: bool = True) -> None:
        if keep:
            self._drawn = lines
        height = shutil.get_terminal_size().lines - 1
        more = [f"and {len(lines) - height + 1} more lines"] if len(lines) > height else []
        sys.stdout.write(_CLEAR + "\n".join(lines[: height - len(more)] + more) + "\n")
        sys.stdout.flush()


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _say(line: str) -> None:
    print(line, flush=True)


def _audit(names: Sequence[str]) -> observed.Records:
    """Return a look-up of the newest records about a job, in audit logs that are read once."""
    found: OrderedDict[tuple[str, str], deque[Sealed]] = OrderedDict()
    for entry in (each for name in names for each in _entries(name)):
        if entry.record is not None:
            subject, owner = entry.record["object"], entry.record["owner"]
            key = subject["namespace"], owner["name"] if owner else subject["name"]
            found.setdefault(key, deque(maxlen=_RECORDS)).append(entry.record)
            found.move_to_end(key)
            if len(found) > _JOBS:
                found.popitem(last=False)
    return lambda namespace, name: tuple(found.get((namespace, name), ()))


def _entries(name: str) -> Iterator[queries.Entry]:
    path = Path(name)
    try:
        yield from queries.parsed(log_files.lines(log_files.rotated(path) or [path]))
    except OSError as error:
        raise CommandError(f"{name}: cannot be read: {error.strerror or error}") from error
