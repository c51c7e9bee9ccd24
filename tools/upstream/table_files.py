"""Table files: how a table of a version is laid out and stored, and how two of them differ.

A version that is not the shipped one is stored as its difference to another one: `like` names that, and the rest is a
JSON merge patch (RFC 7386) over its table, so that the file says what changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from muster.strategies import upstream

__all__ = ["Json", "Table", "changes", "difference", "kept", "text"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Table: TypeAlias = dict[str, Json]

_LONGEST = 110  # characters of an object that stands in one line


def kept(folder: Path, name: str, table: Table, like: str) -> None:
    """Write a table into the folder of its version, unless the same facts stand there already.

    Args:
        folder: `<package>/<version>`.
        name: of the table.
        table: its facts.
        like: the version that it is stored as a difference to; "" to store the whole.
    """
    package, version = folder.parts[-2:]
    file = folder / f"{name}.json"
    if file.exists() and upstream.data(package, name, version) == table:
        return
    stored = table
    if like:
        base = upstream.data(package, name, like)
        assert isinstance(base, dict)
        stored = {"like": like, **difference(base, table)}
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text(stored) + "\n", encoding="utf-8")
    upstream.data.cache_clear()


def text(value: Json, indent: str = "") -> str:
    """Lay a table out: small objects in a line, the members of others in a line each, sorted."""
    line = json.dumps(value, sort_keys=True)
    if not isinstance(value, dict) or len(line) <= _LONGEST:
        return line
    inner = [f"{indent} {json.dumps(name)}: {text(value[name], indent + ' ')}" for name in sorted(value)]
    return "{\n" + ",\n".join(inner) + f"\n{indent}}}"


def difference(old: Table, new: Table) -> Table:
    """Return the merge patch that makes one table of another."""
    patch: Table = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        assert value is not None, f"{name}: null means in a merge patch that a member is gone"
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := difference(before, value):
                patch[name] = inner
        elif before != value:
            patch[name] = value
    return patch


def changes(old: Json, new: Json, at: str = "") -> Iterator[str]:
    """Yield a line for each member that came (`+`), that went (`-`), or that is another (`~`), with what it was."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            here = f"{at}.{name}" if at else name
            if name not in old:
                yield f"+ {here} {_shown(new[name])}"
            elif name not in new:
                yield f"- {here} {_shown(old[name])}"
            else:
                yield from changes(old[name], new[name], here)
    elif old != new:
        yield f"~ {at}: {_moved(old, new)}"


def _moved(old: Json, new: Json) -> str:
    if not (isinstance(old, list) and isinstance(new, list)):
        return f"{_shown(old)} -> {_shown(new)}"
    came = [f"+{_shown(each)}" for each in new if each not in old]
    went = [f"-{_shown(each)}" for each in old if each not in new]
    return " ".join([*came, *went]) or "another order"


def _shown(value: Json) -> str:
    line = json.dumps(value)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
