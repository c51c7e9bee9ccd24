"""`muster sessions`: serve a Gateway, make and end its keys, see and end its sessions, delete checkpoints."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import io
import json
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from muster.sessions.cli import devices, durations, looking, pods, restoring, sizing, timeline, urls
from muster.sessions.cli.texts import clean, moment
from muster.sessions.engines import names
from muster.sessions.journal import integrity
from muster.sessions.journal.places import journal_at
from muster.sessions.journal.store import AwayError, Journal, Row
from muster.sessions.runs import tenants

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from aiohttp.web import Application

    from muster.front.connections import Limits
    from muster.sessions.platforms.engines import Running
    from muster.sessions.runs.config import Config

__all__ = ["main", "parser"]

T = TypeVar("T")
Run = Callable[[argparse.Namespace], int]
_GRACE = 60.0  # seconds that open requests get to end


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it is done, 1 when there is nothing of that name, 2 when it cannot be done."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    args = parser().parse_args(argv)
    try:
        return int(args.run(args))
    except (OSError, ValueError, AwayError, sqlite3.Error) as error:
        print(f"sessions: {error}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line, as the other commands do."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how to see more, and end."""
        self.exit(2, f"muster: {message}; see `{self.prog} --help`\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser; after parsing, `run` takes the arguments and returns the exit code."""
    top = _Parser(prog="muster sessions", description=__doc__.partition(": ")[2], allow_abbrev=False)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    serve = commands.add_parser("serve", help="run a Gateway that speaks the Tinker API", allow_abbrev=False)
    serve.add_argument("--base", type=Path, required=True, metavar="FOLDER", help="folder of the base model")
    serve.add_argument("--name", metavar="NAME", help="how clients name the base model; its folder by default")
    serve.add_argument("--host", default="127.0.0.1", help="address to bind; 127.0.0.1 by default")
    serve.add_argument("--port", type=_port, default=8080, help="TCP port, 8080 by default; 0 chooses a free one")
    serve.add_argument("--context", type=_count, help="tokens that the model reads at most; as its configuration says")
    serve.add_argument("--trainer", metavar="MODULE:CLASS", help="what trains; torch and peft by default")
    what = f"what samples: {', '.join(names.SAMPLERS)} or MODULE:CLASS; transformers by default, whole with --full"
    serve.add_argument("--sampler", metavar="NAME", help=what)
    serve.add_argument(
        "--trainer-python", metavar="FILE", help="interpreter of the trainer, such as one that has torch"
    )
    serve.add_argument("--sampler-python", metavar="FILE", help="interpreter of the sampler, such as one that has vLLM")
    option = "of the sampler, such as rank=32 of vllm; may be given several times"
    serve.add_argument("--sampler-option", action="append", default=[], metavar="KEY=VALUE", help=option)
    serve.add_argument("--url", metavar="URL", help="where clients reach it, for links; as each request by default")
    what = "how long a link to a file can be used, 10m by default; it ends with its API key in any case"
    serve.add_argument("--link-lifetime", type=_duration, default=600.0, metavar="TIME", help=what)
    serve.add_argument("--full", action="store_true", help="train all weights of one model, and no adapters")
    what = "folder with tls.crt and tls.key, read again when they change; plain HTTP by default"
    serve.add_argument("--tls", type=Path, metavar="FOLDER", help=what)
    serve.add_argument(
        "--metrics", type=_port, metavar="PORT", help="TCP port of /metrics, for Prometheus; none by default"
    )
    what = "TOML with what each tenant may have and ask for (docs/sessions.md)"
    serve.add_argument("--limits", type=Path, metavar="FILE", help=what)
    what = "audit log of sessions and checkpoints, which `muster audit` reads; none by default"
    serve.add_argument("--audit", type=Path, metavar="FILE", help=what)
    serve.add_argument("--ranks", type=int, default=1, metavar="N", help="processes, or GPUs, that --full uses")
    option = "of the trainer, such as device=cuda; may be given several times"
    serve.add_argument("--trainer-option", action="append", default=[], metavar="KEY=VALUE", help=option)
    devices.add(serve)
    pods.add(serve)
    keys = _keys_parsers(commands)
    timeline.add(commands)
    sizing.add(commands).set_defaults(run=_memory)
    looks = [(command, functools.partial(_look, look)) for command, look in looking.add(commands)]
    serve.add_argument(
        "--replica", default=socket.gethostname(), help="of Gateways on one --journal, which one this is"
    )
    serve.add_argument("--lease", type=_seconds, default=10.0, metavar="SECONDS", help="until another takes over; 10")
    saving, replacing = restoring.add(commands)
    kept = [(saving, functools.partial(_look, restoring.backup)), (replacing, restoring.restore)]
    for command, run in ((serve, _serve), *keys, *looks, *kept):
        command.add_argument(
            "--journal",
            metavar="URL",
            default=os.environ.get("MUSTER_JOURNAL") or None,
            help="postgresql://…, where Gateways share a journal; $MUSTER_JOURNAL by default",
        )
        command.add_argument("--root", type=Path, required=True, metavar="FOLDER", help="journal, weights and sockets")
        command.set_defaults(run=run)
    return top


def _keys_parsers(commands: _SubParsersAction[Any]) -> list[tuple[argparse.ArgumentParser, Run]]:
    """Add the commands for API keys, and return what runs each."""
    keys = commands.add_parser("keys", help="make, list and end API keys", allow_abbrev=False)
    actions = keys.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a key, which is shown once", allow_abbrev=False)
    create.add_argument("tenant", metavar="TENANT", help="whose sessions it opens")
    create.add_argument("--scopes", default=",".join(tenants.SCOPES), help="of train,sample,read,admin; all by default")
    create.add_argument("--expires", type=_duration, metavar="TIME", help="after which it ends, such as 30d")
    rotate = actions.add_parser("rotate", help="make a key that follows another", allow_abbrev=False)
    rotate.add_argument("id", metavar="ID", help="first characters of the old one, as `keys ls` shows them")
    rotate.add_argument("--overlap", type=_duration, default=86400.0, help="until the old one ends; 24h")
    listing = actions.add_parser("ls", help="list keys by their first characters", allow_abbrev=False)
    revoke = actions.add_parser("revoke", help="end a key", allow_abbrev=False)
    revoke.add_argument("id", metavar="ID", help="first characters, as `keys ls` shows them")
    return [(create, _create), (listing, _keys), (revoke, _revoke), (rotate, _rotate)]


def _port(text: str) -> int:
    return _whole(text, 0, 65535)


def _count(text: str) -> int:
    return _whole(text, 1, 2**31 - 1)


def _whole(text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text[:11]) <= most:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a whole number from {least} to {most}")
    return int(text)


def _seconds(text: str) -> float:
    """Return a lease: shorter ones end while a Gateway is only slow."""
    try:
        if 1 <= (found := float(text)) <= 3600:
            return found
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number of seconds from 1 to 3600")


def _duration(text: str) -> float:
    try:
        return durations.seconds(text)
    except ValueError as error:  # of which argparse would say no word
        raise argparse.ArgumentTypeError(str(error)) from error


def _serve(args: argparse.Namespace) -> int:
    from muster.sessions.runs import quotas  # noqa: PLC0415  # the other commands need no server
    from muster.sessions.runs.config import Config  # noqa: PLC0415  # as above

    settings = _settings(args.base)
    context = args.context or int(settings.get("max_position_embeddings", 2048))
    config = Config(args.root.resolve(), args.base.resolve(), args.name or str(args.base.resolve()), context)
    trainer, ranks = names.trainer(args.trainer, full=args.full, ranks=args.ranks)
    config = dataclasses.replace(
        config,
        trainer=trainer or config.trainer,
        trainer_options=(*ranks, *names.options(args.trainer_option, "trainer")),
        sampler=names.sampler(args.sampler, full=args.full),
        full=args.full,
        sampler_python=_interpreter("sampler", args.sampler_python),
        trainer_python=_interpreter("trainer", args.trainer_python),
        sampler_options=names.options(args.sampler_option),
        device_lease=devices.chosen(args),
        device_weight=args.device_weight,
        url=urls.checked(args.url) if args.url else None,
        journal=args.journal,
        replica=args.replica,
        audit=args.audit,
        quotas=quotas.read(args.limits) if args.limits else config.quotas,
        limits=dataclasses.replace(config.limits, lease=args.lease, link=args.link_lifetime),
        pods=pods.chosen(args),
    )
    if config.pods is None:
        names.interpreted("trainer", config.trainer, config.trainer_python)
        names.interpreted("sampler", config.sampler, config.sampler_python)
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(config, args.host, args.port, args.metrics, args.tls))
    return 0


def _memory(args: argparse.Namespace) -> int:
    _settings(args.base)
    return sizing.memory(args)


def _settings(base: Path) -> dict[str, Any]:
    """Return the configuration of the base model. Raises `ValueError` where there is none."""
    try:
        return dict(json.loads((base / "config.json").read_text()))
    except (OSError, ValueError, TypeError) as error:
        told = "pass the folder that save_pretrained of transformers wrote, and not the name of a model on a hub"
        raise ValueError(f"--base: {base}: has no config.json that can be read ({error}); {told}") from error


def _interpreter(of: str, name: str | None) -> str | None:
    found = shutil.which(name) if name else None
    if name and found is None:
        raise ValueError(f"--{of}-python: {name}: is not a program: pass the python of the {of}'s environment")
    return found


async def _run(config: Config, host: str, port: int, metrics: int | None, tls: Path | None) -> None:
    """Serve until the process is told to end."""
    from muster.sessions.gateway import app, certificates, connections, scrapes  # noqa: PLC0415  # the server's alone
    from muster.sessions.gateway.state import MANAGER  # noqa: PLC0415  # as above

    certificate = certificates.Certificate(tls) if tls else None
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    made = app.app(config)
    async with AsyncExitStack() as stack:
        context = certificate.context if certificate else None
        bound = await _bound(stack, made, host, port, connections.LIMITS, context)
        if certificate is not None:
            stack.callback(asyncio.create_task(certificate.follow()).cancel)
        print(f"serving the Tinker API on {'https' if certificate else 'http'}://{host}:{bound}", flush=True)
        if metrics is not None:
            scraped = await _bound(stack, scrapes.app(made[MANAGER]), host, metrics, connections.SCRAPES)
            print(f"serving metrics on http://{host}:{scraped}/metrics", flush=True)
        await _until(ended, (made[MANAGER].context.trainer, made[MANAGER].context.sampler))


async def _until(ended: asyncio.Event, engines: Sequence[Running]) -> None:
    """Wait for the end. Raises `ValueError` where an engine cannot be made of what was typed."""
    waits = [asyncio.create_task(each.wait()) for each in (ended, *(engine.refused for engine in engines))]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()
    for engine in engines:
        if engine.refused.is_set():
            raise ValueError(engine.refusal)


async def _bound(  # noqa: PLR0913  # what is served, where, and how
    stack: AsyncExitStack,
    application: Application,
    host: str,
    port: int,
    limits: Limits,
    context: ssl.SSLContext | None = None,
) -> int:
    """Have an application answer at a port, and return the port."""
    from aiohttp import web  # noqa: PLC0415  # as above

    from muster.front.listeners import Front  # noqa: PLC0415  # as above

    runner = web.AppRunner(application)
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    if runner.server is None:
        raise RuntimeError("the runner was not set up")
    front = Front(runner.server, _GRACE, limits)
    stack.push_async_callback(front.close)
    return await front.open(host, port, context)


def _create(args: argparse.Namespace) -> int:
    now, scopes = time.time(), tenants.checked(args.scopes)
    if args.expires == 0:
        raise ValueError("--expires: such a key is over at once; give it some time, or leave it out for no end")
    expires = None if args.expires is None else now + args.expires
    tenant = tenants.named(args.tenant)
    key = asyncio.run(_with(args, lambda journal: tenants.create(journal, tenant, now, scopes, expires)))
    print(key.secret)
    return 0


def _rotate(args: argparse.Namespace) -> int:
    _there(args)
    key = asyncio.run(_with(args, lambda journal: tenants.rotate(journal, args.id, time.time(), args.overlap)))
    if key is None:
        print(f"sessions: {args.id}: there is no such key, or it has ended", file=sys.stderr)
        return 1
    print(key.secret)
    return 0


def _keys(args: argparse.Namespace) -> int:
    _there(args)
    rows = asyncio.run(_with(args, lambda journal: journal.rows("SELECT * FROM keys ORDER BY created")))
    for row in rows:
        made, tenant = moment(row["created"]), clean(row["tenant"])
        print(f"{row['id']}  {tenant:20}  {made}  {_validity(row):32}  {row['scopes']}")
    return 0


def _validity(key: Row) -> str:
    if key["revoked"] is not None:
        return "revoked"
    if key["expires"] is None:
        return "valid"
    return f"{'valid until' if key['expires'] > time.time() else 'ended'} {moment(key['expires'])}"


def _revoke(args: argparse.Namespace) -> int:
    _there(args)
    if asyncio.run(_with(args, lambda journal: tenants.revoke(journal, args.id, time.time()))):
        return 0
    print(f"sessions: {args.id}: there is no such key, or it has ended", file=sys.stderr)
    return 1


def _look(look: looking.Look, args: argparse.Namespace) -> int:
    _there(args)
    with suppress(KeyboardInterrupt):
        return asyncio.run(_with(args, lambda journal: look(journal, args)))
    return 130  # as a shell reports it


def _there(args: argparse.Namespace) -> None:
    """Do nothing where there is a journal. Raises `FileNotFoundError` where it would be made by looking."""
    if not args.journal:
        looking.there(args.root)


async def _with(args: argparse.Namespace, use: Callable[[Journal], Awaitable[T]]) -> T:
    journal = journal_at(args.journal, args.root)
    await journal.open()
    try:
        await integrity.check(journal, args.root)
        return await use(journal)
    finally:
        await journal.close()
