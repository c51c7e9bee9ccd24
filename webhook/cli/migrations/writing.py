"""Writing: YAML of migrated documents, with a comment at each place whose meaning changed.

The documents are written as all YAML of Muster, then the places of the comments are looked up in that text. What has
no equivalent stands at the head, before the first document.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from muster.webhook import kubeyaml
from muster.webhook.cli import problems
from muster.webhook.cli.migrations.notes import Migrated, Note

__all__ = ["text"]

_RUNTIME = "runtime: "
_WIDTH = 120
_LEAST = 40  # characters of a comment that stands far inside


def text(migrated: Migrated, title: str) -> str:
    """Return the documents as YAML with comments.

    Args:
        migrated: the documents and the notes about them.
        title: what they were made from, for people.
    """
    head = _comment(f"Migrated by muster from {title}.")
    if migrated.lost:
        head += _comment("No equivalent in a TrainJob:")
        head += [line for each in migrated.lost for line in _comment(_said(each), begin="- ")]
    *_, job = migrated.documents
    placed: dict[int, list[tuple[tuple[str | int, ...], Note]]] = defaultdict(list)
    for note in migrated.notes:
        if note.fate == "changed":
            number, path = _place(note, migrated.documents, job)
            placed[number].append((path, note))
    bodies = [_commented(kubeyaml.dump(each), placed[number]) for number, each in enumerate(migrated.documents)]
    return "".join(head) + "---\n".join(bodies)


def _place(note: Note, documents: list[dict[str, Any]], job: Mapping[str, Any]) -> tuple[int, tuple[str | int, ...]]:
    """Return the document of a note and the path of its comment; its reference where there is no runtime."""
    last = len(documents) - 1
    if not note.to.startswith(_RUNTIME):
        return last, _path(note.to)
    if documents[0] is job:
        return last, ("spec", "runtimeRef")
    return 0, _path(note.to.removeprefix(_RUNTIME))


def _path(written: str) -> tuple[str | int, ...]:
    return tuple(int(each) if each.isdecimal() else each for each in written.split("."))


def _commented(body: str, notes: Iterable[tuple[tuple[str | int, ...], Note]]) -> str:
    (written,) = kubeyaml.load_all(body)
    inserted: dict[int, list[str]] = defaultdict(list)
    for path, note in notes:
        spot = written.find(path)
        inserted[spot.line] += _comment(_said(note), spot.column - 1)
    lines = body.splitlines(keepends=True)
    return "".join("".join(inserted.get(number, ())) + line for number, line in enumerate(lines, 1))


def _said(note: Note) -> str:
    return f"{note.member}: {note.text}"


def _comment(line: str, indent: int = 0, begin: str = "") -> list[str]:
    margin, width = f"{' ' * indent}# ", max(_WIDTH, indent + _LEAST)
    rest = margin + " " * len(begin)
    found = textwrap.wrap(problems.one_line(line), width, initial_indent=margin + begin, subsequent_indent=rest)
    return [f"{each}\n" for each in found]
