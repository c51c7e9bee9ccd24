"""The entry point of `muster`: parse the arguments, import the module of the command, run it.

Every fault of the input ends in one line on stderr. A closed pipe (`muster render ... | head`) and Ctrl-C end quietly,
with the exit codes of a shell.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from muster.webhook.cli import arguments, problems

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: arguments without the program name; `sys.argv` by default.

    Returns:
        The exit code: 0 no errors, 1 errors were found, 2 something could not be read, 130 interrupted, 141 pipe
            closed.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        args = arguments.parser().parse_args(argv)
        code: int = importlib.import_module(f"muster.webhook.cli.commands.{args.command}").run(args)
        sys.stdout.flush()
    except problems.CommandError as error:
        problems.say(str(error))
        return problems.UNREADABLE
    except KeyboardInterrupt:
        return problems.INTERRUPTED
    except BrokenPipeError:
        _abandon_output()
        return problems.PIPE_CLOSED
    except OSError as error:
        _abandon_output()
        problems.say(str(error))
        return problems.UNREADABLE
    return code


def _abandon_output() -> None:
    """Drop the buffered output, which would fail again when the interpreter flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
