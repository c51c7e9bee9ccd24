"""The settings of one TRL training as rows see them: typed as TRL's parser does, with the defaults of the method."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from muster.strategies.documents.findings import beginning
from muster.strategies.frameworks.trl import flags, parsing
from muster.strategies.frameworks.trl.invocations import Invocation
from muster.strategies.launches.sites import Site
from muster.strategies.rules import UNKNOWN, Value, from_json, member

__all__ = ["TrainingSettings"]

_SHOWN, _LONGEST = 40, 18
_NUMBERS: Mapping[str, Callable[[str], int | float]] = {"int": int, "float": float}


class TrainingSettings:
    """A view (`muster.strategies.rules.View`) of one invocation; its arguments are the last words of the command line.

    Args:
        found: the invocation.
        parsed: its arguments.
        site: where the command line is written.
        facts: what rows may ask beside the flags: `method`, `on_cpu`, ….
        ranks: returns the number of processes of the training, the fact `world`; None when it is not known.
    """

    def __init__(
        self,
        found: Invocation,
        parsed: parsing.ParsedArgs,
        site: Site,
        facts: Mapping[str, Value],
        ranks: Callable[[], int | None],
    ) -> None:
        self._found, self._parsed, self._site, self._facts, self._ranks = found, parsed, site, facts, ranks
        self._offset = len(site.argv) - len(found.args)
        self._is_last = site.argv[self._offset :] == found.args
        self._hidden = parsed.config_file is not None or bool(parsed.opaque)
        self._written = dict.fromkeys((*parsed.values, *(f"env.{name}" for name in site.values)))
        self.value = functools.cache(self._value)

    def written(self) -> Mapping[str, None]:
        """Return the flags that the arguments give, and `env.NAME` of each variable of the container."""
        return self._written

    def _value(self, name: str) -> Value:
        first, dot, path = name.partition(".")
        if name in self._parsed.values:
            return self._typed(name, self._parsed.values[name])
        if name in self._facts:
            return self._facts[name]
        if first == "env":
            text = self._site.values.get(path, "")
            return UNKNOWN if text is None or "$(" in text else text
        if dot:
            return member(self.value(first), path)
        return self._ranks() or UNKNOWN if name == "world" else self._default(name)

    def _default(self, name: str) -> Value:
        spec = flags.spec(self._found.method, f"--{name}")
        return UNKNOWN if spec is None or self._hidden else spec.default

    def _typed(self, name: str, raw: parsing.Value) -> Value:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, list):
            found = [self._typed(name, each) for each in raw]
            return UNKNOWN if UNKNOWN in found else found
        spec = flags.spec(self._found.method, f"--{name}")
        kind, _, none = spec.kind.partition("|") if spec else ("str", "", "")
        if none and raw.lower() in {"none", "null"}:
            return None
        if "$" in raw or kind not in _NUMBERS:
            return UNKNOWN if "$" in raw else from_json(raw)
        try:
            return _NUMBERS[kind](raw) if len(raw) <= _LONGEST else UNKNOWN
        except ValueError:  # the parser refuses it, which is said of the word itself
            return UNKNOWN

    def shown(self, name: str, value: Value) -> object:
        """Return the flag as it is written, None for one that is not."""
        if name not in self._parsed.values:
            return None
        given = self._parsed.values[name]
        if isinstance(given, bool):
            return f"--{name}" if given else f"--{name} false"
        text = value if isinstance(given, list) and isinstance(value, str) else given
        return f"--{name} {beginning(' '.join(text) if isinstance(text, list) else text, _SHOWN)}"

    def field(self, name: str) -> str:
        """Return the field path of a flag."""
        index = self._parsed.places.get(name)
        if index is not None:
            return self.token(index)
        return f"{self._site.place}.{'args' if self._is_last or not self._site.command else 'command'}"

    def token(self, index: int) -> str:
        """Return the field path of a word of the arguments: in a shell's text, of the word that holds the text."""
        if self._is_last:
            return self._site.locate(self._offset + index)
        holding = (place for place, word in enumerate(self._site.argv) if self._found.args[index] in word)
        return self._site.locate(next(holding, 0))
