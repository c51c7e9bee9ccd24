"""The entry point of `muster`: parse, import the one module that is needed, run it, end with an exit code.

Whatever goes wrong with the input ends in one line on stderr. A closed pipe (`muster render ... | head`) and Ctrl-C end
quietly, with the codes that a shell would give.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from webhook.cli import arguments, problems

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: without the program's name; `sys.argv` by default.

    Returns:
        The exit code: 0 clean, 1 errors were found, 2 something could not be read, 130 interrupted, 141 pipe closed.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        args = arguments.parser().parse_args(argv)
        code: int = importlib.import_module(f"webhook.cli.commands.{args.command}").run(args)
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
    """Drop what is still buffered: it would fail again when the interpreter flushes it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
