"""`muster install`, `upgrade` and `uninstall`: apply Muster to a cluster in a safe order, and remove it."""

from __future__ import annotations

import argparse

from muster.webhook import installer
from muster.webhook.cli import problems
from muster.webhook.cli.problems import CommandError

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Run the steps that the command names, and report them on stderr; see `commandline.json` for the arguments."""
    is_removal = args.command == "uninstall"  # of the webhook configurations first, then all else; fields of jobs stay
    wanted = None if is_removal else installer.Installation(args.image, _config(args), args.replicas)
    try:
        kubectl = installer.Kubectl(args.kubectl, args.kubeconfig)
        if wanted is None:
            installer.uninstall(kubectl, problems.say)
        else:
            step = installer.install if args.command == "install" else installer.upgrade
            step(kubectl, wanted, problems.say)
    except installer.InstallError as error:
        raise CommandError(str(error)) from error
    return problems.CLEAN


def _config(args: argparse.Namespace) -> str | None:
    try:
        return args.set_config.read_text(encoding="utf-8") if args.set_config else None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{args.set_config}: cannot be read: {error}") from error
