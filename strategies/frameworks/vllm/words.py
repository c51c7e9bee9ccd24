"""Words: which quantizations, parsers and values of env vLLM knows, and which of its versions.

tests/contract/vllm/words.py prints `words.json` from the sources of vLLM 0.8.5 to 0.32. A plugin may add words, so that
an unknown one is a warning.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, cast

from muster.strategies.frameworks.vllm import flags, parsing
from muster.strategies.frameworks.vllm.servers import Server
from muster.strategies.launches.guesses import Guesses

__all__ = ["find", "find_env"]

_CALLED = {
    "quantization": "quantization",
    "reasoning-parser": "reasoning parser",
    "tool-call-parser": "parser of tool calls",
}
_PLUGINS = {"reasoning-parser": "reasoning-parser-plugin", "tool-call-parser": "tool-parser-plugin"}
_LOAD_FORMATS = frozenset(
    {"auto", "hf", "dummy", "fastsafetensors", "instanttensor", "ipc_cache", "mistral", "modelexpress", "npcache"}
    | {"pt", "runai_streamer", "runai_streamer_sharded", "safetensors", "sharded_state", "tensorizer"}
    | {"bitsandbytes", "gguf"}  # of earlier versions
)
"""Of vLLM 0.19 to 0.31 (`model_executor/model_loader/__init__.py`)."""
_OF_PATHS = re.compile(r"[./{}\n]")
_LONGEST = 64
_NEAR = 0.75
_NONE = frozenset({"", "none", "None"})
_DIGITS = str.maketrans("", "", "0123456789")


def find(server: Server, *, foreign: bool) -> Iterator[tuple[str, str]]:
    """Yield (flag, message) of each word that names nothing of vLLM.

    Args:
        server: the server.
        foreign: whether its image may hold another version of vLLM than the supported one.
    """
    if server.open:
        return
    for flag in _CALLED.keys() & server.parsed.values.keys():
        word = server.text(flag) or ""
        if word not in _NONE and not parsing.hidden(word) and not server.on(_PLUGINS.get(flag, flag + "-plugin")):
            message = _foreign(flag, word) if foreign else _supported(server, flag, word)
            if message:
                yield flag, message
    yield from _files(server)


def _supported(server: Server, flag: str, word: str) -> str:
    versions, called = _table()[flag].get(word, ()), _CALLED[flag]
    if flags.version() in versions:
        deprecated = flag == "quantization" and flags.version() in _table()["deprecated"].get(word, ())
        if deprecated and not server.on("allow-deprecated-quantization"):
            return "is deprecated, so vLLM would not start; use another one, or add --allow-deprecated-quantization"
        return ""
    if versions:
        return f"is a {called} of vLLM {versions[0]} to {versions[-1]}, and vLLM {flags.version()} does not have it"
    meant = _guesses(flag).closest(word[:_LONGEST])
    hint = f"did you mean {meant}?" if meant else "correct it"
    return f"is not a {called} of vLLM {flags.version()}, which would not start without a plugin; {hint}"


def _foreign(flag: str, word: str) -> str:
    """Judge a word for any version: a later one may know more, whose names differ by their numbers from the known."""
    if word in _table()[flag]:
        return ""
    meant = _guesses(flag).closest(word[:_LONGEST])
    if meant is None or word.translate(_DIGITS) == meant.translate(_DIGITS):
        return ""
    return f"is not a {_CALLED[flag]} of any vLLM that Muster knows, so it would not start; did you mean {meant}?"


def _files(server: Server) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a load format, and with a chat template, which is a path or the template itself."""
    text = server.text("load-format") or ""
    if text and text not in _LOAD_FORMATS and not parsing.hidden(text):
        message = "is not a load format of vLLM, which would not start without a plugin for it; use safetensors or auto"
        yield "load-format", message
    text = server.text("chat-template") or ""
    if text and not parsing.hidden(text) and not _OF_PATHS.search(text):
        message = "is neither a template nor the path of one, so vLLM would not start; write the path of a .jinja file"
        yield "chat-template", message
    if _WITH_PORT.fullmatch(server.text("host") or ""):
        yield "host", "holds a port, which is not a part of an address, so vLLM would not start; write it into --port"


_WITH_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,80}:\d{1,5}")


def find_env(server: Server) -> Iterator[tuple[str, str, str]]:
    """Yield (variable, its value, message) of what no version of vLLM that has the variable can convert."""
    known = _table()["env"]
    for name in known.keys() & server.env.keys():
        value, kind = server.env[name], known[name]
        if value is None or parsing.hidden(value):
            continue
        if isinstance(kind, list):
            if value not in kind:
                yield name, value, f"vLLM would not start: it is one of {', '.join(kind)}; correct it"
        elif not _converts(value, kind):
            what = "a whole number (1 or 0 for a switch)" if kind == "int" else "a number"
            yield name, value, f"vLLM converts it to {what}, and ends where it cannot; correct it"


def _converts(value: str, kind: str) -> bool:
    if len(value) > _LONGEST:  # no number that vLLM has a use for
        return False
    try:
        int(value) if kind == "int" else float(value)
    except ValueError:
        return False
    return True


@functools.cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    text = resources.files(__package__).joinpath("words.json").read_text(encoding="utf-8")
    return cast("Mapping[str, Mapping[str, Any]]", json.loads(text))


@functools.cache
def _guesses(flag: str) -> Guesses:
    return Guesses(_table()[flag], _NEAR)
