"""The commands that look at sessions, end them, and delete checkpoints; they read the journal beside its Gateway."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.sessions.cli.texts import clean, count, moment
from muster.sessions.journal.store import Journal, Row

if TYPE_CHECKING:
    from argparse import _SubParsersAction

__all__ = ["Look", "add", "there"]

Look = Callable[[Journal, argparse.Namespace], Awaitable[int]]
"""A command on an open journal; it returns its exit code."""
_PAUSE = 1.0  # seconds between looks of `show --follow`
_CLEAR = "\x1b[H\x1b[2J"
_SESSIONS = (
    "SELECT new.id, new.tenant, new.created, new.status, count(models.id) AS runs,"
    " sum(CASE WHEN models.done > 0 THEN models.done ELSE 0 END) AS requests"
    " FROM (SELECT * FROM sessions ORDER BY created DESC, id LIMIT ?) AS new"
    " LEFT JOIN models ON models.session = new.id"
    " GROUP BY new.id, new.tenant, new.created, new.status ORDER BY new.created DESC, new.id"
)
_BY_OPERATOR = {"type": "cancelled", "detail": "the operator of the Gateway ended this session"}


def add(commands: _SubParsersAction[Any]) -> list[tuple[argparse.ArgumentParser, Look]]:
    """Add the commands, and return what runs each."""
    listing = commands.add_parser("ls", help="list sessions", allow_abbrev=False)
    _listed(listing)
    show = commands.add_parser("show", help="show a session: its runs, what waits, what failed", allow_abbrev=False)
    show.add_argument("session", metavar="SESSION", help="id of the session, as `ls` shows it")
    show.add_argument("--follow", action="store_true", help="go on, and show what changes, until the session has ended")
    show.add_argument("--json", action="store_true", help="print JSON; with --follow, a line of it for each change")
    end = commands.add_parser("end", help="end a session, and free what it holds", allow_abbrev=False)
    end.add_argument("session", metavar="SESSION", help="id of the session, as `ls` shows it")
    kept = commands.add_parser("checkpoints", help="list and delete checkpoints", allow_abbrev=False)
    actions = kept.add_subparsers(title="actions", metavar="ACTION", required=True)
    checkpoints = actions.add_parser("ls", help="list checkpoints", allow_abbrev=False)
    _of(checkpoints.add_mutually_exclusive_group())
    _listed(checkpoints)
    remove = actions.add_parser("rm", help="delete checkpoints", allow_abbrev=False)
    which = remove.add_mutually_exclusive_group(required=True)
    which.add_argument("path", nargs="?", metavar="PATH", help="the checkpoint, as `checkpoints ls` shows it")
    _of(which)
    runs = ((listing, _sessions), (show, _show), (end, _end), (checkpoints, _checkpoints), (remove, _remove))
    return list(runs)


def _listed(command: argparse.ArgumentParser) -> None:
    command.add_argument("--limit", type=_limit, default=100, metavar="N", help="the newest N; 100 by default")
    command.add_argument("--json", action="store_true", help="print JSON")


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number from 1 to 100000")
    return int(text)


def _of(which: Any) -> None:
    which.add_argument("--session", metavar="SESSION", help="those of all runs of a session")
    which.add_argument("--run", metavar="RUN", dest="of_run", help="those of a run")


async def _sessions(journal: Journal, args: argparse.Namespace) -> int:
    found = [_session(row) for row in await journal.rows(_SESSIONS, args.limit + 1)]
    return _told(args, "sessions", found, _session_line)


def _session(row: Row) -> dict[str, Any]:
    status = json.loads(row["status"])["type"]
    counted = {"runs": row["runs"], "requests": row["requests"] or 0}
    return {"id": row["id"], "tenant": row["tenant"], "created": moment(row["created"]), "status": status, **counted}


def _session_line(each: Mapping[str, Any]) -> str:
    done = f"{count(each['runs'], 'run', 'runs')}, {count(each['requests'], 'request', 'requests')}"
    return f"{each['id']}  {clean(each['tenant']):20}  {each['created']}  {clean(each['status']):16}  {done}"


def _told(
    args: argparse.Namespace, name: str, found: list[dict[str, Any]], line: Callable[[Mapping[str, Any]], str]
) -> int:
    """Print the newest of what was found, the newest last, and say whether there is more."""
    shown, more = found[: args.limit][::-1], len(found) > args.limit
    if args.json:
        print(json.dumps({"version": 1, name: shown, "more": more}))
        return 0
    for each in shown:
        print(line(each))
    if more:
        print(f"sessions: there are more than {args.limit}; pass a larger --limit to see them", file=sys.stderr)
    return 0


async def _show(journal: Journal, args: argparse.Namespace) -> int:
    from muster.sessions.cli import pages, views  # noqa: PLC0415  # the other commands need no client of engines

    before = ""
    while True:
        view = await views.view(journal, args.root, args.session)
        if view is None:
            return _missing(args.session)
        text = json.dumps(view) if args.json else pages.page(view)
        if text != before:
            print(f"{_CLEAR}{text}" if _redraws(args) else text, flush=True)
        if not args.follow or view["ended"]:
            return 0
        before = text
        await asyncio.sleep(_PAUSE)


def _redraws(args: argparse.Namespace) -> bool:
    return args.follow and not args.json and sys.stdout.isatty()


def _missing(session: str) -> int:
    print(f"sessions: {clean(session)}: there is no such session; `ls` lists them", file=sys.stderr)
    return 1


async def _end(journal: Journal, args: argparse.Namespace) -> int:
    from muster.sessions.runs import endings  # noqa: PLC0415  # the other commands need no weights

    if await endings.end(journal, args.session, _BY_OPERATOR, time.time()):
        return 0
    if await journal.row("SELECT 1 FROM sessions WHERE id = ?", args.session) is None:
        return _missing(args.session)
    print(f"sessions: {clean(args.session)}: this session has ended before", file=sys.stderr)
    return 1


def _chosen(args: argparse.Namespace) -> tuple[str, tuple[str, ...]]:
    """Return the condition of the checkpoints that are meant, and its values."""
    if args.session is not None:
        return "WHERE run IN (SELECT id FROM models WHERE session = ?)", (args.session,)
    if args.of_run is not None:
        return "WHERE run = ?", (args.of_run,)
    return ("", ()) if getattr(args, "path", None) is None else ("WHERE path = ?", (args.path,))


async def _checkpoints(journal: Journal, args: argparse.Namespace) -> int:
    which, values = _chosen(args)
    query = f"SELECT * FROM checkpoints {which} ORDER BY created DESC, path LIMIT ?"  # noqa: S608  # no value in it
    found = [_checkpoint(row) for row in await journal.rows(query, *values, args.limit + 1)]
    return _told(args, "checkpoints", found, _checkpoint_line)


def _checkpoint(row: Row) -> dict[str, Any]:
    expires = None if row["expires"] is None else moment(row["expires"])
    told = {"path": row["path"], "tenant": row["tenant"], "size": row["size"], "created": moment(row["created"])}
    return {**told, "expires": expires, "public": bool(row["public"])}


def _checkpoint_line(each: Mapping[str, Any]) -> str:
    until = f"until {each['expires']}" if each["expires"] else "kept"
    told = f"{clean(each['tenant']):20}  {each['created']}  {each['size']:>13,} bytes  {until}"
    return f"{clean(each['path'], 400)}  {told}{', public' if each['public'] else ''}"


async def _remove(journal: Journal, args: argparse.Namespace) -> int:
    from muster.sessions.runs import endings  # noqa: PLC0415  # as above

    which, values = _chosen(args)
    rows = await journal.rows(f"SELECT * FROM checkpoints {which}", *values)  # noqa: S608  # as above
    for row in rows:
        await endings.delete(journal, row, time.time())
        print(clean(row["path"], 400))
    if not rows:
        print("sessions: there are no such checkpoints; `checkpoints ls` lists them", file=sys.stderr)
    return 0 if rows else 1


def there(root: Path) -> None:
    """Do nothing where a Gateway has its journal. Raises `FileNotFoundError` where it would be made by looking."""
    if not (root / "journal.sqlite").exists():
        raise FileNotFoundError(f"{root}: no Gateway has a journal there; pass the --root of `serve`")
