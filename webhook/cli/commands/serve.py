"""`muster serve`: hands over to the server, which nothing else of the command line imports."""

from __future__ import annotations

import argparse
import signal

from webhook.cli import problems

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; see `main` for the arguments."""
    # The first process of a container does not hear SIGTERM without a handler, and importing the server takes a second:
    # a pod taken away in it would stay for its whole grace period.
    signal.signal(signal.SIGTERM, _ended)
    from webhook.server import run as server  # noqa: PLC0415  # see above

    return server.serve(args.config, self_signed=args.self_signed)


def _ended(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would break the end of the first
    raise SystemExit(problems.TERMINATED)
