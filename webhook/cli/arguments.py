"""Arguments: every command, option and default of `muster`, without imports that take long."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from webhook.cli.problems import UNREADABLE, one_line

__all__ = ["DECISIONS", "STARTERS", "parser"]

DECISIONS = ("patched", "unchanged", "allowed", "denied", "error", "skipped")
"""The decisions of audit records, as in `webhook.audit.records.Decision`."""
STARTERS = ("trl-sft", "trl-dpo", "trl-grpo", "torchtune", "torch", "vllm")
"""What `muster init` writes: the files of `webhook.cli.starters`."""

_Adder = Callable[..., argparse.ArgumentParser]


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line, like every other error of this command; each parser knows `--version`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.add_argument("-v", "--version", action=_Version, nargs=0, help="print the version and exit")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Take paths between and behind options too, which argparse would leave over, and refuse what is left."""
        if self._subparsers is not None and set(sys.argv[1:] if args is None else args) <= {"--"}:
            self._help_instead()
        known, rest = super().parse_known_args(args, namespace)
        if hasattr(known, "paths"):
            known.paths += [each for each in rest if not each.startswith("-") or each == "-"]
            rest = [each for each in rest if each.startswith("-") and each != "-"]
        if rest:
            self.error(f"{rest[0]!r} is not an argument of `{self.prog}`{self._meant(rest[0])}")
        return known, []

    def _help_instead(self) -> NoReturn:
        """Print the help where no command is named.

        The exit code is that of argparse for a missing argument, not 0 as kubectl's: `muster $ARGS` with an empty
        variable has checked nothing, and must not pass in CI.
        """
        self.print_help(sys.stderr)
        sys.exit(UNREADABLE)

    def _meant(self, word: str) -> str:
        return meant(word.partition("=")[0], self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of the choices, and say which one was probably meant."""
        if action.choices is not None and value not in action.choices:
            choices = [str(each) for each in action.choices]
            text = f"{str(value)[:100]!r} is none of {', '.join(choices)}{meant(str(value), choices)}"
            raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> NoReturn:
        print(one_line(f"muster: {message}; see `{self.prog} --help`"), file=sys.stderr)
        sys.exit(UNREADABLE)


class _Version(argparse.Action):
    """Looks the version up only when it is asked for, because reading the package metadata is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata  # noqa: PLC0415  # see above

        try:
            version = metadata.version("muster-admission")
        except metadata.PackageNotFoundError:
            version = "(a checkout that is not installed)"
        print(f"muster {version}")
        parser.exit()


def meant(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean WORD?` with the known word that is most like a word; "" when none is."""
    near = difflib.get_close_matches(word[:100], list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _program() -> str:
    """Return how the command was called; kubectl runs `kubectl muster` as the program `kubectl-muster`."""
    return "kubectl muster" if Path(sys.argv[0]).name.startswith("kubectl-muster") else "muster"


def parser() -> argparse.ArgumentParser:
    """Return the parser; after parsing, `command` names the module of `webhook.cli.commands` that does the work."""
    top = _Parser(
        prog=_program(),
        description="Check and correct Kubeflow TrainJobs and JobSets without a cluster, and operate Muster.",
        epilog="Exit codes: 0 no errors, 1 errors found, 2 something could not be read or done, 3 nothing to check.",
        allow_abbrev=False,
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for add in (_demo, _init, _render, _check, _test, _explain, _rule, _review, _strategies, _claims, _doctor):
        add(commands.add_parser)
    for add in (_install, _upgrade, _uninstall, _serve, _audit, _completion):
        add(commands.add_parser)
    return top


def _demo(add: _Adder) -> None:
    command = add("demo", help="see how and why a job is corrected; needs no file and no cluster", allow_abbrev=False)
    command.set_defaults(command="demo")
    command.add_argument("--job", action="store_true", help="only print the job, to try the other commands with it")


def _init(add: _Adder) -> None:
    command = add("init", help="write a job with comments, to begin with", allow_abbrev=False)
    command.set_defaults(command="init")
    command.add_argument("kind", choices=STARTERS, metavar="KIND", help=f"one of {', '.join(STARTERS)}")
    command.add_argument("--name", type=_name, help="name of the job; its kind by default")
    command.add_argument(
        "--nodes", type=_count, default=1, metavar="N", help="Kubernetes nodes, of vllm the servers; 1 by default"
    )
    command.add_argument("--gpus", type=_count, default=1, metavar="N", help="GPUs on each of them; 1 by default")
    command.add_argument(
        "--volume", type=_name, metavar="CLAIM", help="PersistentVolumeClaim that keeps what the training writes"
    )
    command.add_argument("-w", "--write", type=Path, metavar="FILE", help="file to write; standard output by default")
    command.add_argument("--force", action="store_true", help="replace the file when it exists")


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
    command = add("check", help="find errors in jobs", allow_abbrev=False)
    _inputs(command)
    command.set_defaults(command="check", namespace="")
    command.add_argument(
        "--cluster",
        action="store_true",
        help="check the jobs of a cluster, of one namespace (-n) or of all; with paths, take what they need from there",
    )
    command.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the cluster; as kubectl by default"
    )
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig; its current one by default")
    _output(command, "text", "json", "junit", "sarif", "github")
    command.add_argument("--strict", action="store_true", help="fail on warnings too")
    for option, what in (("select", "report only these rules"), ("ignore", "do not report these rules")):
        command.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar="RULE",
            help=f"{what}: ids such as trl/launch or groups such as trl, with commas between them; may be repeated",
        )
    command.add_argument("--allow-empty", action="store_true", help="succeed when there is nothing to check")


def _test(add: _Adder) -> None:
    command = add("test", help="run cases of your own: a job, and the decision that is expected", allow_abbrev=False)
    command.set_defaults(command="test")
    command.add_argument("paths", nargs="*", metavar="FOLDER", help="folder of a case, or one with cases in it")
    command.add_argument("--update", action="store_true", help="write what was decided where it is not as expected")
    _output(command, "text", "json", "junit")
    command.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour diffs; auto: on a terminal"
    )


def _explain(add: _Adder) -> None:
    command = add("explain", help="explain what is changed in jobs, by which rule and why", allow_abbrev=False)
    command.set_defaults(command="explain")
    _inputs(command)
    _output(command, "table", "json")
    command.add_argument("--full", action="store_true", help="do not shorten values, and show all changes")
    command.add_argument(
        "--jobset",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also explain the JobSet that Trainer would make (predicted)",
    )


def _rule(add: _Adder) -> None:
    command = add("rule", help="list the rules of findings and changes, or explain one", allow_abbrev=False)
    command.set_defaults(command="rule")
    command.add_argument("id", nargs="?", metavar="ID", help="id such as trl/launch, or a group such as trl")
    _output(command, "text", "json")


def _review(add: _Adder) -> None:
    command = add("review", help="answer an AdmissionReview from stdin as the webhook would", allow_abbrev=False)
    command.set_defaults(command="review")
    command.add_argument("--phase", choices=("mutate", "validate"), default="mutate", help="which webhook answers")
    _cluster(command)


def _strategies(add: _Adder) -> None:
    command = add("strategies", help="list the supported frameworks", allow_abbrev=False)
    command.set_defaults(command="strategies")
    _output(command, "table", "json")


def _claims(add: _Adder) -> None:
    command = add("claims", help="show the devices that profiles offer, who has them and who waits", allow_abbrev=False)
    command.set_defaults(command="claims")
    command.add_argument("-n", "--namespace", default="", help="namespace to show; all by default")
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file of the service, for its profiles"
    )
    command.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the cluster; as kubectl by default"
    )
    _output(command, "table", "json")


def _doctor(add: _Adder) -> None:
    command = add("doctor", help="check a live installation and say what to do", allow_abbrev=False)
    command.set_defaults(command="doctor")
    command.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the cluster; as kubectl by default"
    )
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig; its current one by default")
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
        "--timeout", type=_seconds, default=10.0, metavar="SECONDS", help="time-out of each request; 10 by default"
    )
    _output(command, "text", "json")


def _install(add: _Adder) -> None:
    command = add("install", help="install Muster on a cluster, or upgrade it there", allow_abbrev=False)
    command.set_defaults(command="install")
    _installation(command)


def _upgrade(add: _Adder) -> None:
    command = add("upgrade", help="upgrade Muster on a cluster where it is installed", allow_abbrev=False)
    command.set_defaults(command="upgrade")
    _installation(command)


def _uninstall(add: _Adder) -> None:
    command = add("uninstall", help="remove Muster from a cluster; jobs stay as they are", allow_abbrev=False)
    command.set_defaults(command="uninstall")
    _kubectl(command)


def _installation(command: argparse.ArgumentParser) -> None:
    _kubectl(command)
    command.add_argument("--image", metavar="NAME", help="image of Muster, which the Kubernetes nodes have or can pull")
    command.add_argument(
        "--set-config", type=Path, metavar="FILE", help="configuration file; by default the one in the cluster is kept"
    )
    command.add_argument(
        "--replicas", type=_replicas, metavar="N", help="number of pods; by default the number in the cluster is kept"
    )


def _kubectl(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the cluster; as kubectl by default"
    )
    command.add_argument("--kubectl", default="kubectl", metavar="PATH", help="program to use; kubectl by default")


def _serve(add: _Adder) -> None:
    command = add("serve", help="run the admission webhook", allow_abbrev=False)
    command.set_defaults(command="serve")
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file; without one the defaults apply"
    )
    command.add_argument("--self-signed", action="store_true", help="make a certificate at start, for trials")


def _audit(add: _Adder) -> None:
    audit = add("audit", help="list, show, verify or serve the log of decisions", allow_abbrev=False)
    audit.set_defaults(command="audit")
    actions = audit.add_subparsers(title="actions", metavar="ACTION", dest="action")
    listing = actions.add_parser("ls", help="list records, one line each", allow_abbrev=False)
    _output(listing, "text", "json")
    for option, what in [(each, "name") for each in ("job", "namespace", "user", "framework", "rule")]:
        listing.add_argument(f"--{option}", metavar=what.upper(), help=f"only this {option}; * and ? are wildcards")
    listing.add_argument("--decision", choices=DECISIONS, help="only this decision")
    listing.add_argument("--kind", choices=("TrainJob", "JobSet"), help="only jobs of this kind")
    listing.add_argument(
        "--text", metavar="WORDS", help="only records with these words in a reason, a message or a field"
    )
    listing.add_argument("--follow", action="store_true", help="wait for new records, across rotation")
    listing.add_argument(
        "--since", metavar="TIME", help="only at this time or later: 2026-03-01T08:00:00Z, 15m, 2h, 1d"
    )
    listing.add_argument("--until", metavar="TIME", help="only before this time")
    show = actions.add_parser("show", help="show records in full", allow_abbrev=False)
    _output(show, "yaml", "json")
    which = show.add_mutually_exclusive_group(required=True)
    which.add_argument("--uid", help="uid of the admission request")
    which.add_argument("--seq", type=int, metavar="NUMBER", help="number of the record in its log")
    verify = actions.add_parser("verify", help="find lines that were edited, removed or inserted", allow_abbrev=False)
    verify.add_argument("--restarts", action="store_true", help="accept chains that start again (several processes)")
    _anchors(verify)
    serve = actions.add_parser("serve", help="serve read-only web pages about the log", allow_abbrev=False)
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to bind; everyone who can reach it can read the log"
    )
    serve.add_argument("--port", type=int, default=8099, help="TCP port, 8099 by default; 0 chooses a free one")
    for action in (listing, show, verify, serve):
        action.add_argument("file", nargs="+", metavar="FILE", help="log, together with its rotated files; - is stdin")


def _completion(add: _Adder) -> None:
    command = add("completion", help="print a script that completes words in a shell", allow_abbrev=False)
    command.set_defaults(command="completion")
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="shell to complete in")


def _anchors(verify: argparse.ArgumentParser) -> None:
    verify.add_argument(
        "--anchor",
        action="append",
        default=[],
        metavar="SEQ:HASH",
        help="number and hash of a record that must be there, noted earlier; may be repeated",
    )
    verify.add_argument(
        "--anchors", type=Path, metavar="FILE", help="anchors or records, one a line, or Muster's ConfigMap as JSON"
    )
    verify.add_argument(
        "--anchors-from-cluster", action="store_true", help="the anchors that Muster noted in its ConfigMap"
    )
    verify.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the cluster; as kubectl by default"
    )
    verify.add_argument("--context", metavar="NAME", help="context of the kubeconfig; its current one by default")
    verify.add_argument(
        "-n", "--namespace", default="muster-system", help="namespace of Muster; muster-system by default"
    )
    verify.add_argument("--pod", metavar="NAME", help="only the anchors of this pod of Muster")
    verify.add_argument(
        "--copied", metavar="TIME", help="when the log was copied: later anchors of the cluster are not expected"
    )


def _inputs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "paths", nargs="*", metavar="PATH", help="file, folder (all *.yaml, *.yml, *.json in it) or - for stdin"
    )
    command.add_argument(
        "-f", "--filename", action="append", default=[], metavar="PATH", help="the same; may be repeated"
    )
    _cluster(command)


def _cluster(command: argparse.ArgumentParser) -> None:
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


def _seconds(text: str) -> float:
    """Return a time of at least a tenth of a second and at most ten minutes."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0.1 and 600")
    return seconds


def _name(text: str) -> str:
    """Return a name that an object of Kubernetes may have in every case."""
    if len(text) > 63 or not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", text):
        told = "use lower-case letters, digits and dashes, at most 63, and begin with a letter"
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a valid name; {told}")
    return text


def _count(text: str) -> int:
    """Return a number from 1 to 9999."""
    if not re.fullmatch("[1-9][0-9]{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number from 1 to 9999")
    return int(text)


def _replicas(text: str) -> int:
    """Return a number of pods, at least 1: without a pod no job could be created."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pods; give 1 or more")
    return int(text)


def _output(command: argparse.ArgumentParser, *formats: str) -> None:
    command.add_argument("-o", "--output", choices=formats, default=formats[0], help=f"format; {formats[0]} by default")
