"""Allowances: how much work all texts of one command line may take together.

Each text has bounds of its own, but a text may run another one many times: eight lines that each run a shell with the
next text are thousands of commands. So what is read is paid for from one allowance, whatever stands around it. It grows
with the command line, so that many short ones may not take more than one long one.
"""

from __future__ import annotations

from muster.strategies.launches.cursors import Unreadable

__all__ = ["Allowance"]

MAX_COMMANDS = 1_024
MAX_TEXT = 256 * 1024
MAX_VARIABLES = 128 * 1024


class Allowance:
    """What is left for one command line; what is taken is never given back.

    A real script is parsed once and each of its words is read once, in one or two shells around it.

    Args:
        length: characters of the command line.
    """

    __slots__ = ("_commands", "_text", "_variables")

    def __init__(self, length: int) -> None:
        self._commands = min(MAX_COMMANDS, 64 + length // 8)
        self._text = min(MAX_TEXT, 4_096 + 8 * length)
        self._variables = min(MAX_VARIABLES, 4_096 + 8 * length)

    def command(self) -> None:
        """Pay for one statement.

        Raises:
            Unreadable: nothing is left.
        """
        self._commands -= 1
        if self._commands < 0:
            raise Unreadable("the shell's text runs more commands than Muster reads")

    def text(self, length: int) -> None:
        """Pay for a text, or a word, of so many characters.

        Raises:
            Unreadable: nothing is left.
        """
        self._text -= length
        if self._text < 0:
            raise Unreadable("the shell's texts are together longer than Muster reads")

    def variables(self, count: int) -> None:
        """Pay for a copy of so many variables, which each command and each subshell gets.

        Raises:
            Unreadable: nothing is left.
        """
        self._variables -= count
        if self._variables < 0:
            raise Unreadable("the shell's text gives more variables to its commands than Muster reads")
