"""Arguments: every command, option and default of `muster`, and nothing that takes long to import."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from webhook.cli.problems import UNREADABLE, one_line

__all__ = ["DECISIONS", "parser"]

DECISIONS = ("patched", "unchanged", "allowed", "denied", "error", "skipped")
"""What a record may say; as `webhook.audit.records.Decision`."""

_Adder = Callable[..., argparse.ArgumentParser]


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other error of this command."""

    def error(self, message: str) -> NoReturn:
        print(one_line(f"muster: {message}; see `{self.prog} --help`"), file=sys.stderr)
        sys.exit(UNREADABLE)


class _Version(argparse.Action):
    """Looks the version up only when it is asked for: the package metadata take longer to read than all the rest."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata  # noqa: PLC0415  # see above

        try:
            version = metadata.version("muster")
        except metadata.PackageNotFoundError:
            version = "of a checkout that is not installed"
        print(f"muster {version}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Return the parser; after parsing, `command` names the module of `webhook.cli.commands` that does the work."""
    top = _Parser(
        prog="muster",
        description="Make Kubeflow TrainJobs and JobSets train on every GPU they paid for; here, without a cluster.",
        epilog="Exit codes: 0 clean, 1 errors were found, 2 something could not be read or done.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and end")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    for add in (_demo, _render, _check, _explain, _review, _strategies, _claims, _doctor):
        add(commands.add_parser)
    for add in (_install, _upgrade, _uninstall, _serve, _audit):
        add(commands.add_parser)
    return top


def _demo(add: _Adder) -> None:
    command = add("demo", help="see a job being mended, and why; needs no file and no cluster", allow_abbrev=False)
    command.set_defaults(command="demo")


def _render(add: _Adder) -> None:
    command = add("render", help="show jobs as the cluster would store them", allow_abbrev=False)
    command.set_defaults(command="render")
    _inputs(command)
    _output(command, "yaml", "diff", "patch", "json")
    command.add_argument("--jobset", action="store_true", help="also predict the JobSet that Trainer would make")
    command.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour diffs; auto: on a terminal"
    )


def _check(add: _Adder) -> None:
    command = add("check", help="find what is wrong with jobs", allow_abbrev=False)
    command.set_defaults(command="check")
    _inputs(command)
    _output(command, "text", "json", "junit")


def _explain(add: _Adder) -> None:
    command = add("explain", help="say what is changed in jobs, by which rule and why", allow_abbrev=False)
    command.set_defaults(command="explain")
    _inputs(command)
    _output(command, "table", "json")
    command.add_argument("--full", action="store_true", help="cut no value, leave out no change")
    command.add_argument(
        "--jobset",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also explain the JobSet that Trainer would make (predicted)",
    )


def _review(add: _Adder) -> None:
    command = add("review", help="answer an AdmissionReview from stdin as the webhook would", allow_abbrev=False)
    command.set_defaults(command="review")
    command.add_argument("--phase", choices=("mutate", "validate"), default="mutate", help="which webhook answers")
    _cluster(command)


def _strategies(add: _Adder) -> None:
    command = add("strategies", help="list the frameworks that are known", allow_abbrev=False)
    command.set_defaults(command="strategies")
    _output(command, "table", "json")


def _claims(add: _Adder) -> None:
    command = add("claims", help="show devices that profiles offer, who has them and who waits", allow_abbrev=False)
    command.set_defaults(command="claims")
    command.add_argument("-n", "--namespace", default="", help="show this one; all by default")
    command.add_argument("--config", type=Path, metavar="FILE", help="configuration of the service, for its profiles")
    command.add_argument("--kubeconfig", type=Path, metavar="FILE", help="of the cluster; as kubectl by default")
    _output(command, "table", "json")


def _doctor(add: _Adder) -> None:
    command = add("doctor", help="find what is wrong with a live installation, and what to do", allow_abbrev=False)
    command.set_defaults(command="doctor")
    command.add_argument("--kubeconfig", type=Path, metavar="FILE", help="of the cluster; as kubectl by default")
    command.add_argument("--context", metavar="NAME", help="of the kubeconfig; its current one by default")
    command.add_argument("-n", "--namespace", default="muster-system", help="of Muster; muster-system by default")
    command.add_argument("--name", default="muster", help="of its Deployment, Service and webhooks; muster by default")
    command.add_argument(
        "--probe-namespace", default="default", metavar="NAME", help="jobs are tried out here, by dry run; default"
    )
    command.add_argument("--dial", metavar="HOST:PORT", help="look also at the certificate that is shown there")
    command.add_argument("--timeout", type=_seconds, default=10.0, metavar="SECONDS", help="for each request; 10")
    _output(command, "text", "json")


def _install(add: _Adder) -> None:
    command = add("install", help="install Muster on a cluster, or upgrade it there", allow_abbrev=False)
    command.set_defaults(command="install")
    _installation(command)


def _upgrade(add: _Adder) -> None:
    command = add("upgrade", help="upgrade Muster on a cluster that has it", allow_abbrev=False)
    command.set_defaults(command="upgrade")
    _installation(command)


def _uninstall(add: _Adder) -> None:
    command = add("uninstall", help="remove Muster from a cluster; jobs stay as they are", allow_abbrev=False)
    command.set_defaults(command="uninstall")
    _kubectl(command)


def _installation(command: argparse.ArgumentParser) -> None:
    _kubectl(command)
    command.add_argument("--image", metavar="NAME", help="Muster's image, which the nodes have or can pull")
    command.add_argument("--set-config", type=Path, metavar="FILE", help="configuration; the cluster's own by default")
    command.add_argument("--replicas", type=_replicas, metavar="N", help="how many pods serve; as before by default")


def _kubectl(command: argparse.ArgumentParser) -> None:
    command.add_argument("--kubeconfig", type=Path, metavar="FILE", help="of the cluster; as kubectl by default")
    command.add_argument("--kubectl", default="kubectl", metavar="PATH", help="the kubectl to use")


def _serve(add: _Adder) -> None:
    command = add("serve", help="run the admission webhook", allow_abbrev=False)
    command.set_defaults(command="serve")
    command.add_argument("--config", type=Path, metavar="FILE", help="configuration; defaults without one")
    command.add_argument("--self-signed", action="store_true", help="make a certificate, for trying out")


def _audit(add: _Adder) -> None:
    audit = add("audit", help="list, show, verify or serve the log of decisions", allow_abbrev=False)
    audit.set_defaults(command="audit")
    actions = audit.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    listing = actions.add_parser("ls", help="one line for each record", allow_abbrev=False)
    _output(listing, "text", "json")
    for option, what in [(each, "name") for each in ("job", "namespace", "user", "framework", "rule")]:
        listing.add_argument(f"--{option}", metavar=what.upper(), help=f"of this {option}; * and ? are wildcards")
    listing.add_argument("--decision", choices=DECISIONS, help="that ended so")
    listing.add_argument("--kind", choices=("TrainJob", "JobSet"), help="about this kind")
    listing.add_argument("--text", metavar="WORDS", help="with these words in a reason, a message or a field")
    listing.add_argument("--follow", action="store_true", help="go on with what is written, across rotation")
    listing.add_argument("--since", metavar="TIME", help="at this time or later: 2026-03-01T08:00:00Z, 15m, 2h, 1d")
    listing.add_argument("--until", metavar="TIME", help="before this time")
    show = actions.add_parser("show", help="records in full", allow_abbrev=False)
    _output(show, "yaml", "json")
    which = show.add_mutually_exclusive_group(required=True)
    which.add_argument("--uid", help="of the admission request")
    which.add_argument("--seq", type=int, metavar="NUMBER", help="of the record in its log")
    verify = actions.add_parser("verify", help="find lines that were edited, removed or inserted", allow_abbrev=False)
    verify.add_argument("--restarts", action="store_true", help="accept chains that start anew (several processes)")
    serve = actions.add_parser("serve", help="web pages about the log, read-only", allow_abbrev=False)
    serve.add_argument("--host", default="127.0.0.1", help="address to bind; whoever reaches it reads the log")
    serve.add_argument("--port", type=int, default=8099, help="TCP port, 8099 by default; 0 takes a free one")
    for action in (listing, show, verify, serve):
        action.add_argument("file", nargs="+", metavar="FILE", help="a log, with its rotated files; - is stdin")


def _inputs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="FILE",
        help="file, folder (all *.yaml, *.yml, *.json in it) or - for stdin; may be repeated",
    )
    _cluster(command)


def _cluster(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--runtimes",
        action="append",
        default=[],
        metavar="PATH",
        help="runtimes to use instead of those that come with Muster; may be repeated",
    )
    command.add_argument("-n", "--namespace", default="default", help="of objects that name none")
    command.add_argument("--config", type=Path, metavar="FILE", help="configuration of the service, for its modes")


def _seconds(text: str) -> float:
    """Return a time of at least a tenth of a second and at most ten minutes."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds between 0.1 and 600")
    return seconds


def _replicas(text: str) -> int:
    """Return a number of pods, of which one at least must serve, or no job could be created."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of pods; at least one must serve")
    return int(text)


def _output(command: argparse.ArgumentParser, *formats: str) -> None:
    command.add_argument("-o", "--output", choices=formats, default=formats[0], help=f"format; {formats[0]} by default")
