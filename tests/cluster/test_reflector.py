from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import web

from muster.webhook.cluster import kinds, readers, reflector

JOB = readers.Ref("TrainJob", "team-a", "llama")
MANY = 203


class Waits:
    """Records delays in place of waiting, and a clock that a test can move."""

    def __init__(self):
        self.delays = []
        self.now = 1000.0
        self.open = asyncio.Event()
        self.open.set()

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        self.delays.append(seconds)
        await asyncio.sleep(0.001)
        await self.open.wait()


@pytest.fixture
def waits():
    return Waits()


@pytest.fixture
async def follow(api, waits):
    """Start a reflector of a kind; it is stopped at the end."""
    tasks = []

    def start(kind="TrainJob", **pace):
        mirror = reflector.Reflector(
            kinds.KINDS[kind], api, reflector.Pace(clock=waits.clock, sleep=waits.sleep, **pace)
        )
        tasks.append(asyncio.create_task(mirror.run()))
        return mirror

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def watching(follow, server, until):
    """Start a reflector and wait until it watches."""

    async def start(kind="TrainJob", **pace):
        mirror = follow(kind, **pace)
        await until(lambda: mirror.synced and server.watchers(kinds.KINDS[kind].served))
        return mirror

    return start


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == reflector.__name__]


def problems(caplog, level=logging.WARNING):
    return [record.problem for record in caplog.records if record.levelno >= level and hasattr(record, "problem")]


async def test_all_pages_of_a_list_are_held(server, watching, trainjob):
    for number in range(MANY):
        server.put(trainjob(f"job-{number}"))
    mirror = await watching()
    assert len(mirror.store) == MANY
    assert [query.get("continue") for query in server.queries("list")] == [None, "100", "200"]


async def test_changes_after_the_list_are_followed(server, watching, trainjob, until):
    mirror = await watching()
    server.put(trainjob())
    await until(lambda: mirror.store.get(JOB))
    server.put(trainjob(numNodes=4))
    await until(lambda: mirror.store.get(JOB)["spec"].get("numNodes") == 4)
    server.delete("TrainJob", "llama", "team-a")
    await until(lambda: mirror.store.get(JOB) is None)


async def test_only_snapshots_are_held_of_all_configmaps(server, watching, snapshot, until):
    server.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "team-a"}})
    server.put(snapshot("kind: TrainingRuntime\nmetadata: {name: trl}"))
    mirror = await watching("RuntimeSnapshot")
    assert len(mirror.store) == 1
    server.put(snapshot("kind: TrainingRuntime\nmetadata: {name: new}", trainjob="other"))
    await until(lambda: len(mirror.store) == 2)
    assert mirror.store.get(readers.Ref("RuntimeSnapshot", "team-a", "other"))["metadata"]["name"] == "new"


async def test_of_all_claims_only_those_of_profiles_are_asked_for(server, watching, until):
    await watching("ResourceClaim")
    await until(lambda: server.count("watch"))
    assert {query.get("labelSelector") for query in server.queries("list")} == {"muster.dev/profile"}
    assert {query.get("labelSelector") for query in server.queries("watch")} == {"muster.dev/profile"}


async def test_other_kinds_are_asked_for_whole(server, watching, until):
    await watching()
    await until(lambda: server.count("watch"))
    assert all("labelSelector" not in query for verb in ("list", "watch") for query in server.queries(verb))


async def test_a_watch_asks_for_bookmarks_and_for_a_random_end(server, watching, until):
    await watching()
    for ended in range(5):
        server.send("TrainJob", None)
        await until(lambda ended=ended: server.count("watch") == ended + 2)
    lengths = {int(query["timeoutSeconds"]) for query in server.queries("watch")}
    assert all(query["allowWatchBookmarks"] == "true" for query in server.queries("watch"))
    assert len(lengths) > 1
    assert all(240 <= length <= 480 for length in lengths)


async def test_a_watch_that_ends_goes_on_from_the_last_bookmark_without_a_list(server, watching, until):
    mirror = await watching()
    server.bookmark("TrainJob")
    server.send("TrainJob", None)
    await until(lambda: server.count("watch") == 2)
    assert server.queries("watch")[1]["resourceVersion"] == str(server.version)
    assert server.count("list") == 1
    assert mirror.problem == ""


async def test_a_broken_connection_resumes_and_loses_no_event(server, watching, waits, trainjob, until, caplog):
    mirror = await watching()
    waits.open.clear()
    server.send("TrainJob", ConnectionResetError())
    await until(lambda: not server.watchers("TrainJob"))
    server.put(trainjob())
    waits.open.set()
    await until(lambda: mirror.store.get(JOB))
    assert server.count("list") == 1
    assert "the answer broke off" in problems(caplog)[0]
    assert mirror.problem == ""


async def test_a_version_that_was_compacted_away_lists_again_and_is_no_problem(
    server, watching, trainjob, until, caplog
):
    server.put(trainjob())
    mirror = await watching()
    server.remove_silently("TrainJob", "llama", "team-a")
    server.forget_history()
    server.send("TrainJob", None)
    await until(lambda: mirror.store.get(JOB) is None)
    assert server.count("list") == 2
    assert problems(caplog) == []


async def test_gone_as_an_http_status_lists_again(server, watching, refuse, until):
    await watching()
    server.fault("watch", refuse(410))
    server.send("TrainJob", None)
    await until(lambda: server.count("list") == 2)


async def test_old_objects_stay_readable_until_a_new_list_is_complete(server, watching, trainjob, until):
    server.put(trainjob())
    for number in range(120):
        server.put(trainjob(f"job-{number}"))
    mirror = await watching()
    blocked, release = asyncio.Event(), asyncio.Event()

    async def first_page(request):
        return server._list(request, "trainjobs")

    async def second_page(_request):
        blocked.set()
        await release.wait()
        return web.json_response({"metadata": {"resourceVersion": "9999"}, "items": []})

    server.fault("list", first_page)
    server.fault("list", second_page)
    server.forget_history()
    server.version += 1
    server.oldest += 1
    server.send("TrainJob", None)
    await asyncio.wait_for(blocked.wait(), 5)
    assert len(mirror.store) == 121
    release.set()
    await until(lambda: len(mirror.store) == 100)


async def test_a_kind_that_is_not_served_is_synced_absent_and_looked_at_every_half_minute(
    server, follow, waits, until, caplog
):
    server.not_served.add("trainjobs")
    mirror = follow()
    await until(lambda: len(waits.delays) >= 5)
    assert mirror.synced
    assert mirror.absent
    assert all(24.0 <= delay <= 36.0 for delay in waits.delays)
    assert messages(caplog).count("cluster kind not served") == 1
    server.not_served.clear()
    await until(lambda: not mirror.problem)  # the server knows of a watch before the mirror has its answer
    assert not mirror.absent
    assert server.watchers("TrainJob")


async def test_a_kind_that_is_removed_takes_its_objects_along(server, watching, trainjob, until):
    server.put(trainjob())
    mirror = await watching()
    server.not_served.add("trainjobs")
    server.send("TrainJob", None)
    await until(lambda: mirror.absent)
    assert mirror.store.get(JOB) is None


@pytest.mark.parametrize("code", [401, 403])
async def test_a_denied_list_names_the_missing_rbac_and_is_not_synced(
    server, follow, refuse, waits, until, caplog, code
):
    for _ in range(8):
        server.fault("list", refuse(code, "trainjobs is forbidden"))
    mirror = follow()
    await until(lambda: len(waits.delays) >= 6)
    assert not mirror.synced
    (problem,) = problems(caplog, logging.ERROR)
    assert problem.startswith(f"HTTP {code}: trainjobs is forbidden")
    assert problem.endswith("needs: get, list, watch on trainjobs.trainer.kubeflow.org")
    assert all(delay <= 30.0 for delay in waits.delays)
    await until(lambda: mirror.synced)


async def test_a_request_to_wait_is_honoured(server, follow, refuse, waits, until):
    server.fault("list", refuse(429, "too many requests", {"Retry-After": "7"}))
    mirror = follow()
    await until(lambda: mirror.synced)
    assert waits.delays[0] >= 7.0


async def test_a_watch_that_is_refused_starts_over_with_a_list(server, follow, refuse, until):
    server.fault("watch", refuse(504, "Too large resource version"))
    follow()
    await until(lambda: server.count("watch") == 2)
    assert server.count("list") == 2


async def test_failures_in_a_row_wait_longer_and_a_settled_watch_ends_the_row(server, watching, waits, until):
    mirror = await watching()
    for ended in range(8):
        server.send("TrainJob", ConnectionResetError())
        await until(lambda ended=ended: server.watchers("TrainJob") and server.count("watch") == ended + 2)
    assert mirror._backoff.failures == 8
    await until(lambda: not mirror.problem)
    waits.now += 6
    server.send("TrainJob", ConnectionResetError())
    await until(lambda: mirror._backoff.failures == 1)


async def test_a_silent_watch_is_taken_for_dead_and_resumed(server, watching, until, caplog):
    await watching(silence=0.05)
    await until(lambda: server.count("watch") >= 2)
    assert server.count("list") == 1
    assert "the answer broke off" in problems(caplog)[0]


async def test_a_list_page_that_does_not_end_is_given_up(server, follow, until, caplog):
    async def drip(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    server.fault("list", drip)
    mirror = follow(page=0.2)
    await until(lambda: mirror.synced)
    assert server.count("list") >= 2
    assert set(problems(caplog)) == {"a page of trainjobs took more than 0.2 s"}


async def test_an_event_split_across_chunks_is_one_event(server, watching, trainjob, make_event, until):
    mirror = await watching()
    document = trainjob()
    document["metadata"]["resourceVersion"] = "500"
    line = make_event("ADDED", document)
    server.send("TrainJob", line[:10])
    await asyncio.sleep(0.02)
    server.send("TrainJob", line[10:60])
    server.send("TrainJob", line[60:] + line[:5])
    await until(lambda: mirror.store.get(JOB))
    server.send("TrainJob", line[5:])
    server.bookmark("TrainJob")
    await until(lambda: mirror._version == str(server.version))


async def test_an_event_over_the_cap_is_an_error_and_a_list(server, watching, monkeypatch, until, caplog):
    monkeypatch.setattr(reflector, "MAX_OBJECT", 1000)
    await watching()
    server.send("TrainJob", b"x" * 1001)
    await until(lambda: server.count("list") == 2)
    assert problems(caplog, logging.ERROR) == ["a watch event of trainjobs is larger than 0 KiB"]


async def test_a_page_over_the_cap_is_asked_for_in_smaller_pieces(server, follow, monkeypatch, trainjob, until):
    for number in range(40):
        server.put(trainjob(f"job-{number}"))
    monkeypatch.setattr(reflector, "MAX_PAGE", 3000)
    mirror = follow()
    await until(lambda: mirror.synced)
    assert len(mirror.store) == 40
    limits = [int(query["limit"]) for query in server.queries("list")]
    assert limits[:3] == [100, 25, 6]


@pytest.mark.parametrize("body", ["<html>log in</html>", "[]", "{}", '{"items": [{"metadata": {}}], "metadata": {}}'])
async def test_an_answer_that_is_not_kubernetes_is_reported_and_tried_again(server, follow, until, body, caplog):
    async def portal(_request):
        return web.Response(text=body)

    server.fault("list", portal)
    mirror = follow()
    await until(lambda: mirror.synced)
    assert problems(caplog)


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type": "SURPRISE", "object": {}}\n', b'{"type": "ADDED"}\n'])
async def test_an_event_that_is_not_kubernetes_starts_over_with_a_list(server, watching, until, line):
    await watching()
    server.send("TrainJob", line)
    await until(lambda: server.count("list") == 2)


async def test_an_error_inside_a_watch_starts_over_with_a_list(server, watching, make_event, until, caplog):
    await watching()
    server.send("TrainJob", make_event("ERROR", {"kind": "Status", "code": 500, "message": "etcd is away"}))
    await until(lambda: server.count("list") == 2)
    assert problems(caplog) == ["HTTP 500: etcd is away"]


async def test_each_problem_is_logged_once_and_so_is_its_end(server, follow, refuse, until, caplog):
    caplog.set_level(logging.INFO)
    for _ in range(5):
        server.fault("list", refuse(503, "starting"))
    mirror = follow()
    await until(lambda: mirror.synced and not mirror.problem)
    assert messages(caplog) == ["cluster contact failed", "cluster kind synced", "cluster contact restored"]


async def test_every_word_of_the_server_counts_as_contact(server, watching, waits, until):
    mirror = await watching()
    waits.now += 60
    assert waits.now - mirror.contact == 60
    server.bookmark("TrainJob")
    await until(lambda: mirror.contact == waits.now)
