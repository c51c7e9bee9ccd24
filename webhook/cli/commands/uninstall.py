"""`muster uninstall`: removes the webhook configurations, then all else; fields of jobs stay as they are."""

from __future__ import annotations

import argparse

from muster.webhook import installer
from muster.webhook.cli import problems
from muster.webhook.cli.commands import install

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Remove Muster; see `commandline.json` for the arguments."""
    with install.failing():
        installer.uninstall(install.kubectl(args), problems.say)
    return problems.CLEAN
