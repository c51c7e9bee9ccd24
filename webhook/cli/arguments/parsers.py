"""The parser of arguments: errors in one line, `did you mean`, paths at any place, `--version` everywhere."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from muster.webhook.cli.problems import UNREADABLE, one_line

__all__ = ["Parser", "meant"]


class Parser(argparse.ArgumentParser):
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
