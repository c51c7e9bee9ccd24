"""Serve arguments: a command line is read as the supported vLLM reads it.

vLLM's parser is argparse with four habits of its own (vLLM `vllm/utils/argparse_utils.py`): `_` may stand for `-`
in a long flag, `--config FILE` is taken out first, `--a.b value` is JSON for `--a` and comes last, and `vllm serve
--model M` means `vllm serve M`. A contract test reads the same command lines with vLLM's parser. Kubernetes expands
`$(NAME)` after admission and a shell its own variables, so a value with one is never checked.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from muster.strategies.documents.findings import beginning
from muster.strategies.frameworks.flag_tables import Fault, FlagSpec, Nargs
from muster.strategies.frameworks.vllm import vllm_flags
from muster.strategies.rules import Value

__all__ = ["Given", "Parsed", "convert", "count", "differ", "hidden", "parse", "shortened"]

_NEGATIVE = r"-\d+$|-\d*\.\d+$"
_COUNT = r"\d+(?:\.\d+)?[kmgt]|\d+[KMGT]"
_SWITCHES = ("--enable-", "--disable-", "--enforce-", "--no-", "--trust-", "--use-", "--async-", "--skip-")


_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_SUFFIXED = r"\b(\d{1,9})(?:\.\d{1,9})?[kmgtKMGT]\b"
_LONGEST_JSON = 4_096  # characters of JSON with numbers like 80m; a longer text with some is not judged
_DIGITS = 15
_SHOWN = 40


def count(raw: str) -> int | None:
    """Return the number that a flag of kind `count` means, `16k` included; None where it is none, or very long."""
    text = raw.strip()
    if len(text) > _DIGITS:
        return None
    if text.isdecimal():
        return int(text)
    if not re.fullmatch(_COUNT, text):
        return None
    base = 1000 if text[-1].islower() else 1024
    return int(float(text[:-1]) * base ** _POWERS[text[-1].lower()])


def convert(kind: str, raw: str) -> Value:
    """Return a value as vLLM's parser converts it; a text where JSON has numbers like 80m, or is very long.

    Raises:
        ValueError: the parser refuses it.
    """
    kind, _, special = kind.partition("|")
    if special == "none" and raw in {"", "None"}:
        return None
    if kind == "int":
        return int(raw)
    if kind == "float":
        return float(raw)
    if kind == "count":
        known = count(raw)
        return raw if special == "auto" and raw.lower() == "auto" else int(raw) if known is None else known
    return _json(raw, kind) if kind in _WANTED else raw


def _json(raw: str, kind: str) -> Value:
    """Read JSON; of kind `object` where braces hold it, anything else is a word (`arg_utils.py` union_dict_and_str)."""
    text = raw.strip()
    if kind == "object" and not (text.startswith("{") and text.endswith("}") and len(text) <= _LONGEST_JSON):
        return raw
    try:
        found: Value = json.loads(raw)
    except RecursionError as deep:
        raise ValueError(raw) from deep
    except ValueError:
        if len(raw) > _LONGEST_JSON:
            return raw
        if kind == "object" or not re.search(_SUFFIXED, raw):
            raise
        json.loads(re.sub(_SUFFIXED, r"\1", raw))
        return raw
    return found


_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "count": "a whole number",
    "json": 'JSON, such as {"image": 4}',
    "object": "JSON, though it has braces",
}


class Given(Struct, frozen=True):
    """One place where a flag is given.

    Attributes:
        name: its name.
        index: place of the flag in the arguments.
        end: place behind its last value.
        value: its values, joined by spaces; "" for a switch, and `no` for its `no-` form.
    """

    name: str
    index: int
    end: int
    value: str


class Parsed(Struct):
    """A command line of vLLM's server. An index always counts in the arguments as they were given.

    Attributes:
        values: values by name; "" for a switch, the last one wins. A list of values is joined by spaces.
        off: switches whose last word is their `no-` form; `values` does not have them.
        places: index of the flag that gave each of `values` or `off`.
        given: all places of each flag, in order; a member of JSON is none.
        dotted: flags of which a member is written by itself: `-cc.mode 3`.
        unknown: flags that vLLM does not have.
        positionals: words without a flag; the first is the model of `vllm serve`.
        opaque: words that may still become flags: `$(EXTRA)`.
        faults: words that argparse refuses.
        config: index of `--config FILE`, whose values cannot be seen; None without one.
    """

    values: dict[str, str] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)
    places: dict[str, int] = field(default_factory=dict)
    given: dict[str, list[Given]] = field(default_factory=dict)
    dotted: set[str] = field(default_factory=set)
    unknown: list[tuple[int, str]] = field(default_factory=list)
    positionals: list[tuple[int, str]] = field(default_factory=list)
    opaque: list[tuple[int, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    config: int | None = None


def hidden(text: str) -> bool:
    """Whether a word holds a variable, so that admission cannot know it."""
    return "$" in text or "`" in text


def shortened(text: str) -> str:
    """Return a word as a message shows it."""
    return beginning(text, _SHOWN)


def parse(args: Sequence[str]) -> Parsed:
    """Read the words behind `vllm serve` or the server's module as vLLM's parser does."""
    return _latest(tuple(args))


def _parse(args: tuple[str, ...]) -> Parsed:
    reader = _Reader(args)
    reader.read()
    return reader.parsed


_latest = functools.lru_cache(maxsize=2)(_parse)  # parts often have the same words; nobody may change the result


class _Reader:
    """One pass over the arguments."""

    __slots__ = ("args", "parsed")

    def __init__(self, args: Sequence[str]) -> None:
        self.args = args
        self.parsed = Parsed()

    def read(self) -> None:
        index = 0
        while index < len(self.args):
            word = self.args[index]
            if word == "--":
                break
            if word == "--config" and self.parsed.config is None:
                index = self._take_file(index)
            elif not self._is_flag(word):
                index = self._stray(index)
            else:
                index = self._take(index)
        for rest in range(index + 1, len(self.args)):
            self._stray(rest)

    def _take_file(self, index: int) -> int:
        self.parsed.config = index
        if index + 1 == len(self.args):
            self._fault(index, "needs a file after it")
        return index + 2

    def _is_flag(self, word: str) -> bool:
        """Whether argparse takes a word for a flag, known or not."""
        if word[:1] != "-" or len(word) == 1:
            return False
        if " " not in word and (word[1] == "-" or not re.match(_NEGATIVE, word)):
            return True
        return bool(_spellings(_name(word)[0]))

    def _stray(self, index: int) -> int:
        word = self.args[index]
        (self.parsed.opaque if hidden(word) and self.parsed.positionals else self.parsed.positionals).append(
            (index, word)
        )
        return index + 1

    def _take(self, index: int) -> int:
        """Read the flag at `index` and its values, and return the index behind them."""
        name, attached = _name(self.args[index])
        dotted, spellings = "." in name, _spellings(name)
        if len(spellings) != 1:
            return self._take_foreign(index, name, attached, spellings)
        spelling = spellings[0]
        found = vllm_flags.known(spelling)
        after = index + 1 if attached is not None else self._end(index + 1, 1 if dotted else found.nargs)
        raws = [attached] if attached is not None else list(self.args[index + 1 : after])
        if found.nargs == 0 and attached is not None:
            self._fault(index, "takes no value")
        elif found.nargs in {1, "+"} and not raws:
            self._fault(index, "needs a value after it")
        else:
            self._keep(Given(found.name, index, after, " ".join(raws)), spelling, dotted=dotted)
            for raw in () if dotted else raws:
                self._judge(index, found, raw)
        return after

    def _keep(self, given: Given, spelling: str, *, dotted: bool) -> None:
        parsed, name, found = self.parsed, given.name, vllm_flags.known(spelling)
        negated = found.nargs == 0 and spelling.startswith("--no-") and name != spelling[2:]
        parsed.places[name] = given.index
        if dotted:
            parsed.dotted.add(name)
        if negated:
            parsed.off.add(name)
            parsed.values.pop(name, None)
        else:
            parsed.off.discard(name)
            parsed.values[name] = given.value
        if not dotted and not found.repeats:
            parsed.given.setdefault(name, []).append(replace(given, value="no") if negated else given)

    def _end(self, start: int, nargs: Nargs) -> int:
        end = start
        most = len(self.args) if nargs == "+" else min(len(self.args), start + (nargs != 0))
        while end < most and self.args[end] != "--" and not self._is_flag(self.args[end]):
            end += 1
        return end

    def _judge(self, index: int, found: FlagSpec, raw: str) -> None:
        """Record a fault where argparse could not convert a value, or does not allow it."""
        if hidden(raw):
            return
        try:
            converted = convert(found.kind, raw)
        except ValueError:
            wanted = _WANTED[found.kind.partition("|")[0]]
            self._fault(index, f"has the value {shortened(raw)!r}, which is not {wanted}")
        else:
            if found.choices and converted is not None and str(converted) not in found.choices:
                shown = ", ".join(found.choices[:12])
                self._fault(index, f"has the value {shortened(raw)!r}, which is not one of {shown}")

    def _take_foreign(self, index: int, name: str, attached: str | None, spellings: Sequence[str]) -> int:
        word = self.args[index]
        if spellings:
            self._fault(index, f"is ambiguous: it may stand for {' or '.join(spellings[:4])}")
            return self._end(index + 1, 1)
        (self.parsed.opaque if hidden(name) else self.parsed.unknown).append((index, word))
        bare = attached is not None or name.startswith(_SWITCHES)
        return index + 1 if bare else self._end(index + 1, 1)

    def _fault(self, index: int, reason: str) -> None:
        self.parsed.faults.append(Fault(index, self.args[index], reason))


def _name(word: str) -> tuple[str, str | None]:
    """Divide a flag into its name, with - for _ up to the first dot, and the value behind `=`."""
    name, equals, value = word.partition("=")
    if word.startswith("-O") and word != "-O":
        return "--optimization-level", word[3:] if word[2] == "=" else word[2:]
    if word.startswith("--"):
        first, dot, rest = name.partition(".")
        return first.replace("_", "-") + dot + rest, value if equals else None
    if not _spellings(name) and vllm_flags.spec(word[:2]):
        return word[:2], word[2:]  # a letter with its value: -n2
    return name, value if equals else None


def _spellings(name: str) -> Sequence[str]:
    """Return the flags that a name may stand for: itself, or what it abbreviates; of `--a.b` those of `--a`."""
    name = name.partition(".")[0]
    if name == "-O":
        return ("--optimization-level",)
    if vllm_flags.spec(name):
        return (name,)
    return vllm_flags.every().completions(name) if len(name) > 1 else ()


def differ(every: Sequence[Given]) -> bool:
    """Whether a flag is given several values that admission can see and tell apart."""
    seen = {_plain(given.name, given.value) for given in every}
    return len(seen) > 1 and not any(hidden(given.value) for given in every)


def _plain(name: str, value: str) -> str:
    found = vllm_flags.spec(f"--{name}")
    return value.lstrip("0") if found and found.kind.startswith("int") and value.isdecimal() else value
