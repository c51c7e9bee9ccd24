"""The connection of a command to a cluster, and how a command ends that cannot have one."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

from muster.kube import clients, transports
from muster.webhook.cli.problems import CommandError

__all__ = ["ask", "connected", "told"]

_Answer = TypeVar("_Answer")


def ask(work: Coroutine[None, None, _Answer], about: str = "the cluster") -> _Answer:
    """Return what a command finds out from a cluster.

    Raises:
        CommandError: there is no cluster, or it cannot be read, or not in time.
    """
    with told(about):
        return asyncio.run(work)


@contextlib.contextmanager
def told(about: str = "the cluster", option: str = "") -> Iterator[None]:
    """End the command where a cluster is missing or does not answer.

    Args:
        about: what cannot be read then.
        option: which wants the cluster, "" where the command itself does.

    Raises:
        CommandError: there is no cluster, or it cannot be read, or not in time.
    """
    where = f"{option}: " if option else ""
    try:
        yield
    except transports.NoClusterError as error:
        raise CommandError(f"{where}{error}") from error
    except (transports.TransportError, TimeoutError) as error:
        raise CommandError(f"{where}{about} cannot be read: {str(error) or 'no answer in time'}") from error


@contextlib.asynccontextmanager
async def connected(args: argparse.Namespace, kubeconfig: Path | None = None) -> AsyncIterator[transports.Sender]:
    """Connect to the cluster that the options of a command name, or to that of another kubeconfig, for a while."""
    sender = await clients.connect(kubeconfig or args.kubeconfig, getattr(args, "context", None))
    try:
        yield sender
    finally:
        await sender.close()
