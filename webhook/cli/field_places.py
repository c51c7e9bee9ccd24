"""Where in a file the field is written that a finding is about.

A finding names a field of the object as it was given, or as the cluster would store it. Muster may have added that
field, or have replaced the list that it is in. What is pointed at is then the nearest part that the user wrote.
"""

from __future__ import annotations

from typing import Any

from muster.strategies.documents import paths
from muster.strategies.documents.findings import Finding
from muster.strategies.documents.paths import Path
from muster.webhook.cli.cases import Case
from muster.webhook.kubeyaml.composer import Spot

__all__ = ["of_field", "of_finding"]

_WORDS = {"command": "args", "args": "command"}  # Muster may move a word from one to the other

_SEARCHED = 1000  # entries of a list; each of a thousand findings about a longer one would search it


def of_finding(case: Case, finding: Finding) -> Spot | None:
    """Return line and column of the field that a finding is about; None where the object is not from a text."""
    return of_field(case, finding.field, finding.value)


def of_field(case: Case, field: str, value: Any = None) -> Spot | None:
    """Return line and column of a field; None where the object is not from a text.

    Args:
        case: the object with its decisions; of a predicted one, the place of its TrainJob is returned.
        field: a field path, also one that the file does not have, or a text that is none.
        value: what the field holds, to tell words of the user's command from those that Muster wrote.
    """
    if case.predicted:
        return case.source.find(())
    written = case.source.document
    path = paths.nearest(written, field)
    is_there = paths.locate(written, field) == path
    if not is_there or not _holds(paths.lookup(written, path), value):
        path = path[:-1] if is_there and isinstance((0, *path)[-1], int) else path
        ways = (path, _followed(written, case.document, field), _moved(written, case.document, field))
        path = max(ways, key=len)
    return case.source.find(path)


def _holds(written: Any, value: Any) -> bool:
    """Whether a field may be the one with this value; of a word, a finding may quote the beginning."""
    if isinstance(written, str) and isinstance(value, str):
        return written.startswith(value)
    return value is None or written == value


def _followed(written: Any, stored: Any, field: str) -> Path:
    """Return the path in the written object of what `field` names in the stored one, as far as it is there."""
    out: list[str | int] = []
    for part in paths.nearest(stored, field):
        if isinstance(part, int) and isinstance(written, list):
            stored = stored[part]
            found = _only(written, stored)
            if found is None:
                break
            out.append(found)
            written = written[found]
            continue
        if not isinstance(written, dict) or part not in written:
            break
        out.append(part)
        written, stored = written[part], stored[part]
    return tuple(out)


def _moved(written: Any, stored: Any, field: str) -> Path:
    """Return the path in the written object of a word that Muster has moved from `args` to `command`, or back."""
    *around, member, index = ("", "", *paths.nearest(stored, field))
    if not isinstance(index, int) or member not in _WORDS:
        return ()
    path = (*around[2:], _WORDS[str(member)])
    entries = paths.lookup(written, path)
    found = _only(entries, paths.lookup(stored, (*around[2:], member, index))) if isinstance(entries, list) else None
    return () if found is None else (*path, found)


def _only(entries: list[Any], entry: Any) -> int | None:
    """Return the place of the only entry that is the given one: of its name, or equal; None where that is not sure."""
    if len(entries) > _SEARCHED:
        return None
    name = entry.get("name") if isinstance(entry, dict) else None
    if name is not None:
        same = [place for place, each in enumerate(entries) if isinstance(each, dict) and each.get("name") == name]
    else:
        same = [place for place, each in enumerate(entries) if each == entry]
    return same[0] if len(same) == 1 else None
