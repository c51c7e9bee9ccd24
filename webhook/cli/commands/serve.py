"""`muster serve`: runs the server, which no other command imports."""

from __future__ import annotations

import argparse
import signal

from muster.webhook.cli import problems

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; see `commandline.json` for the arguments."""
    # The first process of a container ignores SIGTERM without a handler, and importing the server takes a second: a pod
    # that is deleted in that second would stay for its whole grace period.
    signal.signal(signal.SIGTERM, _ended)
    from muster.webhook.server import run as server  # noqa: PLC0415  # see above

    return server.serve(args.config, self_signed=args.self_signed)


def _ended(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal would interrupt the shutdown
    raise SystemExit(problems.TERMINATED)
