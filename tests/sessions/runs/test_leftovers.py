"""Folders that nothing names are removed, and no other."""

from __future__ import annotations

import shutil

import pytest

from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.runs import leftovers, paths

RUN = "s:train:0"


@pytest.fixture
async def journal(tmp_path):
    made = SqliteJournal(tmp_path / "journal.sqlite")
    await made.open()
    await made.execute(
        "INSERT INTO sessions (id, tenant, created, seen, status, about) VALUES ('s', 'team-a', 0, 0, '{}', '{}')"
    )
    for run, unloaded in ((RUN, None), ("s:train:1", 1.0)):
        await made.execute(
            "INSERT INTO models (id, session, base, lora, metadata, created, used, done, snapshot, inflight, unloaded)"
            " VALUES (?, 's', 'b', '{}', '{}', 0, 0, 7, 5, ?, ?)",
            run,
            str(folder(tmp_path, "sampler_weights", "4", run)),
            unloaded,
        )
    yield made
    await made.close()


def folder(root, kind, name, run=RUN):
    made = paths.folder_of(root / kind, run, name)
    made.mkdir(parents=True, exist_ok=True)
    return made


async def named(journal, place):
    insert = "INSERT INTO checkpoints (path, run, tenant, folder, size, created) VALUES (?, ?, 'team-a', ?, 1, 0)"
    await journal.execute(insert, f"tinker://{RUN}/weights/{place.name}", RUN, str(place))


async def swept(journal, root):
    return {str(each.relative_to(root)) for each in await leftovers.sweep(journal, root)}


async def test_what_has_no_name_when_its_request_is_over_goes(journal, tmp_path):
    await named(journal, folder(tmp_path, "weights", "3"))
    for name in ("2", "2.4", ".5.ab12.partial", "6.plain", "8", "8.1", "mine"):
        folder(tmp_path, "weights", name)
    folder(tmp_path, "external_weights", "7")
    run = "s%3Atrain%3A0"
    expected = {f"weights/{run}/{each}" for each in ("2", "2.4", ".5.ab12.partial", "6.plain")}
    assert await swept(journal, tmp_path) == {*expected, f"external_weights/{run}/7"}
    assert not folder(tmp_path, "weights", "x").with_name("2").exists()
    assert await swept(journal, tmp_path) == set()


async def test_snapshots_before_the_last_one_go_and_all_of_a_model_that_was_unloaded(journal, tmp_path):
    for name in ("4", "5", "6"):
        folder(tmp_path, "snapshots", name)
    folder(tmp_path, "snapshots", "9", "s:train:1")
    folder(tmp_path, "sampler_weights", "9", "s:train:1")
    assert await swept(journal, tmp_path) == {
        "snapshots/s%3Atrain%3A0/4",
        "snapshots/s%3Atrain%3A1/9",
        "sampler_weights/s%3Atrain%3A1/9",
    }


async def test_runs_of_another_journal_are_left_alone(journal, tmp_path):
    folder(tmp_path, "weights", "1", "t:train:0")
    assert await swept(journal, tmp_path) == set()


async def test_what_has_a_name_stays_where_the_folder_of_the_gateway_was_moved(journal, tmp_path):
    await named(journal, folder(tmp_path / "before", "weights", "3"))
    folder(tmp_path / "before", "weights", "2")
    shutil.move(tmp_path / "before", tmp_path / "after")
    assert await swept(journal, tmp_path / "after") == {"weights/s%3Atrain%3A0/2"}
