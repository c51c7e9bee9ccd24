"""Arguments of the commands that read jobs, and of those about rules and frameworks."""

from __future__ import annotations

import argparse
from pathlib import Path

from muster.webhook.cli.arguments import options

__all__ = ["STARTERS", "check", "demo", "explain", "init", "migrate", "render", "review", "rule", "strategies", "test"]

STARTERS = ("trl-sft", "trl-dpo", "trl-grpo", "torchtune", "torch", "vllm")
"""What `muster init` writes: the files of `muster.webhook.cli.starters`."""


def demo(add: options.Adder) -> None:
    """Add `muster demo`."""
    command = add("demo", help="see how and why a job is corrected; needs no file and no cluster", allow_abbrev=False)
    command.set_defaults(command="demo")
    command.add_argument("--job", action="store_true", help="only print the job, to try the other commands with it")


def init(add: options.Adder) -> None:
    """Add `muster init`."""
    command = add("init", help="write a job with comments, to begin with", allow_abbrev=False)
    command.set_defaults(command="init")
    command.add_argument("kind", choices=STARTERS, metavar="KIND", help=f"one of {', '.join(STARTERS)}")
    command.add_argument("--name", type=options.name, help="name of the job; its kind by default")
    command.add_argument(
        "--nodes",
        type=options.count,
        default=1,
        metavar="N",
        help="Kubernetes nodes, of vllm the servers; 1 by default",
    )
    command.add_argument(
        "--gpus", type=options.count, default=1, metavar="N", help="GPUs on each of them; 1 by default"
    )
    command.add_argument(
        "--volume", type=options.name, metavar="CLAIM", help="PersistentVolumeClaim that keeps what the training writes"
    )
    command.add_argument("-w", "--write", type=Path, metavar="FILE", help="file to write; standard output by default")
    command.add_argument("--force", action="store_true", help="replace the file when it exists")


def render(add: options.Adder) -> None:
    """Add `muster render`."""
    command = add("render", help="show jobs as the cluster would store them", allow_abbrev=False)
    command.set_defaults(command="render")
    options.paths(command)
    options.output(command, "yaml", "diff", "patch", "json")
    command.add_argument("--jobset", action="store_true", help="also predict the JobSet that Trainer would make")
    command.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour diffs; auto: on a terminal"
    )


def migrate(add: options.Adder) -> None:
    """Add `muster migrate`."""
    told = "write jobs of training-operator, mpi-operator and older Trainers for the Trainer of today"
    command = add("migrate", help=told, allow_abbrev=False)
    command.set_defaults(command="migrate")
    options.paths(command)
    options.output(command, "yaml", "diff", "json")
    command.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour diffs; auto: on a terminal"
    )


def check(add: options.Adder) -> None:
    """Add `muster check`."""
    command = add("check", help="find errors in jobs", allow_abbrev=False)
    options.paths(command)
    command.set_defaults(command="check", namespace="")
    command.add_argument(
        "--cluster",
        action="store_true",
        help="check the jobs of a cluster, of one namespace (-n) or of all; with paths, take what they need from there",
    )
    options.kubeconfig(command)
    options.context(command)
    options.output(command, "text", "json", "junit", "sarif", "github")
    command.add_argument(
        "--strict", action="store_true", help="fail on warnings too, and where a document that trains was not judged"
    )
    command.add_argument("--strict-open", action="store_true", help="fail where the explanation of a job ends as open")
    for option, what in (("select", "report only these rules"), ("ignore", "do not report these rules")):
        command.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar="RULE",
            help=f"{what}: ids such as trl/launch or groups such as trl, with commas between them; may be repeated",
        )
    command.add_argument("--allow-empty", action="store_true", help="succeed when there is nothing to check")


def test(add: options.Adder) -> None:
    """Add `muster test`."""
    command = add("test", help="run cases of your own: a job, and the decision that is expected", allow_abbrev=False)
    command.set_defaults(command="test")
    command.add_argument("paths", nargs="*", metavar="FOLDER", help="folder of a case, or one with cases in it")
    command.add_argument("--update", action="store_true", help="write what was decided where it is not as expected")
    options.output(command, "text", "json", "junit")
    command.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour diffs; auto: on a terminal"
    )


def explain(add: options.Adder) -> None:
    """Add `muster explain`."""
    command = add("explain", help="explain what is changed in jobs, by which rule and why", allow_abbrev=False)
    command.set_defaults(command="explain")
    options.paths(command)
    options.output(command, "table", "json")
    command.add_argument("--full", action="store_true", help="do not shorten values, and show all changes")
    command.add_argument(
        "--jobset",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also explain the JobSet that Trainer would make (predicted)",
    )


def rule(add: options.Adder) -> None:
    """Add `muster rule`."""
    command = add("rule", help="list the rules of findings and changes, or explain one", allow_abbrev=False)
    command.set_defaults(command="rule")
    command.add_argument("id", nargs="?", metavar="ID", help="id such as trl/launch, or a group such as trl")
    options.output(command, "text", "json")


def review(add: options.Adder) -> None:
    """Add `muster review`."""
    command = add("review", help="answer an AdmissionReview from stdin as the webhook would", allow_abbrev=False)
    command.set_defaults(command="review")
    command.add_argument("--phase", choices=("mutate", "validate"), default="mutate", help="which webhook answers")
    options.runtimes(command)


def strategies(add: options.Adder) -> None:
    """Add `muster strategies`."""
    command = add("strategies", help="list the supported frameworks, or begin a strategy", allow_abbrev=False)
    command.set_defaults(command="strategies")
    options.output(command, "table", "json")
    actions = command.add_subparsers(title="actions", metavar="ACTION", dest="action")
    command.set_defaults(action="ls")
    listing = actions.add_parser("ls", help="list the strategies and their packages (the default)", allow_abbrev=False)
    listing.add_argument(
        "-o", "--output", choices=("table", "json"), default=argparse.SUPPRESS, help="format; table by default"
    )
    new = actions.add_parser("new", help="write a package with a strategy, tests and a Dockerfile", allow_abbrev=False)
    new.add_argument("framework", type=options.name, metavar="NAME", help="framework, as its runtimes are labelled")
    new.add_argument(
        "--folder", type=Path, metavar="FOLDER", help="folder to make; muster-strategy-NAME here by default"
    )
