"""`muster install`: applies Muster to a cluster in a safe order."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from muster.webhook import installer
from muster.webhook.cli import problems
from muster.webhook.cli.problems import CommandError

__all__ = ["failing", "kubectl", "put", "run"]


def run(args: argparse.Namespace) -> int:
    """Install or upgrade Muster; see `commandline.json` for the arguments."""
    return put(args, installer.install)


def put(
    args: argparse.Namespace, step: Callable[[installer.Kubectl, installer.Installation, installer.Say], None]
) -> int:
    """Run the steps with the given options, and report them on stderr."""
    wanted = installer.Installation(args.image, _config(args), args.replicas)
    with failing():
        step(kubectl(args), wanted, problems.say)
    return problems.CLEAN


def kubectl(args: argparse.Namespace) -> installer.Kubectl:
    """Return kubectl for the program and the cluster that the options name."""
    return installer.Kubectl(args.kubectl, args.kubeconfig)


@contextmanager
def failing() -> Iterator[None]:
    """End the command when a step fails.

    Raises:
        CommandError: with the message of the step.
    """
    try:
        yield
    except installer.InstallError as error:
        raise CommandError(str(error)) from error


def _config(args: argparse.Namespace) -> str | None:
    try:
        return args.set_config.read_text(encoding="utf-8") if args.set_config else None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{args.set_config}: cannot be read: {error}") from error
