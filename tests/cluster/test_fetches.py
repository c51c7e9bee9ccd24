from __future__ import annotations

import asyncio
import gc

import pytest

from muster.kube import transports
from muster.webhook.cluster import fetches, readers

JOB = readers.Ref("TrainJob", "team-a", "llama")


@pytest.fixture
async def fetcher(api, clock):
    made = fetches.Fetches(api, clock=clock)
    yield made
    await made.stop()


async def test_a_document_is_fetched_as_the_cache_would_hold_it(server, fetcher, trainjob):
    server.put({**trainjob(), "status": {"conditions": []}})
    fetched = await fetcher.fetch(JOB)
    assert "status" not in fetched
    assert fetched["spec"] == trainjob()["spec"]


async def test_a_snapshot_is_fetched_as_the_runtime_in_it(server, fetcher, snapshot):
    ref = readers.Ref("RuntimeSnapshot", "team-a", "llama")
    server.put(snapshot("kind: TrainingRuntime\nmetadata: {name: trl}"))
    assert (await fetcher.fetch(ref))["metadata"] == {"name": "trl"}
    server.put(snapshot("a: ["))
    with pytest.raises(readers.SnapshotInvalid, match="llama-runtime-snapshot"):
        await fetcher.fetch(ref)


async def test_there_is_none_is_remembered_for_a_second(server, fetcher, clock, trainjob):
    assert await fetcher.fetch(JOB) is None
    assert await fetcher.fetch(JOB) is None
    assert server.count("get") == 1
    server.put(trainjob())
    clock.now += 1.5
    assert await fetcher.fetch(JOB)
    assert server.count("get") == 2


async def test_only_so_many_absences_are_remembered(fetcher, clock, monkeypatch, server):
    monkeypatch.setattr(fetches, "MAX_ABSENT", 3)
    for number in range(4):
        await fetcher.fetch(JOB._replace(name=f"job-{number}"))
    await fetcher.fetch(JOB._replace(name="job-3"))
    assert server.count("get") == 4
    await fetcher.fetch(JOB._replace(name="job-0"))
    assert server.count("get") == 5


async def test_those_who_want_one_document_share_one_get(server, fetcher, trainjob):
    server.put(trainjob())
    found = await asyncio.gather(*(fetcher.fetch(JOB) for _ in range(100)))
    assert all(each["metadata"]["name"] == "llama" for each in found)
    assert server.count("get") == 1


async def test_one_who_goes_away_does_not_end_it_for_the_others(server, fetcher, until, gate):
    server.fault("get", gate)
    first, second = (asyncio.create_task(fetcher.fetch(JOB)) for _ in range(2))
    await until(lambda: server.count("get") == 1)
    first.cancel()
    gate.open.set()
    assert await second is None
    assert first.cancelled()


async def test_a_failure_that_nobody_waits_for_any_more_is_no_warning(server, fetcher, refuse, until, caplog):
    waiting = asyncio.create_task(fetcher.fetch(JOB))
    server.fault("get", refuse(500))
    await until(lambda: server.count("get") == 1)
    waiting.cancel()
    await until(lambda: not fetcher._flights)
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_beyond_the_limit_nothing_is_queued(server, fetcher, until, gate):
    for _ in range(fetches.MAX_FLIGHTS):
        server.fault("get", gate)
    under_way = [asyncio.create_task(fetcher.fetch(JOB._replace(name=f"job-{n}"))) for n in range(fetches.MAX_FLIGHTS)]
    await until(lambda: server.count("get") == fetches.MAX_FLIGHTS)
    with pytest.raises(readers.ClusterBusy, match="TrainJob team-a/llama was not fetched: 16 fetches are under way"):
        await fetcher.fetch(JOB)
    gate.open.set()
    assert await asyncio.gather(*under_way) == [None] * fetches.MAX_FLIGHTS
    assert await fetcher.fetch(JOB) is None


async def test_a_server_that_does_not_answer_in_time_is_an_error_with_its_cause(server, api, gate):
    server.fault("get", gate)
    with pytest.raises(readers.ClusterUnavailable, match=r"could not be fetched within 0\.05 s") as failed:
        await fetches.Fetches(api, deadline=0.05).fetch(JOB)
    assert isinstance(failed.value.__cause__, TimeoutError)
    gate.open.set()


async def test_a_refusal_is_an_error_that_names_the_missing_rbac(server, fetcher, refuse):
    server.fault("get", refuse(403, "no"))
    with pytest.raises(readers.ClusterUnavailable, match="HTTP 403: no; this service account needs: get, list, watch"):
        await fetcher.fetch(JOB)


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_failure_is_not_taken_for_absence(server, fetcher, refuse, code, trainjob):
    server.put(trainjob())
    server.fault("get", refuse(code))
    with pytest.raises(readers.ClusterUnavailable) as failed:
        await fetcher.fetch(JOB)
    assert isinstance(failed.value.__cause__, transports.RefusedError)
    assert await fetcher.fetch(JOB)


async def test_a_name_that_cannot_exist_is_never_asked_for(server, fetcher):
    assert await fetcher.fetch(JOB._replace(name="../../../api/v1/secrets")) is None
    assert server.seen == []


async def test_stopping_cancels_what_is_under_way(server, fetcher, until, gate):
    server.fault("get", gate)
    waiting = asyncio.create_task(fetcher.fetch(JOB))
    await until(lambda: server.count("get") == 1)
    await fetcher.stop()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    gate.open.set()
