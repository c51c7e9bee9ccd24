"""The entry point of `muster`: parse the arguments, import the module of the command, run it.

Every fault of the input ends in one line on stderr. A closed pipe (`muster render ... | head`) and Ctrl-C end quietly,
with the exit codes of a shell.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

from muster.webhook.cli import commandline, problems

__all__ = ["main"]

_THREADED = frozenset({"serve", "audit", "doctor", "status", "claims", "sessions", "install", "upgrade", "uninstall"})
"""Commands with threads or processes of their own: deferred modules are for one thread."""
_COLLECTED = 50_000
"""New objects before Python looks for cycles among them; a start makes half as many, and all of them stay."""


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
        words = sys.argv[1:] if argv is None else argv
        args = commandline.parser(words).parse_args(words)
        if argv is None and args.command not in _THREADED:
            sys.meta_path.insert(0, _Deferring)
            gc.set_threshold(_COLLECTED)
        module = getattr(args, "module", args.command)
        code: int = importlib.import_module(f"muster.webhook.cli.commands.{module}").run(args)
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


class _Deferring:
    """A finder whose modules run when something of them is used, for a job uses a part of the rules only."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        """Return how a module of Muster, or difflib, is loaded, None for any other; packages run at once."""
        if name != "difflib" and not name.startswith("muster."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def _abandon_output() -> None:
    """Drop the buffered output, which would fail again when the interpreter flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
