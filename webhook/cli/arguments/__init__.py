"""Arguments: every command, option and default of `muster`, without imports that take long."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from muster.webhook.cli.arguments import clusters, jobs, logs, options
from muster.webhook.cli.arguments.jobs import STARTERS
from muster.webhook.cli.arguments.logs import DECISIONS
from muster.webhook.cli.arguments.parsers import Parser, meant

__all__ = ["DECISIONS", "STARTERS", "meant", "parser"]


def parser() -> argparse.ArgumentParser:
    """Return the parser; after parsing, `command` names the module of `commands` that does the work."""
    top = Parser(
        prog=_program(),
        description="Check and correct Kubeflow TrainJobs and JobSets without a cluster, and operate Muster.",
        epilog="Exit codes: 0 no errors, 1 errors found, 2 something could not be read or done, 3 nothing to check.",
        allow_abbrev=False,
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for add in (jobs.demo, jobs.init, jobs.render, jobs.check, jobs.test, jobs.explain, jobs.rule, jobs.review):
        add(commands.add_parser)
    for add in (jobs.migrate, jobs.strategies, clusters.status, clusters.claims, clusters.doctor, clusters.install):
        add(commands.add_parser)
    for add in (clusters.upgrade, clusters.uninstall, clusters.serve, logs.audit, _sessions, _completion):
        add(commands.add_parser)
    return top


def _program() -> str:
    """Return how the command was called; kubectl runs `kubectl muster` as the program `kubectl-muster`."""
    return "kubectl muster" if Path(sys.argv[0]).name.startswith("kubectl-muster") else "muster"


def _sessions(add: options.Adder) -> None:
    told = "serve the Tinker API for RL sessions, and see and end them"
    command = add("sessions", help=told, allow_abbrev=False, add_help=False)
    command.set_defaults(command="sessions", words=())


def _completion(add: options.Adder) -> None:
    command = add("completion", help="print a script that completes words in a shell", allow_abbrev=False)
    command.set_defaults(command="completion")
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell to complete in")
