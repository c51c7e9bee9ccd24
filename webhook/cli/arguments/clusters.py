"""Arguments of the commands that look at a cluster, change it or serve it."""

from __future__ import annotations

import argparse
from pathlib import Path

from muster.webhook.cli.arguments import options

__all__ = ["claims", "doctor", "install", "serve", "status", "uninstall", "upgrade"]


def status(add: options.Adder) -> None:
    """Add `muster status`."""
    command = add("status", help="tell what became of a job in a cluster, and why it does not run", allow_abbrev=False)
    command.set_defaults(command="status")
    command.add_argument("job", nargs="?", metavar="JOB", help="name of a TrainJob or JobSet; all jobs by default")
    where = command.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", default="", help="namespace of the job; that of the context by default")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="the jobs of all namespaces")
    command.add_argument("-w", "--watch", action="store_true", help="go on, and show what changes")
    command.add_argument(
        "--every",
        type=options.seconds,
        default=2.0,
        metavar="SECONDS",
        help="pause between looks of --watch; 2 by default",
    )
    command.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 when a job failed, or has another world size than was asked for; with --watch at its end",
    )
    command.add_argument(
        "--audit", action="append", default=[], metavar="FILE", help="audit log with the decisions; may be repeated"
    )
    options.kubeconfig(command)
    options.context(command)
    options.output(command, "text", "json")


def claims(add: options.Adder) -> None:
    """Add `muster claims`."""
    command = add("claims", help="show the devices that profiles offer, who has them and who waits", allow_abbrev=False)
    command.set_defaults(command="claims")
    command.add_argument("-n", "--namespace", default="", help="namespace to show; all by default")
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file of the service, for its profiles"
    )
    options.kubeconfig(command)
    options.output(command, "table", "json")


def doctor(add: options.Adder) -> None:
    """Add `muster doctor`."""
    command = add("doctor", help="check a live installation and say what to do", allow_abbrev=False)
    command.set_defaults(command="doctor")
    options.kubeconfig(command)
    options.context(command)
    command.add_argument(
        "-n", "--namespace", default="muster-system", help="namespace of Muster; muster-system by default"
    )
    command.add_argument(
        "--name", default="muster", help="name of its Deployment, Service and webhooks; muster by default"
    )
    command.add_argument(
        "--probe-namespace",
        default="default",
        metavar="NAME",
        help="namespace for test jobs, which are dry runs; default by default",
    )
    command.add_argument("--dial", metavar="HOST:PORT", help="also check the certificate that is shown there")
    command.add_argument(
        "--timeout",
        type=options.seconds,
        default=10.0,
        metavar="SECONDS",
        help="time-out of each request; 10 by default",
    )
    options.output(command, "text", "json")


def install(add: options.Adder) -> None:
    """Add `muster install`."""
    command = add("install", help="install Muster on a cluster, or upgrade it there", allow_abbrev=False)
    command.set_defaults(command="install")
    _installation(command)


def upgrade(add: options.Adder) -> None:
    """Add `muster upgrade`."""
    command = add("upgrade", help="upgrade Muster on a cluster where it is installed", allow_abbrev=False)
    command.set_defaults(command="upgrade")
    _installation(command)


def uninstall(add: options.Adder) -> None:
    """Add `muster uninstall`."""
    command = add("uninstall", help="remove Muster from a cluster; jobs stay as they are", allow_abbrev=False)
    command.set_defaults(command="uninstall")
    options.kubectl(command)


def serve(add: options.Adder) -> None:
    """Add `muster serve`."""
    command = add("serve", help="run the admission webhook", allow_abbrev=False)
    command.set_defaults(command="serve")
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file; without one the defaults apply"
    )
    command.add_argument("--self-signed", action="store_true", help="make a certificate at start, for trials")


def _installation(command: argparse.ArgumentParser) -> None:
    options.kubectl(command)
    command.add_argument("--image", metavar="NAME", help="image of Muster, which the Kubernetes nodes have or can pull")
    command.add_argument(
        "--set-config", type=Path, metavar="FILE", help="configuration file; by default the one in the cluster is kept"
    )
    command.add_argument(
        "--replicas",
        type=options.replicas,
        metavar="N",
        help="number of pods; by default the number in the cluster is kept",
    )
