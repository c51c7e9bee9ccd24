"""How steps shared their passes with other models, until a snapshot holds what they did."""

from __future__ import annotations

from muster.sessions.journal.store import Connection

__all__ = ["forget", "keep", "of"]


def keep(connection: Connection, target: str, seq: int, layout: str) -> None:
    """Keep the layout of a step."""
    connection.execute(
        "INSERT INTO layouts (target, seq, layout) VALUES (?, ?, ?)"
        " ON CONFLICT (target, seq) DO UPDATE SET layout = excluded.layout",
        (target, seq, layout),
    )


def of(connection: Connection, target: str) -> dict[int, str]:
    """Return the layouts of a model's steps by their numbers; a step that is not there shared nothing."""
    found = connection.execute("SELECT seq, layout FROM layouts WHERE target = ?", (target,)).fetchall()
    return {int(row[0]): str(row[1]) for row in found}


def forget(connection: Connection, target: str, through: int) -> None:
    """Drop the layouts of steps that a snapshot holds."""
    connection.execute("DELETE FROM layouts WHERE target = ? AND seq <= ?", (target, through))
