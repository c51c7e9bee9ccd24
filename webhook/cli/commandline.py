"""The command line: `commandline.json` lists every command, option and default of `muster`, and this makes its parser.

Reports errors in one line, guesses what was meant, takes paths at any place, and knows `--version` everywhere.

In the table an argument is its names and what argparse is given for it. A text alone is the help of a switch; `many`
is an option that may be repeated; `either` and `required` hold options of which at most, or exactly, one is given; a
name with @ stands for shared arguments.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from muster.webhook.cli.problems import UNREADABLE, one_line

if TYPE_CHECKING:
    from muster.strategies.documents.runtimes import Version

__all__ = ["Command", "Table", "meant", "parser", "table", "trainer"]

_Argument: TypeAlias = str | dict[str, Any] | None
_Shared: TypeAlias = Mapping[str, Mapping[str, _Argument]]
_Actions: TypeAlias = "argparse._SubParsersAction[_Parser]"  # noqa: SLF001  # argparse has no other name for it


class Command(msgspec.Struct, frozen=True):
    """A command or an action: its help, its arguments, its actions, and what it sets."""

    help: str
    arguments: dict[str, _Argument] = {}
    actions: dict[str, Command] = {}
    defaults: dict[str, object] = {}


class Table(msgspec.Struct, frozen=True):
    """All commands, and the arguments that several of them share."""

    shared: dict[str, dict[str, _Argument]]
    commands: dict[str, Command]


def table() -> Table:
    """Return the table of all commands."""
    return msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=Table)


def parser(words: Iterable[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser; after parsing, `module`, else `command`, names the module of `commands` that does the work.

    Args:
        words: what will be parsed, so that only the parser of that command is built; by default all of them are.
    """
    top = _Parser(
        # kubectl runs `kubectl muster` as the program `kubectl-muster`.
        prog="kubectl muster" if Path(sys.argv[0]).name.startswith("kubectl-muster") else "muster",
        description="Check and correct Kubeflow TrainJobs and JobSets without a cluster, and operate Muster.",
        epilog="Exit codes: 0 no errors, 1 errors found, 2 something could not be read or done, 3 nothing to check.",
        allow_abbrev=False,
    )
    every = table()
    named = None if words is None else next((each for each in words if not each.startswith("-")), None)
    added = top.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for name in [named] if named is not None and named in every.commands else list(every.commands):
        _add(added, name, every.commands[name], every.shared).set_defaults(command=name)
    return top


def _add(actions: _Actions, name: str, command: Command, shared: _Shared) -> argparse.ArgumentParser:
    made = actions.add_parser(name, help=command.help, allow_abbrev=False, add_help="words" not in command.defaults)
    _fill(made, command.arguments, shared)
    if command.actions:
        inner = made.add_subparsers(title="actions", metavar="ACTION", dest="action")
        for action, each in command.actions.items():
            _add(inner, action, each, shared)
    made.set_defaults(**command.defaults)
    return made


def _fill(made: argparse._ActionsContainer, arguments: Mapping[str, _Argument], shared: _Shared) -> None:
    for names, settings in arguments.items():
        if names.startswith("@"):
            _fill(made, shared[names], shared)
        elif names in ("either", "required"):
            group = made.add_mutually_exclusive_group(required=names == "required")
            _fill(group, msgspec.convert(settings, dict[str, _Argument]), shared)
        elif isinstance(settings, str):
            made.add_argument(*names.split(), action="store_true", help=settings)
        else:
            made.add_argument(*names.split(), **_settings(names, {} if settings is None else dict(settings)))


def _settings(names: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what argparse is given for an argument."""
    if "type" in settings:
        settings["type"] = _TYPES[settings["type"]]
    if settings.pop("many", False):
        settings |= {"action": "append", "default": [], "help": f"{settings['help']}; may be repeated"}
    if settings.get("action") == "boolean":
        settings["action"] = argparse.BooleanOptionalAction
    if settings.get("default") == "suppress":
        settings["default"] = argparse.SUPPRESS
    if names == "-o --output" and "help" not in settings:
        first = settings["choices"][0]
        settings |= {"default": first, "help": f"format; {first} by default"}
    return settings


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line, like every other error of this command; each parser knows `--version`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.add_argument("-v", "--version", action=_Version, nargs=0, help="print the version and exit")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Take paths between and behind options too, which argparse would leave over, and refuse what is left.

        A command whose default has `words` takes all as they are, for another program's parser.
        """
        if args is not None and self.get_default("words") is not None:
            return argparse.Namespace(**{**self._defaults, "words": list(args)}), []
        alone = self._subparsers is None or self.get_default("action") is not None
        if not alone and set(sys.argv[1:] if args is None else args) <= {"--"}:
            self.print_help(sys.stderr)
            # As argparse for a missing argument, not 0 as kubectl: `muster $ARGS` with an empty variable has checked
            # nothing, and must not pass in CI.
            sys.exit(UNREADABLE)
        known, rest = super().parse_known_args(args, namespace)
        if hasattr(known, "paths"):
            known.paths += [each for each in rest if not each.startswith("-") or each == "-"]
            rest = [each for each in rest if each.startswith("-") and each != "-"]
        if rest:
            near = meant(rest[0].partition("=")[0], self._option_string_actions)
            self.error(f"{rest[0]!r} is not an argument of `{self.prog}`{near}")
        return known, []

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a word that is none of the choices, and say which one was probably meant."""
        if action.choices is not None and value not in action.choices:
            choices = [str(each) for each in action.choices]
            text = f"{str(value)[:100]!r} is none of {', '.join(choices)}{meant(str(value), choices)}"
            raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, and how to see more, and end."""
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


def trainer(text: str) -> Version:
    """Return a version of Trainer; a patch release counts as its minor one."""
    from muster.strategies.documents.runtimes import VERSIONS  # noqa: PLC0415  # only `--trainer` needs it

    minor = re.sub(r"^v?([0-9]+\.[0-9]+)(\.[0-9]+)?$", r"\1", text)
    if minor not in VERSIONS:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a Trainer that Muster knows: {', '.join(VERSIONS)}")
    return VERSIONS[minor]


def _claim(text: str) -> str:
    """Return the name of a PersistentVolumeClaim, a DNS subdomain (Kubernetes docs, Persistent Volumes)."""
    labels = (re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", each) for each in text.split("."))
    if len(text) > 253 or not all(labels):
        form = "use lower-case letters, digits, dashes and dots, at most 253, and a letter or a digit around each dot"
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a valid name of a claim; {form}")
    return text


def _label(text: str) -> str:
    """Return a name that an object of Kubernetes may have in every case."""
    if len(text) > 63 or not re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", text):
        form = "use lower-case letters, digits and dashes, at most 63, and begin with a letter"
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a valid name; {form}")
    return text


def _count(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,3}", text):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number from 1 to 9999")
    return int(text)


def _replicas(text: str) -> int:
    """Return a number of pods, at least 1: without a pod no job could be created."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pods; give 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0.1 and 600")
    return seconds


_TYPES: Mapping[str, Callable[[str], object]] = {
    "path": Path,
    "int": int,
    "label": _label,
    "claim": _claim,
    "count": _count,
    "replicas": _replicas,
    "seconds": _seconds,
    "trainer": trainer,
}
