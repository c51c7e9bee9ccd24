"""The items of one `tune run` as rows see them: what stands behind the config, and what torchtune's own config has.

`strategies/upstream/torchtune` has the recipes, the configs with the items that rows ask for, and the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict, cast

from muster.strategies import upstream
from muster.strategies.documents.findings import beginning
from muster.strategies.launches.guesses import Guesses
from muster.strategies.rules import UNKNOWN, Value, judge, load
from muster.strategies.trainer import recipes

__all__ = ["TuneSettings", "faults", "unknown", "unread"]

Fault = tuple[str, str, str]
"""The word, what is wrong with it, and the rule."""
CONFIG = "--config"
_PATH = r"[A-Za-z0-9_]+/[A-Za-z0-9_.]+"
_BUILDER = r"torchtune\.models\.([a-z0-9_]+)\.([a-z][a-z0-9_]*)"
_WORDS: Mapping[str, Value] = {"true": True, "false": False, "": None, "none": None, "null": None, "~": None}
_LONGEST = 100


class _Config(TypedDict):
    recipe: str
    items: dict[str, Value] | None


def _configs() -> Mapping[str, _Config]:
    return cast("Mapping[str, _Config]", upstream.data("torchtune", "configs"))


def _builders() -> Mapping[str, Sequence[str]]:
    return cast("Mapping[str, Sequence[str]]", upstream.data("torchtune", "builders"))


class TuneSettings:
    """A view (`muster.strategies.rules.View`) of one run of a recipe; the field of a setting is the word that gives it.

    Args:
        recipe: name of the recipe.
        config: its config, a name or a file.
        words: all words behind the recipe but the config, none of which has a variable.
        ranks: number of processes, None when unknown.
    """

    def __init__(self, recipe: str, config: str, words: Sequence[str], ranks: int | None) -> None:
        self._items = {word.partition("=")[0]: word for word in words if "=" in word and not word.startswith("~")}
        self._removed = {word[1:].partition("=")[0]: word for word in words if word.startswith("~")}
        known = _configs().get(config)
        self._config, self._defaults = config, known["items"] if known else None
        self._facts: dict[str, Value] = {
            "recipe": recipe,
            "config_recipe": known["recipe"] if known else UNKNOWN,
            "own": known is not None,
            "world": ranks or UNKNOWN,
            "~": list[Value](self._removed),
            CONFIG: config,
        }

    @property
    def written(self) -> Sequence[str]:
        """The keys of the items, `~` for those that are removed, and `--config`."""
        return [*self._items, *(["~"] if self._removed else []), CONFIG]

    def value(self, name: str) -> Value:
        """Return the value of an item, that of the config where it is torchtune's, or a fact."""
        if name in self._facts:
            return self._facts[name]
        if name in self._items:
            return _typed(self._items[name].partition("=")[2].strip())
        above = name.rpartition(".")[0]
        if name in self._removed or above in self._removed:
            return None
        if above in self._items or self._defaults is None:
            return UNKNOWN
        return self._defaults.get(name)

    def shown(self, name: str, value: Value) -> str:
        """Return the word that gives an item."""
        return self.field(str(value) if name == "~" else name)

    def field(self, name: str) -> str:
        """Return the word that gives an item; the view does not know where it stands."""
        return self._config if name == CONFIG else self._items.get(name) or self._removed.get(name) or name


def _typed(text: str) -> Value:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return (int if text.lstrip("-").isdecimal() else float)(text) if len(text) < _LONGEST else UNKNOWN
    except ValueError:
        return text


def faults(recipe: str, config: str, words: Sequence[str], ranks: int | None) -> Iterator[Fault]:
    """Yield the words behind a recipe that end the run.

    Args:
        recipe: name of a recipe of torchtune's.
        config: its config, a name or a file.
        words: all words behind the recipe but the config, none of which has a variable.
        ranks: number of processes, None when unknown.
    """
    for found in judge(load("torchtune"), TuneSettings(recipe, config, words, ranks)):
        yield str(found.value), found.message, found.rule


def unknown(config: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield a config, and builders of models, that torchtune does not have; another installation may have them.

    Args:
        config: a name or a file.
        words: all words behind the recipe but the config.
    """
    family, version = config.partition("/")[0], upstream.shipped("torchtune")
    is_named = len(config) <= _LONGEST and re.fullmatch(_PATH, config) and not config.endswith((".yaml", ".yml"))
    if is_named and family in _builders() and config not in _configs():
        near = Guesses(_configs(), 0.8).closest(config)
        hint = f"did you mean {near}?" if near else "tune ls has the names"
        yield config, f"is not a config of torchtune {version}, which would open a file of this name; {hint}"
    for key, value in recipes.items(words):
        found = re.fullmatch(_BUILDER, value) if len(value) <= _LONGEST else None
        if found and found[2] not in _builders().get(found[1], ()):
            message = f"{beginning(found[1], 40)}.{beginning(found[2], 40)} is not in torchtune.models of {version}"
            yield f"{key}={value}", f"{message}, and the recipe ends with an error; correct it"


def unread(recipe: str, config: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the items that no recipe of torchtune reads; their names are those at the top of a config.

    A file of the user's own may read any item from another one, so that of it only a slip is told.

    Args:
        recipe: name of the recipe.
        config: a name or a file.
        words: all words behind the recipe but the config.
    """
    version = upstream.shipped("torchtune")
    names = cast("Mapping[str, Sequence[str]]", upstream.data("torchtune", "items"))["names"]
    for word in words if recipe in recipes.RECIPES else ():
        key, equals, _ = word.partition("=")
        top = key.partition(".")[0]
        if not equals or top in names or not re.fullmatch(r"[A-Za-z_]\w*", top) or len(top) > _LONGEST:
            continue
        near = Guesses(names, 0.8).closest(top)
        if near or config in _configs():
            cure = f"did you mean {near}?" if near else "write it below its part, such as optimizer.lr, or remove it"
            yield word, f"is an item that no recipe of torchtune {version} reads, so it has no effect; {cure}"
