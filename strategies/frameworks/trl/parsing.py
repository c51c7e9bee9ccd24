"""Reads a command line as the installed TRL does.

`trl sft` hands every flag that its script does not know to `accelerate launch`, which understands none of what Trainer
injects; so a strategy must tell the two apart before it rewrites a launch, and must see a flag that nobody knows before
a pod with GPUs is scheduled to find out. Contract tests run TRL's parsers and `parse` on the same command lines (Python
3.11's argparse). A `$(NAME)` is expanded by Kubernetes after admission: a value with one stays a string and is never
judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from strategies.frameworks.trl import flags

__all__ = ["Fault", "ParsedArgs", "parse"]

Value: TypeAlias = str | bool | list[str]

_NEGATIVE = re.compile(r"-\d+$|-\d*\.\d+$")
_TRUTH = dict.fromkeys(("yes", "true", "t", "y", "1"), True) | dict.fromkeys(("no", "false", "f", "n", "0"), False)
_NUMBERS = {"int": (int, "a whole number"), "float": (float, "a number")}


@dataclass(frozen=True, slots=True)
class Fault:
    """The token at `index` of the arguments makes TRL's own parser exit with status 2; `reason` ends a sentence."""

    index: int
    token: str
    reason: str


@dataclass(slots=True)
class ParsedArgs:
    """A command line of one training method. An index always counts in the arguments as they were given.

    Attributes:
        values: what the script is told, by canonical name; the last one wins.
        places: index of the flag that gave each of `values`.
        unknown: flags that neither the script nor `accelerate launch` has.
        launcher: flags that only `accelerate launch` has, and `--accelerate_config`; a script fails on them.
        launcher_values: what they say, by canonical name.
        launcher_tokens: index of every token, flag or value, that a script must not see.
        positionals: tokens that belong to no flag. `accelerate launch` would run the first as the training script.
        opaque: tokens that Kubernetes may still turn into flags: `$(EXTRA)`, `--$(NAME)=1`.
        faults: what argparse refuses.
        config_file: the file of `--config`. Its values, and the launcher flags that it may hold, cannot be seen.
    """

    values: dict[str, Value] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    unknown: list[tuple[int, str]] = field(default_factory=list)
    launcher: list[tuple[int, str]] = field(default_factory=list)
    launcher_values: dict[str, Value] = field(default_factory=dict)
    launcher_tokens: set[int] = field(default_factory=set)
    positionals: list[tuple[int, str]] = field(default_factory=list)
    opaque: list[tuple[int, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    config_file: str | None = None


def parse(method: str, args: Sequence[str]) -> ParsedArgs:
    """Read the arguments that follow `trl <method>` or `-m trl.scripts.<method>` as TRL's parser does.

    Raises:
        ValueError: there is no such training method.
    """
    reader = _Reader(flags.script(method), args)
    reader.read()
    return reader.parsed


class _Reader:
    """One walk over the arguments; `tokens` is what argparse gets to see, `places` where each of them stood."""

    __slots__ = ("parsed", "places", "script", "stop", "tokens")

    def __init__(self, script: flags.Flags, args: Sequence[str]) -> None:
        self.script = script
        self.parsed = ParsedArgs()
        self.tokens: Sequence[str] = args
        self.places: Sequence[int] = range(len(args))
        if "--config" in args:
            self._take_config(args.index("--config"))
        self.stop = self.tokens.index("--") if "--" in self.tokens else len(self.tokens)

    def read(self) -> None:
        index = 0
        while index < self.stop:
            token = self.tokens[index]
            spellings = self._spellings(token)
            if not spellings:
                index = self._stray(index) if spellings is None else self._take_foreign(index)
            elif len(spellings) > 1:
                self._fault(index, f"may stand for {' or '.join(spellings[:4])}")
                index += 1
            else:
                found = self.script.specs[spellings[0]]
                self.parsed.places[found.name] = self.places[index]
                index = self._take(index, found, self.parsed.values)
        for rest in range(self.stop, len(self.tokens)):
            self._stray(rest)

    def _take_config(self, index: int) -> None:
        """TRL takes the first `--config` and the token after it, wherever they stand, before argparse looks."""
        if index + 1 == len(self.tokens):
            self._fault(index, "needs a file after it")
        else:
            self.parsed.config_file = self.tokens[index + 1]
        self.tokens = [*self.tokens[:index], *self.tokens[index + 2 :]]
        self.places = [*self.places[:index], *self.places[index + 2 :]]

    def _spellings(self, token: str) -> Sequence[str] | None:
        """The flags that a token may stand for: none when nobody knows it, None when it is no flag at all."""
        if token[:1] != "-":
            return None
        if token in self.script.specs:
            return (token,)
        if len(token) == 1:
            return None
        name = token.partition("=")[0]
        if name in self.script.specs:
            return (name,)
        found = self.script.completions(name) if token[1] == "-" else ()
        return None if not found and (_NEGATIVE.match(token) or " " in token) else found

    def _take(self, index: int, found: flags.FlagSpec, values: dict[str, Value]) -> int:
        """Store what a known flag says; the index after it and its values."""
        after = index + 1
        _, equals, raw = self.tokens[index].partition("=")
        if equals:
            if found.nargs == 0:
                self._fault(index, "takes no value")
                return after
            raws: Sequence[str] = (raw,)
        else:
            after = self._end_of_values(after, found.nargs)
            raws = self.tokens[index + 1 : after]
        if not raws and found.nargs in {1, "+"}:
            self._fault(index, "needs a value after it")
        elif not raws:
            values[found.name] = found.bare
        elif found.nargs == "+":
            values[found.name] = [str(self._judge(index, found, each)) for each in raws]
        else:
            values[found.name] = self._judge(index, found, raws[0])
        return after

    def _end_of_values(self, start: int, nargs: flags.Nargs) -> int:
        end = start
        most = self.stop if nargs == "+" else min(self.stop, start + (nargs != 0))
        while end < most and self._spellings(self.tokens[end]) is None:
            end += 1
        return end

    def _judge(self, index: int, found: flags.FlagSpec, raw: str) -> str | bool:
        """The value that `raw` stands for; a fault is noted where argparse would not convert it."""
        if "$(" in raw:
            return raw
        kind, _, none = found.kind.partition("|")
        if found.choices and raw not in found.choices:
            self._fault(index, f"{raw!r} is none of {', '.join(found.choices)}")
        elif kind == "bool":
            if (truth := _TRUTH.get(raw.lower())) is not None:
                return truth
            self._fault(index, f"{raw!r} is neither true nor false")
        elif kind in _NUMBERS and not (none and raw.lower() in {"none", "null"}):
            convert, wanted = _NUMBERS[kind]
            try:
                convert(raw)
            except ValueError:
                self._fault(index, f"{raw!r} is not {wanted}")
        return raw

    def _take_foreign(self, index: int) -> int:
        """A flag that the script does not know: the launcher's, or nobody's. Values that follow go with it."""
        token, parsed = self.tokens[index], self.parsed
        found = flags.launcher_spec(token)
        if found is None:
            unreadable = "$(" in token.partition("=")[0]
            (parsed.opaque if unreadable else parsed.unknown).append((self.places[index], token))
            return self._end_of_values(index + 1, "+")
        parsed.launcher.append((self.places[index], token))
        after = self._take(index, found, parsed.launcher_values)
        parsed.launcher_tokens.update(self.places[index:after])
        return after

    def _stray(self, index: int) -> int:
        token = self.tokens[index]
        (self.parsed.opaque if "$(" in token else self.parsed.positionals).append((self.places[index], token))
        return index + 1

    def _fault(self, index: int, reason: str) -> None:
        self.parsed.faults.append(Fault(self.places[index], self.tokens[index], reason))
