"""`muster upgrade`: runs the steps of `muster install` where Muster is already installed."""

from __future__ import annotations

import argparse

from muster.webhook import installer
from muster.webhook.cli.commands import install

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Upgrade Muster; see `commandline.json` for the arguments."""
    return install.put(args, installer.upgrade)
