"""`muster audit serve`: the pages of `muster.webhook.pages`, until interrupted."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from muster.audit import log_files
from muster.webhook.cli import problems
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import sources
from muster.webhook.pages import log_places, page_server
from muster.webhook.pages.gates import Gate
from muster.webhook.pages.log_places import Shelf

__all__ = ["SERVICE", "serve"]

SERVICE = "muster-audit-page"
"""The Service for which the certificate is."""

_MAX_LOGS = log_places.LOGS


def serve(args: argparse.Namespace) -> int:
    """Serve logs at an address; the URL is printed as soon as it answers.

    Raises:
        CommandError: a log cannot be read, the address cannot be bound, or there is no cluster that judges callers.
    """
    shelf = _shelf(args.file)
    if not 0 <= args.port <= 65535:
        raise CommandError(f"--port: {args.port} is not a TCP port; give a number from 0 to 65535")
    if args.tls is not None and args.auth == "none":
        raise CommandError("--tls: is for --auth cluster; give that too")
    if args.auth == "none" and not _is_loopback(args.host):
        print(f"muster: everyone who can reach {args.host} can read this log; there is no login", file=sys.stderr)
    asyncio.run(_serve(shelf, args))
    return problems.CLEAN


async def _serve(shelf: Shelf, args: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        gate = await stack.enter_async_context(_gate(args)) if args.auth == "cluster" else None
        tls = await stack.enter_async_context(_certificate(args)) if gate else None
        server = page_server.PageServer(shelf, args.host, gate=gate, tls=tls)
        try:
            bound = await server.open(args.port)
        except OSError as error:
            reason = error.strerror or error
            raise CommandError(f"{args.host}:{args.port}: muster cannot listen there: {reason}") from error
        stack.push_async_callback(server.close)
        shown = f"[{args.host}]" if ":" in args.host else args.host
        print(f"{'https' if tls else 'http'}://{shown}:{bound}/", flush=True)
        await stop.wait()


@contextlib.asynccontextmanager
async def _gate(args: argparse.Namespace) -> AsyncIterator[Gate]:
    from muster.webhook.cli import cluster_connections  # noqa: PLC0415  # without --auth cluster there is none
    from muster.webhook.cluster import callers  # noqa: PLC0415  # without --auth cluster there is none
    from muster.webhook.pages import gates  # noqa: PLC0415 - as above

    with cluster_connections.told(option="--auth cluster"):
        async with cluster_connections.connected(args) as sender:
            yield gates.Gate(callers.Callers(sender), gates.reading(args.namespace))


@contextlib.asynccontextmanager
async def _certificate(args: argparse.Namespace) -> AsyncIterator[ssl.SSLContext]:
    from muster.certs import errors, subject_names  # noqa: PLC0415  # HTTP on loopback needs none
    from muster.certs import files as places  # noqa: PLC0415 - as above
    from muster.certs import material_sources as kinds  # noqa: PLC0415 - as above
    from muster.webhook.server import certificates  # noqa: PLC0415 - as above

    try:
        names = subject_names.service_names(SERVICE, args.namespace, local=args.tls is None)
        source = (
            kinds.SelfSignedSource(names)
            if args.tls is None
            else kinds.FileSource(places.Locations.within(args.tls), names[:1])
        )
        certificate = certificates.Certificate(source)
        serving_context = await certificate.start()
    except errors.CertificateError as error:
        raise CommandError(f"--tls: {error}") from error
    try:
        yield serving_context.ssl_context
    finally:
        await certificate.stop()


def _shelf(names: Sequence[str]) -> Shelf:
    if any(map(log_places.is_pattern, names)):
        if len(names) > 1:
            raise CommandError("a pattern stands for all logs that match it; give one pattern, or files")
        return log_places.PatternShelf(names)
    return Shelf(_paths(names))


def _paths(names: Sequence[str]) -> list[Path]:
    if sources.STDIN in names:
        raise CommandError("-: standard input cannot be served; write it to a file and serve that one")
    runs = {name: (log_files.rotated(Path(name)) or [Path(name)]) for name in dict.fromkeys(names)}
    # Rotated files that are named too (`audit.log*`) are shown once.
    kept = [name for name, run in runs.items() if not any(set(run) < set(other) for other in runs.values())]
    if len(kept) > _MAX_LOGS:
        raise CommandError(f"{len(kept)} logs were given; at most {_MAX_LOGS} can be served together")
    for each in (file for name in kept for file in runs[name]):
        if each.exists() and not each.is_file():
            raise CommandError(f"{each}: is not a regular file; copy the log into one")
        log_files.opened(each).close()  # raises the reason when it cannot be read
    return [Path(name) for name in kept]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
