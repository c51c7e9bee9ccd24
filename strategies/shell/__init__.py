"""Shells: what a shell's text runs, found without running it.

`run` walks a text and returns its commands, each with its words, its env and how certain it is, and a clause that says
what was not understood. `invoked` reads how a shell is called, and `parse` gives the tree of a text. The parser is our
own (docs/internals/decisions/0019); tests compare it with bash.

What only the pod knows stays in words as a shell, or Kubernetes, writes it: `$(NAME)`, `${NAME:-2}`, `$(hostname -i)`.
"""

from __future__ import annotations

from muster.strategies.shell.grammar import parse
from muster.strategies.shell.interpreter import run
from muster.strategies.shell.shell_builtins import PROGRAMS, Invocation, invoked, printed
from muster.strategies.shell.shell_commands import BEHIND, Choice, Command, Loss
from muster.strategies.shell.trees import plain_words
from muster.strategies.shell.word_expansion import MAX_TEXT, Allowance, Loose, Scope, calculated
from muster.strategies.shell.word_parser import Unreadable

__all__ = [
    "BEHIND",
    "MAX_TEXT",
    "PROGRAMS",
    "Allowance",
    "Choice",
    "Command",
    "Invocation",
    "Loose",
    "Loss",
    "Scope",
    "Unreadable",
    "calculated",
    "invoked",
    "parse",
    "plain_words",
    "printed",
    "run",
]
