"""`muster serve`: read the configuration, start the service, wait for a signal, stop it in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

from muster.certs.errors import CertificateError
from muster.kube.transports import NoClusterError
from muster.strategies.plugins.registry import PluginImportError
from muster.webhook import configs, logs
from muster.webhook.server.services import Service

__all__ = ["serve"]

_log = logging.getLogger(__name__)


def serve(config_path: Path | None, *, self_signed: bool = False) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code, which is 2 when the service could not start.

    Args:
        config_path: the configuration file; None for the defaults.
        self_signed: make a certificate, whatever `tls` in the file is.
    """
    logs.configure()
    try:
        config = written = configs.load(config_path)
        if self_signed:
            config = config.model_copy(update={"tls": config.tls.model_copy(update={"self_signed": True})})
        # uvloop is not used: with aiohttp's client, a connection that fails can close the descriptor of another one, or
        # abort the process (MagicStack/uvloop#653, seen with 0.23; tested in e2e/suites/outage/test_watches.py).
        asyncio.run(_serve(config, config_path, written))
    except (CertificateError, NoClusterError, PluginImportError, ValueError, TypeError, OSError) as error:
        sys.stderr.write(f"muster: {error}\n")
        return 2
    return 0


async def _serve(config: configs.Config, path: Path | None, written: configs.Config) -> None:
    service = Service(config, path, written)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    if not await _started(service, stop):
        return
    await stop.wait()
    _log.info("stopping", extra={"port": service.port})
    with contextlib.suppress(asyncio.CancelledError):
        await service.stop()


async def _started(service: Service, stop: asyncio.Event) -> bool:
    """Start the service, or stop while it starts: it may wait long for the API server."""
    start, told = asyncio.ensure_future(service.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait({start, told}, return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if start.done():
        start.result()
        return True
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    _log.info("stopped before it served")
    return False
