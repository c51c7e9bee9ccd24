"""How often it is counted what a tenant has: each time costs as much as there is."""

from __future__ import annotations

import sqlite3
from importlib import resources

import pytest

from muster.sessions.journal import entries
from muster.sessions.runs import quotas
from muster.sessions.runs.counts import Counts


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Kept:
    """A journal in memory, and what counts for it."""

    def __init__(self, **limits):
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.connection.executescript(resources.files("muster.sessions.journal").joinpath("schema.sql").read_text())
        self.counted, self.clock, self._next = 0, Clock(), 0
        self.counts, self.quota = Counts(self.clock), quotas.Quota(**limits)
        self.connection.set_trace_callback(self._hear)

    def _hear(self, statement):
        self.counted += "count(*)" in statement

    def accept(self, kind="forward_backward"):
        """Keep one request; a failure takes it back."""
        self._next += 1
        asked = entries.Request("us", "model", self._next, kind, b"body")
        self.connection.execute("BEGIN")
        try:
            entries.accept(self.connection, asked, 0.0)
            quotas.request(self.connection, self.quota, asked, self.counts)
        except Exception:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")


def test_many_requests_are_counted_a_few_times():
    kept = Kept()
    for _ in range(2000):
        kept.accept()
    assert kept.counted <= 2000 / 256 + 1


def test_a_limit_is_reached_exactly():
    kept = Kept(kept_requests=300)
    for _ in range(300):
        kept.accept()
    with pytest.raises(quotas.BusyError, match="kept_requests"):
        kept.accept()


def test_what_went_meanwhile_makes_room():
    kept = Kept(kept_requests=300)
    for _ in range(300):
        kept.accept()
    kept.connection.execute("UPDATE requests SET body = NULL, state = 'done'")
    for _ in range(300):
        kept.accept()


def test_who_has_no_room_is_not_counted_again_at_once_and_told_the_same():
    kept = Kept(kept_requests=300)
    for _ in range(300):
        kept.accept()
    with pytest.raises(quotas.BusyError) as first:
        kept.accept()
    before = kept.counted
    for _ in range(100):
        with pytest.raises(quotas.BusyError, match=str(first.value)):
            kept.accept()
    assert kept.counted == before
    kept.accept("optim_step")  # which makes room
    kept.connection.execute("UPDATE requests SET body = NULL, state = 'done'")
    kept.clock.now += 1
    kept.accept()
