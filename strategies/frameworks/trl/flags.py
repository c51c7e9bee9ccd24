"""The methods, flags and presets of the supported TRL, without importing TRL.

tests/contract/trl/generate.py prints `flags.json` from TRL's and accelerate's own parsers. `parsing` uses it to read
command lines.

Parsing: a command line is read as the supported TRL reads it.

`trl sft` passes every flag that its script does not know to `accelerate launch`, which ignores everything that Trainer
injects. So a strategy must tell the two kinds of flags apart before it rewrites a launch, and must report a flag that
neither knows before a pod with GPUs is scheduled. Contract tests run TRL's parsers and `parse` on the same command
lines (Python 3.11's argparse). Kubernetes expands `$(NAME)` after admission, so a value with one stays a string and is
never checked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict, cast

from msgspec import Struct, field

from muster.strategies import upstream
from muster.strategies.frameworks.flag_tables import NEAR, Entry, Fault, Flags, FlagSpec, Nargs
from muster.strategies.launches.guesses import Guesses

__all__ = [
    "CONFIG",
    "Given",
    "ParsedArgs",
    "closest",
    "launcher_spec",
    "methods",
    "parse",
    "passthrough",
    "preset_environment",
    "presets",
    "programs",
    "script",
    "spec",
    "version",
]


_LONGEST_GUESS = 64


class _Table(TypedDict):
    trl: str
    methods_passthrough: list[str]
    common: dict[str, Entry]
    methods: dict[str, dict[str, Entry]]
    programs: dict[str, dict[str, Entry]]
    launcher: dict[str, Entry]
    presets: dict[str, dict[str, object]]
    presets_env: dict[str, dict[str, str]]


def _table() -> _Table:
    return cast("_Table", upstream.data("trl", "flags"))


@functools.cache
def script(method: str) -> Flags:
    """Return the flags of the script of `method`, or of a program of `programs`.

    Raises:
        ValueError: TRL has no such training method, and our images no such program.
    """
    table = _table()
    if method in table["programs"]:
        return Flags(table["programs"][method])
    if method not in table["methods"]:
        raise ValueError(f"trl has no training method {method!r}; its methods are {', '.join(sorted(methods()))}")
    return Flags(table["common"] | table["methods"][method])


@functools.cache
def _launcher() -> Flags:
    return Flags(_table()["launcher"])


@functools.cache
def methods() -> frozenset[str]:
    """Return the commands of `trl` that train; each is the module `trl.scripts.<method>`."""
    return frozenset(_table()["methods"])


@functools.cache
def programs() -> frozenset[str]:
    """Return the modules of our images that train by TRL and are no command of it."""
    return frozenset(_table()["programs"])


@functools.cache
def passthrough() -> frozenset[str]:
    """Return the commands of `trl` that do not train."""
    return frozenset(_table()["methods_passthrough"])


def presets() -> Mapping[str, Mapping[str, object]]:
    """Return the accelerate configurations packaged in TRL, by the name that `--accelerate_config` takes."""
    return _table()["presets"]


def preset_environment(name: str) -> Mapping[str, str]:
    """Return the env that preset `name` gives the workers: all that it does beside choosing processes and endpoint.

    Raises:
        KeyError: TRL has no such preset.
    """
    return _table()["presets_env"][name]


def version() -> str:
    """Return the version of TRL that the table was printed from."""
    return _table()["trl"]


def spec(method: str, flag: str) -> FlagSpec | None:
    """Return the flag that the script of `method` has for `flag`, with or without `=value`; None for an unknown one.

    Raises:
        ValueError: TRL has no such training method.
    """
    return script(method).specs.get(flag.partition("=")[0])


def launcher_spec(flag: str) -> FlagSpec | None:
    """Return the flag of `accelerate launch`, or `--accelerate_config`, which TRL reads only with a space after it."""
    name, equals, _ = flag.partition("=")
    return None if equals and name == "--accelerate_config" else _launcher().specs.get(name)


def closest(method: str, flag: str) -> str | None:
    """Return the flag of `method` or of the launcher that an unknown `flag` probably means, or None."""
    name = flag.partition("=")[0].lstrip("-").replace("-", "_")[:_LONGEST_GUESS]
    found = _guesses(method).closest(name)
    return f"--{found}" if found else None


@functools.cache
def _guesses(method: str) -> Guesses:
    return Guesses(script(method).names | _launcher().names | {"config"}, NEAR)


Value: TypeAlias = str | bool | list[str]

CONFIG = "--config"
"""The flag of a file of settings, which TRL takes away before any parser reads; a script has no flag of this name."""
_NEGATIVE = r"-\d+$|-\d*\.\d+$"
_TRUTH = dict.fromkeys(("yes", "true", "t", "y", "1"), True) | dict.fromkeys(("no", "false", "f", "n", "0"), False)
_NUMBERS = {"int": (int, "a whole number"), "float": (float, "a number")}


class Given(Struct, frozen=True):
    """One place at which a flag is given.

    Attributes:
        name: canonical name of the flag; `config` for `--config`, which TRL reads before any parser.
        words: index of the flag and of each of its values.
        value: its value, None where it is missing.
    """

    name: str
    words: tuple[int, ...]
    value: Value | None


class ParsedArgs(Struct):
    """A command line of one training method. An index always counts in the arguments as they were given.

    Attributes:
        values: values for the script, by canonical name; the last one wins.
        places: index of the flag that gave each of `values`.
        unknown: flags that neither the script nor `accelerate launch` has.
        launcher: flags that only `accelerate launch` has, and `--accelerate_config`; a script fails on them.
        launcher_values: values of these flags, by canonical name.
        launcher_tokens: index of every token, flag or value, that a script must not see.
        positionals: tokens without a flag. `accelerate launch` would run the first as the training script.
        opaque: tokens that Kubernetes may still turn into flags: `$(EXTRA)`, `--$(NAME)=1`.
        faults: tokens that argparse refuses.
        given: every place of every flag of the script, of `accelerate launch`, and of `--config`.
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
    given: list[Given] = field(default_factory=list)
    config_file: str | None = None


def parse(method: str, args: Sequence[str]) -> ParsedArgs:
    """Read the arguments that follow `trl <method>` or `-m trl.scripts.<method>` as TRL's parser does.

    Raises:
        ValueError: TRL has no such training method.
    """
    words = tuple(args)
    short = len(words) <= _FEW and sum(map(len, words)) <= _SHORT
    return _cached(method, words) if short else _latest(method, words)


_FEW, _SHORT = 64, 2_048  # words and characters of arguments that are remembered


def _parse(method: str, args: tuple[str, ...]) -> ParsedArgs:
    reader = _Reader(script(method), args)
    reader.read()
    return reader.parsed


_latest = functools.lru_cache(maxsize=2)(_parse)  # the parts of a job often have the same words, however many
_cached = functools.lru_cache(maxsize=256)(_parse)  # a decision asks some three times; nobody may change the result


class _Reader:
    """One pass over the arguments; `tokens` are those that argparse sees, `places` are their indexes in the input."""

    __slots__ = ("parsed", "places", "script", "stop", "tokens")

    def __init__(self, script: Flags, args: Sequence[str]) -> None:
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
                self._fault(index, f"is ambiguous: it may stand for {' or '.join(spellings[:4])}")
                index += 1
            else:
                found = self.script.specs[spellings[0]]
                self.parsed.places[found.name] = self.places[index]
                index = self._take(index, found, self.parsed.values)
        for rest in range(self.stop, len(self.tokens)):
            self._stray(rest)

    def _take_config(self, index: int) -> None:
        """Take the first `--config` and the token after it, in any place, as TRL does before argparse reads."""
        if index + 1 == len(self.tokens):
            self._fault(index, "needs a file after it")
        else:
            self.parsed.config_file = self.tokens[index + 1]
            self.parsed.given.append(Given("config", (index, index + 1), self.tokens[index + 1]))
        self.tokens = [*self.tokens[:index], *self.tokens[index + 2 :]]
        self.places = [*self.places[:index], *self.places[index + 2 :]]

    def _spellings(self, token: str) -> Sequence[str] | None:
        """Return the flags that a token may stand for: empty for an unknown flag, None when it is not a flag."""
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
        return None if not found and (re.match(_NEGATIVE, token) or " " in token) else found

    def _take(self, index: int, found: FlagSpec, values: dict[str, Value]) -> int:
        """Store the value of a known flag and return the index after the flag and its values."""
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
        value = values[found.name] if raws or found.nargs not in {1, "+"} else None
        self.parsed.given.append(Given(found.name, tuple(self.places[index:after]), value))
        return after

    def _end_of_values(self, start: int, nargs: Nargs) -> int:
        end = start
        most = self.stop if nargs == "+" else min(self.stop, start + (nargs != 0))
        while end < most and not self._is_flag(self.tokens[end]):
            end += 1
        return end

    def _is_flag(self, token: str) -> bool:
        """Whether argparse takes a token for a flag; most are one without looking for its name."""
        return (token[:2] == "--" and len(token) > 2 and " " not in token) or self._spellings(token) is not None

    def _judge(self, index: int, found: FlagSpec, raw: str) -> str | bool:
        """Return the value that `raw` stands for; record a fault where argparse could not convert it."""
        if "$(" in raw:
            return raw
        kind, _, none = found.kind.partition("|")
        if found.choices and raw not in found.choices:
            self._fault(index, f"has the value {raw!r}, which is not one of {', '.join(found.choices)}")
        elif kind == "bool":
            if (truth := _TRUTH.get(raw.lower())) is not None:
                return truth
            self._fault(index, f"has the value {raw!r}, which is neither true nor false")
        elif kind == "dict" and raw and not (none and raw.lower() in {"none", "null"}):
            cure = f"write it into the file of {CONFIG}"
            self._fault(index, f"is a dictionary, which {raw!r} cannot be on a command line; {cure}")
        elif kind in _NUMBERS and not (none and raw.lower() in {"none", "null"}):
            convert, wanted = _NUMBERS[kind]
            try:
                convert(raw)
            except ValueError:
                self._fault(index, f"has the value {raw!r}, which is not {wanted}")
        return raw

    def _take_foreign(self, index: int) -> int:
        """Take a flag that the script does not know, of the launcher or unknown, with the values that follow it."""
        token, parsed = self.tokens[index], self.parsed
        found = launcher_spec(token)
        if found is None:
            unreadable = "$(" in token.partition("=")[0]
            (parsed.opaque if unreadable else parsed.unknown).append((self.places[index], token))
            after = self._end_of_values(index + 1, "+")
            if token == CONFIG:  # the second: TRL looks for the first alone
                words = tuple(self.places[index : min(after, index + 2)])
                parsed.given.append(Given("config", words, self.tokens[index + 1] if len(words) > 1 else None))
            return after
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
