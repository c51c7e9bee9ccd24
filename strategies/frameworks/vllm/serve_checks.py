"""Checks of a server's own flags, before a pod with GPUs starts and fails.

What flags need, exclude and bound stands in the rows of `strategies/upstream/vllm`. Here is what concerns the command
line as a whole, and what the generated tables say of each flag: its range, the members of its JSON, its words. A value
that Muster cannot see (`$(NAME)`, a `--config` file) is never checked, nor is a flag that could be in such a file.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping

from muster.strategies.documents.findings import Finding, Severity, error, note, warning
from muster.strategies.frameworks.flag_tables import NEAR
from muster.strategies.frameworks.vllm import serve_arguments, vllm_flags
from muster.strategies.frameworks.vllm.serve_arguments import hidden, shortened
from muster.strategies.frameworks.vllm.serve_view import Circumstances, ServeView
from muster.strategies.frameworks.vllm.vllm_servers import Form, Server
from muster.strategies.launches.guesses import Guesses
from muster.strategies.launches.sites import Site
from muster.strategies.rules import judge, load

__all__ = ["check"]

_GUESSES = 6
"""Unknown words for which a known one is suggested: each costs half a millisecond, and a job may have thousands."""
_TOLD = 100
"""Unknown flags of one command line that are told one by one."""
_LONGEST = 64  # characters of a word that is compared with others, or of a number
_FILES = (".yaml", ".yml")
_DIGITS = str.maketrans("", "", "0123456789")
_ALWAYS = ("gpu-memory-utilization", "max-num-seqs")
"""Flags whose limits hold in every version of vLLM, as those of all parallel sizes do."""
_CALLED = {
    "quantization": "quantization",
    "reasoning-parser": "reasoning parser",
    "tool-call-parser": "parser of tool calls",
}
_PLUGINS = {"reasoning-parser": "reasoning-parser-plugin", "tool-call-parser": "tool-parser-plugin"}


def check(server: Server, site: Site, around: Circumstances) -> Iterator[Finding]:
    """Yield the findings about one server."""
    view = ServeView(server, site, around)
    found = itertools.chain(_of_line(view), *((judge(load("vllm"), view), _of_tables(view)) if not server.open else ()))
    for finding in itertools.chain(found, _unnamed(view)):
        doubtful = not around.alone or (around.own_image and finding.rule == "vllm/arguments")
        lower = doubtful and finding.severity is Severity.ERROR
        yield dataclasses.replace(finding, severity=Severity.WARNING) if lower else finding


# --- the command line -------------------------------------------------------------------------------------------------


def _of_line(view: ServeView) -> Iterator[Finding]:
    if view.server.form is not Form.GRPC:
        yield from _unknown(view)
        for fault in view.server.parsed.faults:
            message = f"vLLM would not start: this argument {fault.reason}"
            yield error(view.token(fault.index), fault.token, message, rule="vllm/arguments")
        yield from _strays(view)
        yield from _file(view)
    authors = view.around.authors
    for name, every in view.server.parsed.given.items():
        own = [given for given in every if authors.owns(given.index)] if authors and authors.mixed else []
        if serve_arguments.differ(own or every):
            values = dict.fromkeys(given.value for given in own or every)
            shown = " and ".join({"": "on", "no": "off"}.get(value, shortened(value)) for value in values)
            message = f"is given several times with different values, and vLLM takes the last of {shown}; keep one"
            yield error(view.field(name), f"--{name}", message, rule="vllm/repeated-flag")


def _unknown(view: ServeView) -> Iterator[Finding]:
    unknown, foreign = view.server.parsed.unknown, view.around.own_image
    for number, (index, token) in enumerate(unknown[:_TOLD]):
        name = token.partition("=")[0].replace("_", "-")
        versions = vllm_flags.elsewhere(name)
        meant, sure = (vllm_flags.closest(name) if number < _GUESSES and not versions else None) or (None, False)
        find = error if not foreign or sure else note if versions else warning
        message = f"is not a flag of vllm serve (vLLM {vllm_flags.version()}); "
        message += f"did you mean {meant}?" if meant else "remove it"
        if versions:
            message = f"is a flag of vLLM {versions[0]} to {versions[-1]}, and vLLM {vllm_flags.version()} lacks it"
        yield find(view.token(index), shortened(token), message, rule="vllm/unknown-flag")
    for index, token in unknown[_TOLD : _TOLD + 1]:
        others = len(unknown) - _TOLD
        message = f"is the first of {others} more words that are not flags of vllm serve; remove them"
        find = warning if foreign else error
        found = find(view.token(index), shortened(token), message, rule="vllm/unknown-flag")
        yield dataclasses.replace(found, stands_for=others)


def _strays(view: ServeView) -> Iterator[Finding]:
    words = view.server.parsed.positionals
    taken = 0 if view.server.form is Form.SERVE and view.server.on("model") else 1
    for index, word in () if any(hidden(word) for _, word in words) else words[taken:]:
        message = "does not belong to a flag, and vllm serve takes one model; remove it, or write its flag before it"
        if word.startswith("-") and " " in word:
            message = "reaches the program as one word; write each flag and each value as a list entry of its own"
        yield error(view.token(index), shortened(word), message, rule="vllm/arguments")


def _file(view: ServeView) -> Iterator[Finding]:
    server, index = view.server, view.server.parsed.config
    if server.on("config") and index is None:
        message = "vLLM reads a file only where --config and its name are two words, and ignores this one; divide it"
        yield warning(view.field("config"), view.shown("config", None), message, rule="vllm/config-file")
    name = server.args[index + 1] if index is not None and index + 1 < len(server.args) else ""
    if name and not hidden(name) and not name.endswith(_FILES):
        message = "vLLM would not start: it reads only files whose names end in .yaml or .yml; rename it"
        yield error(view.token((index or 0) + 1), shortened(name), message, rule="vllm/config-file")


def _unnamed(view: ServeView) -> Iterator[Finding]:
    server, words = view.server, view.server.parsed.positionals
    if server.model is not None or server.open:
        return
    if server.form is Form.MODULE and words:
        message = "is not read by the module, which would serve its default model; write --model before it"
        yield error(view.token(words[0][0]), shortened(words[0][1]), message, rule="vllm/model")
    elif not view.around.initialized:
        message = "the job names no model, so vLLM would serve its default one; write the model as the first argument"
        yield warning(view.args, None, message, rule="vllm/model")


# --- the tables -------------------------------------------------------------------------------------------------------


def _of_tables(view: ServeView) -> Iterator[Finding]:
    foreign = view.around.own_image
    for flag, text in view.server.parsed.values.items():
        found, value = vllm_flags.spec(f"--{flag}"), view.value(flag)
        if found is None:
            continue
        if found.limits and isinstance(value, int | float) and not _holds(value, found.limits):
            wanted = " and ".join(f"{_SAID[kind]} {limit:g}" for kind, limit in found.limits.items())
            find = error if not foreign or flag in _ALWAYS or flag.endswith("parallel-size") else warning
            message = f"vLLM would not start: the value must be {wanted}; correct it"
            yield find(view.field(flag), text, message, rule="vllm/value")
        if found.members and isinstance(value, dict):
            for message in _of_members(flag, value, found.members, foreign=foreign):
                find = warning if foreign else error
                yield find(view.field(flag), f"--{flag}", message, rule="vllm/value")
        plugin = _PLUGINS.get(flag, f"{flag}-plugin")
        if flag in _CALLED and text not in ("", "none", "None") and not hidden(text) and not view.server.on(plugin):
            message = _of_word(view, flag, text)
            if message:
                yield warning(view.field(flag), shortened(text), message, rule="vllm/value")
    for name, kind in vllm_flags.words("env").items():
        value = view.value(f"env.{name}")
        if isinstance(value, str) and not hidden(value) and not _converts(value, kind):
            wanted = f"one of {', '.join(kind)}" if isinstance(kind, list) else _NUMBERS[kind]
            message = f"vLLM would not start: it must be {wanted}; correct it"
            yield warning(view.variable(name), shortened(value), message, rule="vllm/value")


_SAID = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_NUMBERS = {"int": "a whole number (1 or 0 for a switch)", "float": "a number"}


def _holds(number: float, limits: Mapping[str, float]) -> bool:
    above, least = limits.get("gt", -math.inf), limits.get("ge", -math.inf)
    below, most = limits.get("lt", math.inf), limits.get("le", math.inf)
    return math.isnan(number) or (least <= number <= most and (number > above or "gt" not in limits) and number < below)


def _of_members(
    flag: str, held: Mapping[str, object], known: Mapping[str, list[str]], *, foreign: bool
) -> Iterator[str]:
    """Yield what is wrong with the members of a flag's JSON; an image of one's own may hold a version with others."""
    for member in itertools.islice((each for each in held if each not in known), _GUESSES):
        near = _guesses(flag).closest(member[:_LONGEST])
        if near or not foreign:
            hint = f"did you mean {near}?" if near else "remove it"
            yield f"vLLM {vllm_flags.version()} would not start: it has no member {shortened(member)!r} here; {hint}"
    for member, words in known.items() if not foreign else ():
        value = held.get(member)
        # Some words are made lower case before they are compared.
        plain = {each.lower().replace("-", "_") for each in words}
        if words and isinstance(value, str) and not hidden(value) and value.lower().replace("-", "_") not in plain:
            yield f"vLLM would not start: {member} is one of {', '.join(words)}, and not {shortened(value)!r}"


def _of_word(view: ServeView, flag: str, word: str) -> str:
    """Return what is wrong with a word that names nothing of vLLM; a plugin, or another version, may know more."""
    table, called, version = vllm_flags.words(flag), _CALLED[flag], vllm_flags.version()
    versions = table.get(word, ())
    near = _guesses(flag).closest(word[:_LONGEST]) if not versions else None
    if view.around.own_image:
        if versions or near is None or word.translate(_DIGITS) == near.translate(_DIGITS):
            return ""
        return f"is not a {called} of any vLLM that Muster knows, so it would not start; did you mean {near}?"
    deprecated = flag == "quantization" and version in vllm_flags.words("deprecated").get(word, ())
    if version in versions and deprecated and not view.server.on("allow-deprecated-quantization"):
        return "is deprecated, so vLLM would not start; use another one, or add --allow-deprecated-quantization"
    if version in versions:
        return ""
    if versions:
        return f"is a {called} of vLLM {versions[0]} to {versions[-1]}, and vLLM {version} does not have it"
    hint = f"did you mean {near}?" if near else "correct it"
    return f"is not a {called} of vLLM {version}, which would not start without a plugin; {hint}"


def _converts(value: str, kind: list[str] | str) -> bool:
    if isinstance(kind, list):
        return value in kind
    try:
        return len(value) <= _LONGEST and bool([int(value) if kind == "int" else float(value)])
    except ValueError:
        return False


@functools.cache
def _guesses(flag: str) -> Guesses:
    """Return the words of a flag, or the members of its JSON, to guess from."""
    return Guesses(vllm_flags.words(flag) if flag in _CALLED else vllm_flags.known(f"--{flag}").members, NEAR)
