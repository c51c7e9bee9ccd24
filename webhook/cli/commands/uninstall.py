"""`muster uninstall`: the cluster calls Muster no more, and then nothing of it is left but what it wrote on jobs."""

from __future__ import annotations

import argparse

from webhook import installer
from webhook.cli import problems
from webhook.cli.commands import install

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Remove Muster; see `main` for the arguments."""
    with install.failing():
        installer.uninstall(install.kubectl(args), problems.say)
    return problems.CLEAN
