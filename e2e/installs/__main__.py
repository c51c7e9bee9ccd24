"""`python -m e2e.installs [install|uninstall]`: arguments, progress on stderr, exit codes 0 and 2."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from e2e.installs import steps
from e2e.installs.errors import InstallError
from e2e.installs.kubectls import Kubectl

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run; return 0, or 2 when a step failed."""
    args = _parser().parse_args(argv)
    kubectl = Kubectl(args.kubectl, args.kubeconfig)
    try:
        if args.action == "uninstall":
            steps.uninstall(kubectl, _say)
        else:
            steps.install(kubectl, _wanted(args), _say)
    except InstallError as error:
        _say(str(error))
        return 2
    return 0


def _wanted(args: argparse.Namespace) -> steps.Installation:
    try:
        config = args.set_config.read_text(encoding="utf-8") if args.set_config else None
    except (OSError, UnicodeDecodeError) as error:
        raise InstallError(f"{args.set_config}: cannot be read: {error}") from error
    return steps.Installation(args.image, config, args.replicas)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.installs",
        description="Install Muster on a cluster that has Kubeflow Trainer and JobSet; run again to upgrade.",
    )
    parser.add_argument("action", nargs="?", choices=("install", "uninstall"), default="install")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the cluster; kubectl's own choice by default")
    parser.add_argument("--kubectl", default="kubectl", metavar="PATH", help="the kubectl to use")
    parser.add_argument("--image", metavar="NAME", help="Muster's image, which the nodes have or can pull")
    parser.add_argument("--set-config", type=Path, metavar="FILE", help="a configuration file, docs/configuration.md")
    parser.add_argument("--replicas", type=_positive, metavar="N", help="how many pods serve")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one replica must serve, or no job can be created")
    return number


def _say(line: str) -> None:
    sys.stderr.write(f"muster: {line}\n")


if __name__ == "__main__":
    sys.exit(main())
