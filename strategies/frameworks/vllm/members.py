"""Members: what the JSON of a flag of `vllm serve` holds, and which members and words vLLM refuses in it.

`flags.json` has the members of each configuration that the parser makes of JSON (vLLM 0.31 `engine/arg_utils.py`
parse_dataclass), with the words of those that take some alone. An image of one's own may hold a version with others.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import beginning
from muster.strategies.frameworks.vllm import flags, parsing
from muster.strategies.frameworks.vllm.servers import Server
from muster.strategies.launches.guesses import Guesses

__all__ = ["find", "read"]

_NEAR = 0.75
_LONGEST = 64
_SHOWN = 40
_TOLD = 6
"""Unknown members of one flag that are told: each costs half a millisecond, and a text may have thousands."""


def read(server: Server, flag: str) -> Mapping[str, Any] | None:
    """Return the members of a flag of JSON; None where they are not known, as where some are written by themselves."""
    text = server.text(flag)
    if not text or parsing.hidden(text) or flag in server.parsed.dotted:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # the parser has said so
        return None
    return found if isinstance(found, dict) else None


def find(server: Server, *, foreign: bool) -> Iterator[tuple[str, str]]:
    """Yield (flag, message) of each member that vLLM does not know, and of each word that it does not take.

    Args:
        server: the server.
        foreign: whether its image may hold another version of vLLM than the supported one.
    """
    for flag in () if server.open else flags.structured() & server.parsed.values.keys():
        known = flags.known(f"--{flag}").members
        held = read(server, flag) or {}
        for member in itertools.islice((each for each in held if each not in known), _TOLD):
            near = _guesses(flag).closest(member[:_LONGEST])
            hint = f"did you mean {near}?" if near else "remove it"
            if near or not foreign:
                name = beginning(member, _SHOWN)
                yield flag, f"vLLM {flags.version()} would not start: it has no member {name!r} here; {hint}"
        for member, words in known.items() if not foreign else ():
            value = held.get(member)
            if words and isinstance(value, str) and not _is_taken(value, words):
                name = beginning(value, _SHOWN)
                yield flag, f"vLLM would not start: {member} is one of {', '.join(words)}, and not {name!r}"


def _is_taken(value: str, words: tuple[str, ...]) -> bool:
    """Whether a word is one of these, however it is written: some are made lower case before they are compared."""
    return parsing.hidden(value) or value.lower().replace("-", "_") in {
        each.lower().replace("-", "_") for each in words
    }


@functools.cache
def _guesses(flag: str) -> Guesses:
    return Guesses(flags.known(f"--{flag}").members, _NEAR)
