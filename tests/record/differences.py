"""Compares two records and tells the differences by kind, the most frequent first.

A kind is one sentence in which everything that names one job is left out: `finding gone: warning torch/not-enforced`.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["compare", "lines"]

_NUMBERED = re.compile(r"/\d+(?=/|\s|$)")
_EXAMPLES = 3
_Record = Mapping[str, Mapping[str, Any]]


def compare(before: Path, after: Path) -> dict[str, list[str]]:
    """Return the names of the inputs of each kind of difference."""
    old, new = _read(before), _read(after)
    kinds = defaultdict(list)
    for name in sorted({*old, *new}):
        for kind in sorted(set(_kinds(old.get(name), new.get(name)))):
            kinds[kind].append(name)
    return kinds


def lines(kinds: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield a line for each kind: how many inputs differ so, the kind, and some of the inputs."""
    for kind, names in sorted(kinds.items(), key=lambda each: (-len(each[1]), each[0])):
        yield f"{len(names):6}  {kind}  ({', '.join(names[:_EXAMPLES])}{', …' if len(names) > _EXAMPLES else ''})"


def _read(path: Path) -> _Record:
    with path.open() as file:
        return {each["name"]: each for each in map(json.loads, file)}


def _kinds(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Iterator[str]:
    if old is None or new is None:
        yield "only in one record"
        return
    if old["verdict"] != new["verdict"]:
        yield f"verdict: {old['verdict']} -> {new['verdict']}"
    if old.get("ends") != new.get("ends"):
        yield f"ends: {old.get('ends')} -> {new.get('ends')}"
    for member, said in (("findings", _rule), ("changes", _path)):
        was, now = Counter(old.get(member, ())), Counter(new.get(member, ()))
        yield from (f"{member} gone: {said(each)}" for each in was - now)
        yield from (f"{member} new: {said(each)}" for each in now - was)
    if old.get("predicted") != new.get("predicted"):
        yield "another JobSet is predicted"


def _rule(finding: str) -> str:
    """Return severity and rule of a finding; for a text of a review, the rule at its end."""
    text = finding.rstrip()
    return text.rpartition("(")[2].rstrip(")") if text.endswith(")") else " ".join(text.split(" ")[:2])


def _path(change: str) -> str:
    operation, pointer = change.split(" ", 2)[:2]
    return f"{operation} {_NUMBERED.sub('/*', pointer)}"
