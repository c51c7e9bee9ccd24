"""How vLLM's own parser reads command lines: run by a python that has vllm.

Reads {"serve": [[argument, ...], ...], "module": [...]} on stdin and prints for each the values that it gave, by name,
or {"error"}. A `--config` with a file must not be among the arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import sys
from typing import Any, NoReturn  # vLLM's parser is only known at run time

NOT_GIVEN = object()


class RefusedError(Exception):
    """argparse would exit with status 2."""


def refuse(_parser: object, message: str) -> NoReturn:
    """A stand-in for ArgumentParser.error."""
    raise RefusedError(message)


def read(parser: Any, words: list[str]) -> dict[str, Any]:
    """What a parser makes of its words."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            found = vars(parser.parse_args(words))
    except (RefusedError, IndexError, ValueError, TypeError) as error:
        return {"error": str(error)}
    return {name: value for name, value in found.items() if value is not NOT_GIVEN}


def main() -> None:
    """Answer every request."""
    requests = json.load(sys.stdin)
    arguments = importlib.import_module("vllm.entrypoints.launchers.cli_args")
    flexible = arguments.FlexibleArgumentParser
    flexible.error = refuse
    module = arguments.make_arg_parser(flexible())
    top = flexible()
    serve = arguments.make_arg_parser(top.add_subparsers(dest="subparser").add_parser("serve"))
    for parser in (module, serve):
        for action in parser._actions:
            if action.default is not argparse.SUPPRESS and action.dest not in {"middleware", "model_tag"}:
                action.default = NOT_GIVEN
    answers = {
        "serve": [read(top, ["serve", *words]) for words in requests["serve"]],
        "module": [read(module, words) for words in requests["module"]],
    }
    json.dump(answers, sys.stdout, default=str)


if __name__ == "__main__":
    main()
