"""Large, many and odd objects of hostile authors: they are read one at a time, and others' are still followed."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading

import pytest
from aiohttp import web

from muster.kube import payloads, transports
from muster.webhook.cluster import fetches, kinds, live, readers, reflector, snapshots

JOB = readers.Ref("TrainJob", "team-a", "llama")
SNAPSHOT = readers.Ref("RuntimeSnapshot", "team-a", "llama")
RUNTIME = "kind: TrainingRuntime\nmetadata: {name: trl}\n"
LONG = RUNTIME + "".join(f"x{number}: 1\n" for number in range(2_000))


@pytest.fixture
async def reader(api):
    made = live.LiveReader(kinds.KINDS.values(), api)
    yield made
    await made.stop()


@pytest.fixture
async def fetcher(api, clock):
    made = fetches.Fetches(api, deadline=5, clock=clock)
    yield made
    await made.stop()


async def test_an_event_of_eight_mebibytes_is_followed_and_does_not_end_the_watch(server, reader, trainjob, until):
    reader.start()
    await until(lambda: reader.synced and server.watchers("TrainJob"))
    large = trainjob("large", note="<" * 1_300_000)
    large["metadata"]["resourceVersion"] = "900"
    line = json.dumps({"type": "ADDED", "object": large}).replace("<", "\\u003c").encode() + b"\n"
    assert len(line) > 7 * 1024 * 1024
    server.send("TrainJob", line)
    server.put(trainjob())
    await until(lambda: reader.figure("entries")["TrainJob"] == 1)
    assert reader.figure("left_out")["TrainJob"] == 1
    assert server.count("watch") == len(kinds.KINDS)
    assert "TrainJob" not in reader.problems()


async def test_what_is_too_large_to_keep_is_asked_for_and_nobody_says_that_the_others_are_all(
    server, reader, trainjob, until
):
    server.put(trainjob("small"))
    server.put(trainjob("large", note="x" * 200_000))
    reader.start()
    await until(lambda: reader.synced)
    large = JOB._replace(name="large")
    with pytest.raises(readers.NotCached):
        reader.get(large)
    assert (await reader.fetch(large))["spec"]["note"]
    assert reader.get(JOB._replace(name="small"))
    assert reader.every("TrainJob", {}) is None
    server.delete("TrainJob", "large", "team-a")
    await until(lambda: reader.every("TrainJob", {}) is not None)


async def test_a_page_with_a_large_object_is_taken_in_pieces_without_starting_over(
    server, reader, trainjob, until, monkeypatch
):
    monkeypatch.setattr(reflector, "MAX_PAGE", 10_000)
    for number in range(60):
        server.put(trainjob(f"job-{number:02}", note="x" * (20_000 if number == 30 else 10)))
    reader.start()
    await until(lambda: reader.synced)
    asked = [query for query in server.queries("list") if "continue" in query]
    assert [query for query in asked if query["limit"] == "1"]
    assert len([seen for seen in server.seen if seen[:2] == ("list", "trainjobs") and "continue" not in seen[2]]) <= 3
    assert reader.figure("entries")["TrainJob"] == 60


async def test_a_page_of_many_values_is_taken_in_pieces(server, reader, trainjob, until, monkeypatch):
    monkeypatch.setattr(reflector, "MAX_VALUES", 2_000)
    for number in range(20):
        server.put(trainjob(f"job-{number:02}", note=[{}] * 200))
    reader.start()
    await until(lambda: reader.synced)
    assert reader.figure("entries")["TrainJob"] == 20


async def test_a_large_configmap_that_is_no_snapshot_is_not_even_parsed(server, reader, snapshot, until, monkeypatch):
    reader.start()
    await until(lambda: reader.synced and server.watchers("ConfigMap"))
    parsed, parse = [], payloads.parsed
    monkeypatch.setattr(payloads, "parsed", lambda line, what: parsed.append(len(line)) or parse(line, what))
    other = snapshot("x" * 100_000)
    other["metadata"]["name"] = "notes"
    server.put(other)
    server.put(snapshot(RUNTIME))
    await until(lambda: reader.figure("entries")["RuntimeSnapshot"] == 1)
    assert max(parsed) < 10_000


async def test_a_snapshot_that_takes_long_is_read_beside_the_loop_once_and_then_answered_from_memory(
    server, reader, snapshot, until, monkeypatch
):
    server.put(snapshot(LONG))
    reader.start()
    await until(lambda: reader.synced)
    threads, document = [], snapshots._document
    monkeypatch.setattr(snapshots, "_document", lambda text: threads.append(threading.get_ident()) or document(text))
    monkeypatch.setattr(snapshots, "_readings", snapshots.Readings())
    with pytest.raises(readers.NotCached):
        reader.get(SNAPSHOT)
    assert (await reader.fetch(SNAPSHOT))["x7"] == 1
    assert reader.get(SNAPSHOT)["x7"] == 1
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert server.count("get") == 1


async def test_that_a_long_snapshot_cannot_be_read_is_remembered(server, fetcher, snapshot, monkeypatch):
    read, document = [], snapshots._document
    monkeypatch.setattr(snapshots, "_document", lambda text: read.append(text) or document(text))
    server.put(snapshot(LONG + "a: ["))
    for _ in range(3):
        with pytest.raises(readers.SnapshotInvalid):
            await fetcher.fetch(SNAPSHOT)
    assert len(read) == 1


async def test_while_the_server_is_gone_a_long_snapshot_is_read_from_memory(server, reader, snapshot, until):
    server.put(snapshot(LONG))
    reader.start()
    await until(lambda: reader.synced)
    await server.stop()
    assert (await reader.fetch(SNAPSHOT))["x7"] == 1


async def test_the_fetches_of_one_namespace_leave_room_for_those_of_others(server, fetcher, until, gate, trainjob):
    server.put(trainjob(namespace="team-b"))
    for _ in range(fetches.MAX_FLIGHTS):
        server.fault("get", gate)
    under_way = [asyncio.create_task(fetcher.fetch(JOB._replace(name=f"j-{n}"))) for n in range(fetches.MAX_FLIGHTS)]
    await until(lambda: server.count("get") == fetches.MAX_FLIGHTS)
    with pytest.raises(readers.ClusterBusy, match="16 fetches are under way"):
        await fetcher.fetch(JOB)
    assert await fetcher.fetch(JOB._replace(namespace="team-b"))
    gate.open.set()
    await asyncio.gather(*under_way)


async def test_fetches_have_a_limit_over_all_namespaces(server, fetcher, until, gate):
    for _ in range(fetches.MAX_ALL):
        server.fault("get", gate)
    refs = [JOB._replace(namespace=f"team-{number}") for number in range(fetches.MAX_ALL)]
    under_way = [asyncio.create_task(fetcher.fetch(ref)) for ref in refs]
    await until(lambda: server.count("get") == fetches.MAX_ALL)
    with pytest.raises(readers.ClusterBusy, match="48 fetches are under way"):
        await fetcher.fetch(JOB)
    gate.open.set()
    await asyncio.gather(*under_way)


async def test_a_runtime_that_does_not_exist_costs_one_get_however_often_it_is_named(server, fetcher):
    for _ in range(1_000):
        assert await fetcher.fetch(JOB) is None
    assert server.count("get") == 1


ODD = ["../../secrets/x", "..", "", "x?watch=true", "%2f", "%2e%2e", "x#y", "x" * 5000, "Üml", "a\nb", "a b", "A"]


@pytest.mark.parametrize("odd", ODD)
async def test_an_odd_name_or_namespace_costs_no_get(server, fetcher, odd):
    for kind in kinds.KINDS.values():
        refs = [
            readers.Ref(kind.name, "team-a", odd),
            readers.Ref(kind.name, odd, "x"),
            readers.Ref(kind.name, "", odd),
        ]
        for ref in refs:
            if not kind.can_exist(ref):
                assert await fetcher.fetch(ref) is None
    assert server.seen == []


async def test_large_answers_are_read_one_at_a_time(server, api, until, monkeypatch):
    turn, seen, written = payloads.Turn(), [], []

    async def large(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata": {}, "note": "' + b"x" * (payloads.LARGE + 70_000))
        written.append(True)
        await finish.wait()
        await response.write(b'"}')
        return response

    finish = asyncio.Event()
    for _ in range(3):
        server.fault("get", large)
    grown, wait = [], payloads._Holder.grown

    async def noted(self, size):
        await wait(self, size)
        if size > payloads.LARGE:
            grown.append(id(self))

    monkeypatch.setattr(payloads._Holder, "grown", noted)

    async def read(number):
        async with api.get(f"/api/v1/nodes/n{number}", {}, transports.Patience(5, 5)) as response:
            seen.append(await payloads.read(response, 4 * 1024 * 1024, "a node", turn))

    readings = [asyncio.create_task(read(number)) for number in range(3)]
    await until(lambda: written == [True] * 3 and grown)
    assert len(set(grown)) == 1
    finish.set()
    await asyncio.gather(*readings)
    assert len(set(grown)) == len(seen) == 3


async def test_a_compressed_answer_is_limited_by_what_comes_out_of_it(server, fetcher):
    async def bomb(_request):
        body = gzip.compress(b'{"metadata": {}, "x": "' + b" " * 30_000_000 + b'"}')
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    server.fault("get", bomb)
    with pytest.raises(readers.ClusterUnavailable, match="is larger than 4096 KiB"):
        await fetcher.fetch(JOB)


async def test_an_answer_that_drips_for_ever_ends_at_the_deadline(server, api, clock):
    async def drip(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    server.fault("get", drip)
    with pytest.raises(readers.ClusterUnavailable, match="within"):
        await fetches.Fetches(api, deadline=0.2, clock=clock).fetch(JOB)


async def test_a_first_list_without_end_keeps_nobody_waiting_and_is_not_believed_before_it_has_ended(
    server, api, clock, trainjob, until
):
    async def endless(_request):
        item = trainjob()
        return web.json_response({"metadata": {"resourceVersion": "1", "continue": "0"}, "items": [item]})

    for _ in range(100_000):
        server._faults["list"].append(endless)
    reader = live.LiveReader([kinds.KINDS["TrainJob"]], api, pace=reflector.Pace(clock=clock))
    reader.start()
    await until(lambda: reader.figure("entries")["TrainJob"])
    assert not reader.synced
    with pytest.raises(readers.NotCached):
        reader.get(JOB)
    assert reader.every("TrainJob", {}) is None
    clock.now += reflector.Pace().listing + 1
    assert reader.synced
    with pytest.raises(readers.NotCached):
        reader.get(JOB)
    await reader.stop()
