"""Options: how a launcher's command line is split into its options, what it starts, and the arguments of that.

The rules are those of argparse (Python 3.11): options end at the first word that is neither an option nor the value of
one, a long option may be cut short while it stays unique, and the last of several values wins. click differs in that
options may stand anywhere before `--`; its tables say so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

__all__ = ["Options", "Table", "split", "table"]

_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_TOKEN = re.compile(r"(?:(?P<aliases>[^=]*)=)?(?P<name>[^=:?]+)(?P<mark>:{0,2}|\?)")


class Table(Struct, frozen=True):
    """The options of one program.

    Attributes:
        counts: values that each option takes, by full name with _ for inner dashes; -1 for one that is only attached.
        aliases: other ways to write an option, without leading dashes, with _: `{"t": "tee"}`.
        abbreviated: whether a long option may be cut short.
        dashed: whether - may be written for _ inside a name.
        single: whether a long option may be written with one dash.
        anywhere: whether options are also read behind the program that is started, up to `--`.
        many: options that may stand several times, because their values add up.
    """

    counts: Mapping[str, int]
    aliases: Mapping[str, str] = field(default_factory=dict)
    abbreviated: bool = True
    dashed: bool = True
    single: bool = False
    anywhere: bool = False
    many: frozenset[str] = frozenset()


class Options(Struct, frozen=True):
    """A command line that was split.

    Attributes:
        words: the options as they were written, each with its value.
        values: the same by full name; "" for a switch.
        repeated: all values of an option that stands more than once with different ones.
        every: all values of each option, in order.
        unknown: options that the table does not have.
        rest: the words behind the options; a `--` in front of them is left out.
    """

    words: tuple[str, ...]
    values: Mapping[str, str]
    repeated: Mapping[str, tuple[str, ...]]
    every: Mapping[str, Sequence[str]]
    unknown: tuple[str, ...]
    rest: tuple[str, ...]


def table(text: str, **rules: bool) -> Table:
    """Make a table from a short text.

    Args:
        text: one token an option: `num-gpus:` takes a value, `mca::` two, `color?` one that is only attached; a switch
            has no mark. `H=hostfile:` and `i,I=include:` name other ways to write it. A `+` at the end: values add up.
        rules: the rules of `Table`.
    """
    counts: dict[str, int] = {}
    aliases: dict[str, str] = {}
    many: set[str] = set()
    for token in text.split():
        found = _TOKEN.fullmatch(token.removesuffix("+"))
        if found is None:
            raise ValueError(f"not an option of a table: {token}")
        name = _plain(found["name"])
        counts[name] = -1 if found["mark"] == "?" else len(found["mark"])
        aliases.update((_plain(each), name) for each in (found["aliases"] or "").split(",") if each)
        if token.endswith("+"):
            many.add(name)
    return Table(counts, aliases, many=frozenset(many), **rules)


def split(rules: Table, words: Sequence[str], *, hidden: str = "") -> Options:
    """Split the words behind a launcher's name.

    Args:
        rules: the launcher's options.
        words: the words.
        hidden: full name of an option that is not to be in `Options.words`; its value is.
    """
    return _Splitter(rules, words, hidden).run()


class _Splitter:
    """One pass over the words."""

    def __init__(self, rules: Table, words: Sequence[str], hidden: str) -> None:
        self._rules, self._words, self._hidden, self._at = rules, words, hidden, 0
        self._options: list[str] = []
        self._given: dict[str, list[str]] = {}
        self._unknown: list[str] = []
        self._rest: list[str] = []

    def run(self) -> Options:
        words = self._words
        while self._at < len(words):
            word = words[self._at]
            if word == "--":
                self._at += 1
                break
            if not self._is_option(word):
                if not self._rules.anywhere:
                    break
                self._rest.append(word)
                self._at += 1
                continue
            self._at += 1
            self._take(word)
        last = {name: values[-1] for name, values in self._given.items()}
        repeated = {
            name: tuple(values)
            for name, values in self._given.items()
            if len(set(values)) > 1 and name not in self._rules.many
        }
        rest = (*self._rest, *words[self._at :])
        return Options(tuple(self._options), last, repeated, self._given, tuple(self._unknown), rest)

    def _is_option(self, word: str) -> bool:
        return word.startswith("-") and word != "-" and not _NUMBER.fullmatch(word)

    def _take(self, word: str) -> None:
        name, attached, value = self._named(word)
        if self._rules.anywhere and name not in self._rules.counts:
            self._rest.append(word)
            return
        if name != self._hidden:
            self._options.append(word)
        count = self._rules.counts.get(name)
        if count is None:
            self._unknown.append(word)
            count = 1
        values = [value] if attached else []
        while len(values) < count and self._at < len(self._words) and not self._is_value_missing(self._words[self._at]):
            values.append(self._words[self._at])
            self._options.append(self._words[self._at])
            self._at += 1
        self._given.setdefault(name, []).append(" ".join(values))

    def _is_value_missing(self, word: str) -> bool:
        return self._is_option(word) and " " not in word

    def _named(self, word: str) -> tuple[str, bool, str]:
        """Return an option's full name, whether its value is attached, and that value."""
        written, equals, value = word.lstrip("-").partition("=")
        long = word.startswith("--") or (self._rules.single and self._known(written) is not None and len(written) > 1)
        if long:
            return self._known(written) or self._cut(written) or _plain(written), bool(equals), value
        return self._short(word[1:])

    def _known(self, written: str) -> str | None:
        name = _plain(written) if self._rules.dashed else written
        name = self._rules.aliases.get(name, name)
        return name if name in self._rules.counts else None

    def _cut(self, written: str) -> str | None:
        """Return the one option that begins like this."""
        if not self._rules.abbreviated or not written:
            return None
        begun = _plain(written) if self._rules.dashed else written
        longer = {name for name in self._rules.counts if len(name) > 1 and name.startswith(begun)}
        longer |= {name for alias, name in self._rules.aliases.items() if len(alias) > 1 and alias.startswith(begun)}
        return longer.pop() if len(longer) == 1 else None

    def _short(self, letters: str) -> tuple[str, bool, str]:
        """Read a cluster of one-letter options: switches, and at its end one that takes a value."""
        written, equals, value = letters.partition("=")
        if len(written) > 1 and written in self._rules.aliases:  # a short option of two letters, such as -np
            return self._rules.aliases[written], bool(equals), value
        at, name = 0, ""
        while at < len(letters):
            name = self._known(letters[at]) or letters[at]
            at += 1
            if self._rules.counts.get(name) != 0 or letters[at : at + 1] in ("", "="):
                break
            self._given.setdefault(name, []).append("")
        return name, at < len(letters), letters[at:].removeprefix("=")


def _plain(name: str) -> str:
    return name.replace("-", "_")
