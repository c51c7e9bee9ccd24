"""`muster serve`: hands over to the server, which nothing else of the command line imports."""

from __future__ import annotations

import argparse

from webhook.server import run as server

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; see `main` for the arguments."""
    return server.serve(args.config, self_signed=args.self_signed)
