"""The page docs/reference/migrations.md: what becomes of each member, from the table that `muster migrate` reads."""

from __future__ import annotations

from collections.abc import Iterator

from muster.webhook.cli import migrations
from muster.webhook.cli.migrations import migration_notes
from tools.site import tables

__all__ = ["page"]

_INTRODUCTION = """\
# Members that `muster migrate` reads

What becomes of each member of a document. [Migrate](../check.md) says how the command is used. *moved*: the member
says the same at its new place. *changed*: the meaning changed, and a comment in the output says how. *no equivalent*: a
TrainJob cannot say it; the member stands in the list at the head of the output. *depends*: on the other members.
`runtime:` begins a place in the runtime that is written beside the TrainJob.

This page is written by `make reference` from `webhook/cli/migrations/members.toml`.
"""
_TITLES = {
    **dict.fromkeys(migrations.SOURCES, ""),
    "TrainJob": " of Trainer 2.0 and 2.1",
    "TrainingRuntime": " and ClusterTrainingRuntime of Trainer 2.0 and 2.1",
}
_FATES = {"lost": "no equivalent", "code": "depends"}


def page() -> str:
    """Return the page, as Markdown."""
    return _INTRODUCTION + "".join(_section(kind, title) for kind, title in _TITLES.items())


def _section(kind: str, title: str) -> str:
    rows = [
        cell for member, row in migration_notes.rows(kind).items() if member[0] == "spec" for cell in _rows(member, row)
    ]
    return f"\n## {kind}{title}\n\n{tables.table(('member', 'what becomes of it', 'where, or why'), rows)}"


def _rows(member: tuple[str, ...], row: migration_notes.Row) -> Iterator[tuple[str, str, str]]:
    name = f"`{'.'.join(member)}`"
    for value, case in row.cases.items():
        yield f"{name}: {value}", _fate(case), _where(case)
    yield name, _fate(row), _where(row)


def _fate(row: migration_notes.Row) -> str:
    return _FATES.get(row.fate, row.fate)


def _where(row: migration_notes.Row) -> str:
    return ". ".join(each for each in (f"`{row.to}`" if row.to else "", row.text) if each)


if __name__ == "__main__":
    print(page(), end="")
