"""How TRL's own parsers read command lines: run by a python that has trl.

Reads [[method, argument, ...], ...] on stdin and prints for each {"values", "extras"} or {"error"}. Only values that
the command line gave are told. `--config` must name a file that exists.
"""

from __future__ import annotations

import importlib
import json
import sys
from argparse import Namespace
from typing import Any, NoReturn  # TRL's parsers are only known at run time

NOT_GIVEN = object()


class RefusedError(Exception):
    """argparse would exit with status 2."""


def refuse(message: str) -> NoReturn:
    """A stand-in for ArgumentParser.error."""
    raise RefusedError(message)


def read(parser: Any, args: list[str]) -> dict[str, Any]:
    """What one parser makes of `args`."""

    def known(*, args: list[str], **_options: object) -> tuple[Namespace, list[str]]:
        return parser.parse_known_args(args, Namespace(**dict.fromkeys(dests, NOT_GIVEN)))

    dests = {action.dest for action in parser._actions}
    parser.error = refuse
    parser.parse_args_into_dataclasses = known
    try:
        namespace, extras = parser.parse_args_and_config(args, return_remaining_strings=False)
    except (RefusedError, IndexError) as error:
        return {"error": str(error)}
    given = {name: value for name, value in vars(namespace).items() if value is not NOT_GIVEN}
    return {"values": given, "extras": extras}


def main() -> None:
    """Answer every request."""
    requests = json.load(sys.stdin)
    methods = {method for method, *_ in requests}
    parsers = {method: importlib.import_module(f"trl.scripts.{method}").make_parser() for method in methods}
    json.dump([read(parsers[method], args) for method, *args in requests], sys.stdout, default=str)


if __name__ == "__main__":
    main()
