"""Anchors that the service notes in its ConfigMap, written to an API server in memory, and a cut log found by them."""

from __future__ import annotations

import asyncio
import datetime
import io
import itertools
import json

import pytest

from muster.audit import anchor_notes, chain, log_files, verification
from muster.webhook import configs
from muster.webhook.cluster import writes
from muster.webhook.metrics import Metrics
from muster.webhook.notices import anchors
from muster.webhook.server import recorders
from tests.controllers.apiservers import ApiServer, RefusedError
from tests.controllers.documents import namespace
from tests.support import waits

SPACE = "muster-system"
CONFLICT = RefusedError(409, "the object has been modified")


@pytest.fixture
def server():
    made = ApiServer()
    made.put(namespace(SPACE))
    return made


class Log:
    """A chain, and where it ends."""

    def __init__(self):
        self._link = chain.Chain()
        self.lines = []

    def add(self, record, count=1):
        self.lines += [self._link.seal(record) for _ in range(count)]

    def ends(self):
        if not self.lines:
            return [None]
        first, last = (json.loads(self.lines[at]) for at in (0, -1))
        return [anchor_notes.Ends("a.log", *(anchor_notes.Anchor(each["seq"], each["hash"]) for each in (first, last)))]


@pytest.fixture
def replica(server):
    """Make a replica with a log, whose clock is a second later at each look."""
    seconds = itertools.count()

    def make(pod="muster-a", log=None):
        failed = []
        log = log or Log()

        def clock():
            return datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=next(seconds))

        access = writes.Writes(server.connection())
        made = anchors.Anchors(access, SPACE, log.ends, lambda: failed.append(1), pod=pod, clock=clock)
        made.log, made.failed = log, failed
        return made

    return make


def kept(server):
    return anchor_notes.read(server.get("ConfigMap", anchor_notes.NAME, SPACE) or {})


def sequences(server):
    return sorted([each.seq for each in chronicle.anchors] for chronicle in kept(server).values())


def problems(lines, chains):
    expected = anchor_notes.Kept(chains)
    stream = io.BytesIO(b"".join(lines))
    found = verification.verify(log_files.numbered(stream, "audit.log"), expected)
    return [each.message for each in found if each.is_fault]


async def test_nothing_is_written_before_the_first_record_and_nothing_twice(server, replica, make_record):
    made = replica()
    await made.note()
    assert server.log == []
    made.log.add(make_record(), 3)
    await made.note()
    await made.note()
    assert len(server.log) == 1
    assert sequences(server) == [[1, 3]]


async def test_each_interval_notes_the_end_and_a_cut_anywhere_is_found(server, replica, make_record):
    made = replica()
    for _ in range(5):
        made.log.add(make_record(), 2)
        await made.note()
    assert sequences(server) == [[1, 2, 4, 6, 8, 10]]
    assert problems(made.log.lines, kept(server)) == []
    for left in range(10):
        assert len(problems(made.log.lines[:left], kept(server))) == 1


async def test_what_is_kept_is_bounded_and_has_the_first_and_the_newest(server, replica, make_record):
    made = replica()
    for _ in range(5 * anchor_notes.KEPT):
        made.log.add(make_record())
        await made.note()
    (found,) = sequences(server)
    assert (len(found) <= anchor_notes.KEPT, found[0], found[-1]) == (True, 1, 5 * anchor_notes.KEPT)


async def test_of_too_many_chains_those_noted_longest_ago_are_removed(server, replica, make_record):
    for number in range(anchor_notes.CHAINS + 3):
        made = replica(f"muster-{number}")
        made.log.add(make_record())
        await made.note()
    pods = {each.pod for each in kept(server).values()}
    assert len(pods) == anchor_notes.CHAINS
    assert pods == {f"muster-{number}" for number in range(3, anchor_notes.CHAINS + 3)}


async def test_two_replicas_lose_nothing_to_each_other(server, replica, make_record):
    server.pause = 0.001
    made = [replica("muster-a"), replica("muster-b"), replica("muster-c")]
    for each in made:
        each.log.add(make_record(), 2)
    await asyncio.gather(*(each.note() for each in made))
    assert sequences(server) == [[1, 2]] * 3
    assert [each.failed for each in made] == [[], [], []]


async def test_somebody_who_was_faster_is_no_failure_and_one_who_always_is_is_one(server, replica, make_record, caplog):
    made, lost = replica(), [CONFLICT] * 3
    made.log.add(make_record())

    def faster(method, _plural):
        if method == "POST" and lost:
            raise lost.pop()

    server.faults = faster
    await made.note()
    assert (sequences(server), made.failed, caplog.records) == ([[1]], [], [])
    lost += [CONFLICT] * 1000
    server.remove("ConfigMap", anchor_notes.NAME, SPACE)
    assert await made.note() <= 1.0
    assert (len(made.failed), len(lost) > 900) == (1, True)


async def test_a_failure_is_counted_each_time_told_once_and_retried_ever_more_rarely(
    server, replica, make_record, caplog
):
    made = replica()
    made.log.add(make_record())

    def forbidden(_method, _plural):
        raise RefusedError(403, "forbidden")

    server.faults = forbidden
    pauses = [await made.note() for _ in range(12)]
    assert max(pauses) <= 120
    assert len(made.failed) == 12
    (told,) = (each for each in caplog.records if each.levelname == "WARNING")
    assert "rbac-anchors.yaml" in told.advice
    server.faults = lambda _method, _plural: None
    assert 48 <= await made.note() <= 72
    assert sequences(server) == [[1]]


async def test_what_somebody_removed_is_written_again_and_what_is_no_note_goes(server, replica, make_record, caplog):
    made = replica()
    made.log.add(make_record(), 4)
    await made.note()
    document = server.get("ConfigMap", anchor_notes.NAME, SPACE)
    server.put({**document, "data": {"odd": "no note"}})
    await made.note()
    assert sequences(server) == [[1, 4]]
    assert [each.keys for each in caplog.records] == [["odd"]]
    server.remove("ConfigMap", anchor_notes.NAME, SPACE)
    await made.note()
    assert sequences(server) == [[1, 4]]


async def test_notes_of_a_newer_version_are_left_as_they_are(server, replica, make_record):
    made = replica()
    made.log.add(make_record())
    await made.note()
    ((key, text),) = server.get("ConfigMap", anchor_notes.NAME, SPACE)["data"].items()
    newer = json.dumps({**json.loads(text), "more": "of a newer version"})
    document = server.get("ConfigMap", anchor_notes.NAME, SPACE)
    server.put({**document, "data": {"other": newer}})
    await made.note()
    assert server.get("ConfigMap", anchor_notes.NAME, SPACE)["data"] == {key: text, "other": newer}


async def test_the_last_note_takes_two_seconds_at_most(server, replica, make_record, monkeypatch):
    monkeypatch.setattr(anchors, "_LAST", 0.01)
    made = replica()
    made.log.add(make_record())
    server.pause = 60
    await made.end()
    assert made.failed == [1]


# The whole service


def audit(tmp_path, **fields):
    file = {"path": str(tmp_path / "audit.log")}
    return configs.Audit.model_validate({"stdout": False, "file": file, "anchors": "configmap", **fields})


async def run(server, tmp_path, records):
    """One process: it writes records and stops, as `Service.stop` does."""
    config, metrics = audit(tmp_path), Metrics()
    recorder = recorders.open_recorder(config, metrics)
    keeper = recorders.open_keeper(config, recorder, server.connection(), metrics)
    for record in records:
        recorder.submit(record)
    await keeper.stop()
    recorder.close()
    assert b'muster_audit_problems_total{kind="anchor"} 0.0' in metrics.render()
    return (tmp_path / "audit.log").read_bytes().splitlines(keepends=True)


async def test_a_service_that_stops_notes_its_last_record(server, tmp_path, make_record):
    assert len(await run(server, tmp_path, [make_record()] * 5)) == 6
    assert sequences(server) == [[1, 6]]


async def test_a_process_that_continues_a_log_notes_first_what_it_continued(server, tmp_path, make_record):
    await run(server, tmp_path, [make_record()] * 5)
    lines = await run(server, tmp_path, [make_record()] * 2)
    assert sequences(server) == [[1, 6], [6, 10]]
    assert problems(lines, kept(server)) == []


async def test_a_stolen_log_that_was_cut_is_found_by_what_the_service_noted(server, tmp_path, make_record):
    await run(server, tmp_path, [make_record()] * 5)
    lines = await run(server, tmp_path, [make_record()] * 2)
    for left in range(len(lines)):
        assert problems(lines[:left], kept(server)), left


async def test_a_log_that_was_cut_between_two_processes_is_found(server, tmp_path, make_record):
    lines = await run(server, tmp_path, [make_record()] * 5)
    (tmp_path / "audit.log").write_bytes(b"".join(lines[:3]))
    lines = await run(server, tmp_path, [make_record(uid="later")] * 4)
    (found,) = problems(lines, kept(server))
    assert "record 6 with hash" in found
    assert "another record of this number" in found


async def test_a_running_service_notes_each_interval(server, tmp_path, make_record, monkeypatch):
    monkeypatch.setattr(anchors.Anchors, "_rest", lambda _self: 0.001)
    config, metrics = audit(tmp_path), Metrics()
    recorder = recorders.open_recorder(config, metrics)
    keeper = recorders.open_keeper(config, recorder, server.connection(), metrics)
    for number in (1, 2, 3):
        recorder.submit(make_record())
        await waits.until(lambda number=number: kept(server) and sequences(server)[0][-1] == number)
    await keeper.stop()
    recorder.close()


async def test_no_anchors_are_noted_by_default():
    assert recorders.open_keeper(configs.Audit(), None, None, Metrics()) is None


async def test_anchors_need_an_api_server():
    config = configs.Audit.model_validate({"anchors": "configmap"})
    with pytest.raises(configs.ConfigError, match=r"audit\.anchors: configmap needs cluster\.source: live"):
        recorders.open_keeper(config, None, None, Metrics())
