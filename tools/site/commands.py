"""The page docs/reference/commands.md: every command and option of `muster`, from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from muster.sessions.cli import main as sessions
from muster.webhook.cli import commandline
from tools.site import tables

__all__ = ["EVERYWHERE", "Command", "commands", "page"]

_INTRODUCTION = """\
# Commands and options

Every command of `muster`, as `muster COMMAND --help` lists them. The rules that all commands share, exit codes and
output for programs are in [check](../check.md). Each command also knows `-h`, `--help`, `-v` and `--version`;
those of `muster sessions`, which an extra of the package brings ([sessions](../sessions.md)), know the first two.

This page is written by `make reference` from the parsers (`webhook/cli/commandline.json`, `sessions/cli`).
"""
_Leading = argparse._SubParsersAction  # noqa: SLF001  # the class has no public name
_ELSEWHERE = {"muster sessions": sessions.parser}
"""Parsers of commands that are programs of their own."""
EVERYWHERE = ("-h", "--help", "-v", "--version")
"""Options that each command has."""


@dataclass(frozen=True)
class Command:
    """A command that does something, and not only leads to others.

    Attributes:
        words: how it is called, `muster audit ls`.
        summary: what it does, in a line.
        parser: its parser.
    """

    words: str
    summary: str
    parser: argparse.ArgumentParser

    @property
    def actions(self) -> list[argparse.Action]:
        """Its options and arguments, without those of every command."""
        own = self.parser._actions  # noqa: SLF001  # argparse has no other way to list them
        return [
            each for each in own if not set(each.option_strings) & set(EVERYWHERE) and not isinstance(each, _Leading)
        ]


def commands(parser: argparse.ArgumentParser | None = None, summary: str = "") -> Iterator[Command]:
    """Yield each command in the order of the help."""
    parser = parser or commandline.parser()
    below = [each for each in parser._actions if isinstance(each, _Leading)]  # noqa: SLF001  # as above
    if all(parser.get_default(each.dest) for each in below):
        yield Command(parser.prog, summary, parser)
    for action in below:
        told = {each.dest: each.help or "" for each in action._choices_actions}  # noqa: SLF001  # as above
        for name, inner in action.choices.items():
            yield from commands(_ELSEWHERE.get(inner.prog, lambda own=inner: own)(), told.get(name, ""))


def page() -> str:
    """Return the page, as Markdown."""
    return _INTRODUCTION + "".join(_section(each) for each in commands())


def _section(command: Command) -> str:
    named = [each for each in command.actions if each.option_strings]
    placed = [each for each in command.actions if not each.option_strings]
    synopsis = " ".join([command.words, *map(_placed, placed), *(["[OPTIONS]"] if named else [])])
    text = f"\n## {command.words}\n\n{_sentence(command.summary)}\n\n```text\n{synopsis}\n```\n"
    rows = [(f"`{_called(each)}`", _told(command, each)) for each in (*placed, *named)]
    return text + (f"\n{tables.table(('argument', 'what it means'), rows)}" if rows else "")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _placed(action: argparse.Action) -> str:
    name = _value(action)
    return {"*": f"[{name} ...]", "+": f"{name} [...]", "?": f"[{name}]"}.get(str(action.nargs), name)


def _called(action: argparse.Action) -> str:
    if not action.option_strings:
        return _value(action)
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"{each}{value}" for each in action.option_strings)


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def _told(command: Command, action: argparse.Action) -> str:
    told = (action.help or "") % {**vars(action), "prog": command.parser.prog}
    return f"{told}; required" if action.required and action.option_strings else told


if __name__ == "__main__":
    print(page(), end="")
