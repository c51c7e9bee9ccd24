"""A journal that is older than what its Gateway did: a backup or copy put in its place, or its log removed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from muster.sessions.journal import integrity
from muster.sessions.journal.sqlite import SqliteJournal
from tests.sessions.attacks.test_spoilt_journals import journal, refused, removed


def lists(gateway):
    """Return whether the Gateway's key is in the journal, after a start that was not refused."""
    gateway.start()
    return gateway.key[:12] in gateway.run("keys", "ls")


def test_a_backup_that_was_copied_over_the_journal_is_refused_and_can_be_restored(gateway, tmp_path):
    gateway.run("backup", str(tmp_path / "backup.sqlite"))
    gateway.end()
    removed(gateway, None)
    shutil.copy(tmp_path / "backup.sqlite", journal(gateway))
    told = refused(gateway)
    assert all(part in told for part in ("is a backup", "muster sessions restore"))
    with pytest.raises(subprocess.CalledProcessError) as failed:
        gateway.run("keys", "ls")
    assert "is a backup" in failed.value.stderr
    gateway.run("restore", str(tmp_path / "backup.sqlite"))
    assert lists(gateway)


@pytest.mark.parametrize("when", ["before a start", "while it serves"])
def test_a_copy_of_the_journal_from_before_a_start_or_an_end_is_refused(gateway, tmp_path, when):
    if when == "while it serves":
        gateway.run("backup", str(tmp_path / "copy"))  # what `cp` copies, whole
        with sqlite3.connect(tmp_path / "copy") as copied:
            copied.execute("UPDATE identity SET saved = NULL")
        copied.close()
        gateway.end()
    else:
        gateway.end()
        shutil.copy(journal(gateway), tmp_path / "copy")
        gateway.start()
        gateway.end()
    newer = journal(gateway).read_bytes()
    shutil.copy(tmp_path / "copy", journal(gateway))
    told = refused(gateway)
    assert all(part in told for part in ("is older than", "muster sessions restore", "remove this file"))
    journal(gateway).write_bytes(newer)
    assert lists(gateway)


def test_a_log_that_was_removed_after_an_unclean_end_is_missed(gateway, tmp_path, hand):
    hand(gateway).create()
    gateway.kill()
    for role in ("trainer", "sampler"):
        gateway.without(role)
    shutil.move(journal(gateway, "-wal"), tmp_path / "log")
    journal(gateway, "-shm").unlink()
    told = refused(gateway)
    assert all(part in told for part in ("journal.sqlite-wal: is gone", "muster sessions restore", "-open"))
    shutil.move(tmp_path / "log", journal(gateway, "-wal"))
    assert lists(gateway)


def cut(log):
    os.truncate(log, log.stat().st_size // 2)


def spoilt(log):
    """Write over a page, behind which SQLite reads nothing more of a log."""
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        file.write(b"x" * 4096)


def older(log):
    for part in ("", "-wal"):
        shutil.copy(log.parent / f"older{part}", log.with_name(f"journal.sqlite{part}"))


LOSSES = {
    "removed": Path.unlink,
    "emptied": lambda log: os.truncate(log, 0),
    "cut": cut,
    "spoilt": spoilt,
    "older": older,
}


@pytest.fixture
async def left(tmp_path):
    """A folder with a journal as a Gateway left it that was killed after it had kept keys."""
    made = SqliteJournal(tmp_path / "of" / "journal.sqlite")
    await made.open()
    await made.mark_open()
    left = tmp_path / "left"
    left.mkdir()
    for number in range(20):
        await made.execute(
            "INSERT INTO keys (id, hash, tenant, created) VALUES (?, ?, 'a', 0)", str(number), str(number)
        )
        if number == 10:
            for part in ("", "-wal"):
                shutil.copy(tmp_path / "of" / f"journal.sqlite{part}", left / f"older{part}")
    for part in ("", "-wal", "-open"):
        shutil.copy(tmp_path / "of" / f"journal.sqlite{part}", left / f"journal.sqlite{part}")
    await made.close()
    assert not (tmp_path / "of" / "journal.sqlite-open").exists()
    return left


async def kept(folder):
    """Return how many keys a journal has."""
    made = SqliteJournal(folder / "journal.sqlite")
    try:
        await made.open()
        return len(await made.rows("SELECT id FROM keys"))
    finally:
        await made.close()


@pytest.mark.parametrize("loss", LOSSES)
async def test_what_a_journal_loses_after_an_unclean_end_is_missed_each_time(left, loss):
    LOSSES[loss](left / "journal.sqlite-wal")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"journal.sqlite-wal: is gone, cut or older .* remove .*-open"):
            await kept(left)
    (left / "journal.sqlite-open").unlink()
    assert 0 <= await kept(left) < 20


async def test_nothing_is_missed_after_an_unclean_end_though_another_program_takes_the_log_over(left):
    assert await kept(left) == 20
    assert (left / "journal.sqlite-open").exists()
    with contextlib.closing(sqlite3.connect(left / "journal.sqlite")) as looking:  # as the program sqlite3 does
        assert looking.execute("SELECT count(*) FROM keys").fetchone() == (20,)
    assert not (left / "journal.sqlite-wal").exists()
    assert await kept(left) == 20


@pytest.mark.parametrize("text", ["", "\0" * 10, "x"])
async def test_a_note_that_a_loss_of_power_left_refuses_nothing(left, text):
    (left / "journal.sqlite-open").write_text(text)
    assert await kept(left) == 20


@pytest.mark.parametrize("look", [False, True], ids=["at once", "after a command"])
def test_a_gateway_that_was_killed_before_its_first_request_starts_again(gateway, look):
    gateway.kill()
    for role in ("trainer", "sampler"):
        gateway.without(role)
    if look:  # it takes the log over, and no log is left
        gateway.run("keys", "ls")
        assert not journal(gateway, "-wal").exists()
    assert lists(gateway)
    gateway.end()
    assert sorted(each.name for each in gateway.folder.glob("*journal*")) == ["journal.id", "journal.sqlite"]


async def test_a_file_of_an_earlier_muster_has_an_id_and_no_number(tmp_path):
    made = SqliteJournal(tmp_path / "journal.sqlite")
    await made.open()
    id_ = await integrity.check(made, tmp_path)
    (tmp_path / "journal.id").write_text(f"{id_}\n")
    await integrity.claim(made, tmp_path)
    assert re.fullmatch(rf"{id_} 1\n", (tmp_path / "journal.id").read_text())
    await made.close()
