"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.strategies.documents.trainer_versions import Version

__all__ = [
    "Adder",
    "context",
    "count",
    "kubeconfig",
    "kubectl",
    "name",
    "output",
    "paths",
    "replicas",
    "runtimes",
    "seconds",
    "trainer",
]


Adder = Callable[..., argparse.ArgumentParser]
"""What adds one command to the parser: the `add_parser` of its sub-parsers."""


def kubeconfig(command: argparse.ArgumentParser) -> None:
    """Add `--kubeconfig`."""
    command.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the cluster; as kubectl by default"
    )


def context(command: argparse.ArgumentParser) -> None:
    """Add `--context`."""
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig; its current one by default")


def paths(command: argparse.ArgumentParser) -> None:
    """Add the files and folders to read, and `runtimes`."""
    command.add_argument(
        "paths", nargs="*", metavar="PATH", help="file, folder (all *.yaml, *.yml, *.json in it) or - for stdin"
    )
    command.add_argument(
        "-f", "--filename", action="append", default=[], metavar="PATH", help="the same; may be repeated"
    )
    runtimes(command)


def runtimes(command: argparse.ArgumentParser) -> None:
    """Add what stands for the cluster where there is none: runtimes, a namespace, the configuration."""
    command.add_argument(
        "--runtimes",
        action="append",
        default=[],
        metavar="PATH",
        help="runtimes to use instead of those that come with Muster, from `kubectl get -o yaml`; may be repeated",
    )
    command.add_argument(
        "-n", "--namespace", default="default", help="namespace of objects that name none; default by default"
    )
    command.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the service, for its modes")
    command.add_argument(
        "--trainer",
        type=trainer,
        metavar="VERSION",
        help="minor release of the Trainer that the cluster has; by default the configuration's, else the newest",
    )


def output(command: argparse.ArgumentParser, *formats: str) -> None:
    """Add `-o`, whose default is the first format."""
    command.add_argument("-o", "--output", choices=formats, default=formats[0], help=f"format; {formats[0]} by default")


def kubectl(command: argparse.ArgumentParser) -> None:
    """Add the cluster and the program with which the installer changes it."""
    kubeconfig(command)
    command.add_argument("--kubectl", default="kubectl", metavar="PATH", help="program to use; kubectl by default")


def seconds(text: str) -> float:
    """Return a time of at least a tenth of a second and at most ten minutes."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0.1 and 600")
    return seconds


def trainer(text: str) -> Version:
    """Return a version of Trainer; a patch release counts as its minor one."""
    # `muster --version` needs the parser alone.
    from muster.strategies.documents.trainer_versions import VERSIONS  # noqa: PLC0415  # for that reason

    minor = re.sub(r"^v?([0-9]+\.[0-9]+)(\.[0-9]+)?$", r"\1", text)
    if minor not in VERSIONS:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a Trainer that Muster knows: {', '.join(VERSIONS)}")
    return VERSIONS[minor]


def name(text: str) -> str:
    """Return a name that an object of Kubernetes may have in every case."""
    if len(text) > 63 or not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", text):
        told = "use lower-case letters, digits and dashes, at most 63, and begin with a letter"
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a valid name; {told}")
    return text


def count(text: str) -> int:
    """Return a number from 1 to 9999."""
    if not re.fullmatch("[1-9][0-9]{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number from 1 to 9999")
    return int(text)


def replicas(text: str) -> int:
    """Return a number of pods, at least 1: without a pod no job could be created."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pods; give 1 or more")
    return int(text)
