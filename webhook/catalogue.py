"""The catalogue of rules: what each rule id of a finding or a change means, why, and where it comes from.

The text of a rule lies beside the code that reports it, in the file `rules.toml` of its room, one entry for each rule.
It is read only where somebody asks for it (`muster rule`, docs/reference/findings.md, tests), never for a decision. An
entry whose id holds words in braces stands for a family: `{framework}/standalone` with `framework = ["torch", "trl"]`.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

__all__ = ["KINDS", "Rule", "closest", "find", "load"]

KINDS = ("error", "warning", "note", "change")
"""What a rule id can be of: a finding of one of three severities, or a change."""

_PACKAGES = ("strategies", "webhook")
_FILE = "rules.toml"


@dataclass(frozen=True, slots=True)
class Rule:
    """What the catalogue says about one rule, or about a family of rules that differ only in a name.

    Attributes:
        name: the id, or for a family its pattern: `{framework}/standalone`.
        ids: every id that the entry explains.
        kinds: what the ids are reported as, of `KINDS`.
        title: what is wrong, or what is changed, without a full stop.
        why: why that is so; whole sentences.
        wrong: part of a job, as YAML, for which the rule speaks.
        right: what to write instead, as YAML; "" where there is nothing else to write.
        needs: what the example needs beside the job, "" for nothing.
        source: the upstream file and version, or the page, that proves it.
        room: folder whose code reports the rule, such as `strategies/launches`.
    """

    name: str
    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    title: str
    why: str
    wrong: str
    right: str
    needs: str
    source: str
    room: str = field(compare=False)

    @property
    def is_family(self) -> bool:
        """Whether the entry explains more than one id."""
        return "{" in self.name


@functools.cache
def load() -> Mapping[str, Rule]:
    """Return the rule of each id, in the order of groups and of the files.

    Raises:
        ValueError: an entry is incomplete, or two entries explain one id; only a fault of the installation.
    """
    found: dict[str, Rule] = {}
    for package in _PACKAGES:
        for folder, text in _files(resources.files("muster").joinpath(package), package):
            for name, entry in tomllib.loads(text).items():
                rule = _rule(name, entry, folder)
                for each in rule.ids:
                    if each in found:
                        raise ValueError(f"{folder}/{_FILE}: {each} is explained twice")
                    found[each] = rule
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def find(rule_id: str) -> tuple[Rule, bool] | None:
    """Return the rule of an id, and whether the catalogue has that very id.

    A framework that is not in the catalogue may use the rules that the torch family shares, under its own name.
    """
    known = load().get(rule_id)
    if known is not None:
        return known, True
    group, _, rest = rule_id.partition("/")
    if not rest or any(each.partition("/")[0] == group for each in load()):
        return None
    shared = load().get(f"torch/{rest}")
    return (shared, False) if shared is not None and "{framework}" in shared.name else None


def closest(rule_id: str) -> list[str]:
    """Return the ids that are most like a text that is none; ids with the same last part come first."""
    _, _, rest = rule_id.rpartition("/")
    same = [each for each in load() if each.partition("/")[2] == rest]
    alike = difflib.get_close_matches(rule_id[:100], list(load()), n=5, cutoff=0.6)
    return list(dict.fromkeys((*same, *alike)))[:5]


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            yield from _files(entry, f"{name}/{entry.name}")
        elif entry.name == _FILE:
            yield name, entry.read_text(encoding="utf-8")


def _rule(name: str, entry: Mapping[str, Any], room: str) -> Rule:
    families = {key: value for key, value in entry.items() if isinstance(value, list) and key != "kinds"}
    ids = [name.format(**dict(zip(families, values, strict=True))) for values in itertools.product(*families.values())]
    texts = {key: str(entry.get(key, "")).strip() for key in ("title", "why", "wrong", "right", "needs", "source")}
    unknown = set(entry) - set(families) - set(texts) - {"kinds"}
    missing = [key for key in ("title", "why", "wrong", "source") if not texts[key]]
    kinds = tuple(entry.get("kinds", ()))
    if unknown or missing or not kinds or not set(kinds) <= set(KINDS):
        raise ValueError(f"{room}/{_FILE}: {name} has unknown members {sorted(unknown)} or lacks {missing or 'kinds'}")
    return Rule(name, tuple(ids), kinds, room=room, **texts)


def _order(rule_id: str) -> tuple[int, str]:
    """Sort what holds for every job first, then the frameworks by name."""
    group = rule_id.partition("/")[0]
    first = ("core", "claims", "roles", "torch")
    return (first.index(group) if group in first else len(first), group)
