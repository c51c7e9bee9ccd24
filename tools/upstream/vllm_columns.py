"""Columns: tables of vLLM that say which versions know a word or a flag, with the column of one version made anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tools.upstream.table_files import Json, Table

__all__ = ["elsewhere", "words"]


def words(known: Mapping[str, Json], version: str, own: Mapping[str, Json]) -> Table:
    """Return `words.json`: the versions that know each word of a flag, and the variables that all versions read alike.

    Args:
        known: the table so far.
        version: whose column is made.
        own: the words of this version, and under `env` what its variables may be.
    """
    found: Table = {}
    for flag, each in known.items():
        mine = own[flag]
        assert isinstance(each, dict)
        if isinstance(mine, list):
            found[flag] = _columns(each, version, map(str, mine))
        elif isinstance(mine, dict):
            found[flag] = {name: kind for name, kind in each.items() if mine.get(name, kind) == kind}
    return found


def elsewhere(known: Mapping[str, Json], version: str, flags: Iterable[str], ours: Iterable[str]) -> Table:
    """Return `elsewhere.json`: the versions that have a flag which the shipped one lacks.

    Args:
        known: the table so far.
        version: whose column is made.
        flags: its flags, in every spelling.
        ours: those of the shipped version.
    """
    added = set(flags) - set(ours)
    return _columns(known, version, (word for word in added if word.replace("--no-", "--", 1) not in added - {word}))


def _columns(known: Mapping[str, Json], version: str, mine: Iterable[str]) -> Table:
    found: dict[str, list[Json]] = {}
    for word, versions in known.items():
        assert isinstance(versions, list)
        found[word] = [each for each in versions if each != version]
    for word in mine:
        found.setdefault(word, []).append(version)
    return {word: sorted(versions, key=_order) for word, versions in sorted(found.items()) if versions}


def _order(version: Json) -> list[int]:
    return [int(part) for part in str(version).split(".")]
