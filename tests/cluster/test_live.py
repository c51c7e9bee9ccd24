from __future__ import annotations

import asyncio

import pytest

from muster.webhook.cluster import fetches, kinds, live, readers, reflector

JOB = readers.Ref("TrainJob", "team-a", "llama")
CLAIM = readers.Ref("ResourceClaimTemplate", "team-a", "gpus")
SERVED_LATE = {"trainjobs", "trainingruntimes", "clustertrainingruntimes", "resourceclaimtemplates"}


@pytest.fixture
async def reader(api):
    made = live.LiveReader(kinds.KINDS.values(), api)
    yield made
    await made.stop()


async def test_what_is_cached_is_an_answer(server, reader, trainjob, until):
    server.put(trainjob())
    reader.start()
    await until(lambda: reader.synced)
    assert reader.get(JOB)["spec"] == trainjob()["spec"]
    assert server.count("get") == 0


async def test_what_is_not_cached_is_a_question_even_after_the_list(reader, until):
    reader.start()
    await until(lambda: reader.synced)
    with pytest.raises(readers.NotCached) as asked:
        reader.get(JOB)
    assert asked.value.ref == JOB
    assert await reader.fetch(JOB) is None


async def test_an_optional_kind_that_is_not_served_is_absent_and_no_question(server, reader, until):
    server.not_served.update(SERVED_LATE)
    reader.start()
    await until(lambda: reader.synced)
    assert reader.get(CLAIM) is None
    with pytest.raises(readers.NotCached):
        reader.get(JOB)
    assert set(reader.problems()) == {
        "TrainJob",
        "TrainingRuntime",
        "ClusterTrainingRuntime",
        "ResourceClaimTemplate",
    }


async def test_an_optional_kind_that_is_served_is_a_question_like_the_others(reader, until):
    reader.start()
    await until(lambda: reader.synced)
    with pytest.raises(readers.NotCached):
        reader.get(CLAIM)


async def test_one_kind_without_access_keeps_the_reader_from_being_synced(server, reader, refuse, until):
    for _ in range(50):
        server.fault("list", refuse(403))
    reader.start()
    await until(lambda: len(reader.problems()) == len(kinds.KINDS))
    assert not reader.synced


async def test_a_kind_that_is_not_watched_is_always_a_question_and_can_be_fetched(server, api, snapshot):
    reader = live.LiveReader([], api)
    ref = readers.Ref("RuntimeSnapshot", "team-a", "llama")
    server.put(snapshot("kind: TrainingRuntime\nmetadata: {name: trl}"))
    with pytest.raises(readers.NotCached):
        reader.get(ref)
    assert (await reader.fetch(ref))["metadata"]["name"] == "trl"
    await reader.stop()


async def test_an_unknown_kind_is_an_error_and_no_question(reader):
    with pytest.raises(readers.UnknownKindError):
        reader.get(readers.Ref("Pod", "team-a", "x"))
    with pytest.raises(readers.UnknownKindError):
        await reader.fetch(readers.Ref("Pod", "team-a", "x"))


async def ready(reader, until):
    reader.start()
    await until(lambda: reader.synced)


async def heard(server, reader, trainjob, until):
    """Wait until the reader has heard from its watch: the clock of its last contact stands from then on."""
    await until(lambda: server.watchers("TrainJob"))
    server.put(trainjob("heard"))
    await until(lambda: "heard" in [each["metadata"]["name"] for each in reader.every("TrainJob", {})])


async def test_all_cached_documents_of_a_kind_are_known_once_it_was_listed(server, reader, trainjob, until):
    server.put(trainjob("a"))
    server.put(trainjob("b"))
    assert reader.every("TrainJob", {}) is None
    await ready(reader, until)
    assert sorted(each["metadata"]["name"] for each in reader.every("TrainJob", {})) == ["a", "b"]
    with pytest.raises(readers.UnknownKindError):
        reader.every("Pod", {})


async def test_nobody_says_that_these_are_all_while_the_watch_is_broken(server, reader, trainjob, refuse, until):
    server.put(trainjob())
    await ready(reader, until)
    for _ in range(50):
        server.fault("watch", refuse(403))
    server.send("TrainJob", None)
    await until(lambda: "TrainJob" in reader.problems())
    assert reader.every("TrainJob", {}) is None


async def test_what_was_cached_is_asked_for_again_while_its_watch_is_broken(server, reader, trainjob, refuse, until):
    server.put(trainjob())
    await ready(reader, until)
    for _ in range(50):
        server.fault("watch", refuse(500))
    server.send("TrainJob", None)
    await until(lambda: "TrainJob" in reader.problems())
    with pytest.raises(readers.NotCached):
        reader.get(JOB)
    assert (await reader.fetch(JOB))["spec"] == trainjob()["spec"]
    assert server.count("get") == 1


async def test_when_the_server_is_gone_the_old_answer_is_given_and_for_a_while_nobody_is_asked(
    server, api, clock, trainjob, until
):
    reader = live.LiveReader(kinds.KINDS.values(), api, pace=reflector.Pace(clock=clock))
    server.put(trainjob())
    await ready(reader, until)
    await server.stop()
    await until(lambda: len(reader.problems()) == len(kinds.KINDS))
    with pytest.raises(readers.NotCached):
        reader.get(JOB)
    assert (await reader.fetch(JOB))["spec"] == trainjob()["spec"]
    assert reader.get(JOB)["spec"] == trainjob()["spec"]
    clock.now += live.ASK_AGAIN
    with pytest.raises(readers.NotCached):
        reader.get(JOB)
    await reader.stop()


async def test_a_fetch_that_was_not_sent_says_nothing_about_the_server_and_the_next_review_asks(
    server, api, clock, gate, trainjob, until
):
    reader = live.LiveReader(kinds.KINDS.values(), api, 30, pace=reflector.Pace(clock=clock))
    server.put(trainjob())
    await ready(reader, until)
    await heard(server, reader, trainjob, until)
    clock.now += live.SILENT + 1
    others = [JOB._replace(name=f"job-{number}") for number in range(fetches.MAX_FLIGHTS)]
    for _ in others:
        server.fault("get", gate)
    under_way = [asyncio.create_task(reader.fetch(each)) for each in others]
    await until(lambda: server.count("get") == fetches.MAX_FLIGHTS)
    assert (await reader.fetch(JOB))["spec"] == trainjob()["spec"]
    with pytest.raises(readers.NotCached):
        reader.get(JOB)
    gate.open.set()
    await asyncio.gather(*under_way)
    await reader.stop()


async def test_what_was_never_cached_is_refused_when_the_server_is_gone(server, reader, until):
    await ready(reader, until)
    await server.stop()
    with pytest.raises(readers.ClusterUnavailable):
        await reader.fetch(JOB)


async def test_a_watch_that_says_nothing_is_doubted_long_before_it_is_taken_for_dead(
    server, api, clock, trainjob, until
):
    reader = live.LiveReader(kinds.KINDS.values(), api, pace=reflector.Pace(clock=clock))
    server.put(trainjob())
    await ready(reader, until)
    await heard(server, reader, trainjob, until)
    clock.now += live.SILENT - 1
    assert reader.get(JOB) is not None
    clock.now += 2
    with pytest.raises(readers.NotCached):
        reader.get(JOB)
    server.bookmark("TrainJob")
    await until(lambda: reader.ages()["TrainJob"] == 0)
    assert reader.get(JOB) is not None
    await reader.stop()


async def test_there_is_one_age_for_each_watched_kind(reader):
    assert set(reader.ages()) == set(kinds.KINDS)
    assert all(age >= 0 for age in reader.ages().values())


async def test_starting_twice_is_an_error_and_stopping_twice_is_not(reader, until):
    reader.start()
    with pytest.raises(RuntimeError, match="already started"):
        reader.start()
    await reader.stop()
    await reader.stop()
    reader.start()
    await until(lambda: reader.synced)


SPACES = ("team-a", "team-b")


async def test_of_named_namespaces_alone_objects_are_asked_for_and_kept(server, api, trainjob, until):
    reader = live.LiveReader(kinds.KINDS.values(), api, namespaces=SPACES)
    server.forbidden.update(kind.path() for kind in kinds.KINDS.values() if kind.namespaced)
    for space in (*SPACES, "team-c"):
        server.put(_in(space, trainjob("llama")))
    reader.start()
    await until(lambda: reader.synced)
    assert not reader.problems()
    assert [reader.get(readers.Ref("TrainJob", space, "llama"))["metadata"]["namespace"] for space in SPACES] == [
        *SPACES
    ]
    assert sorted(each["metadata"]["namespace"] for each in reader.every("TrainJob", {})) == [*SPACES]
    assert reader.figure("entries")["TrainJob"] == 2
    with pytest.raises(readers.NotCached):
        reader.get(readers.Ref("TrainJob", "team-c", "llama"))
    await reader.stop()


async def test_a_change_in_one_of_the_namespaces_is_followed(server, api, trainjob, until):
    reader = live.LiveReader(kinds.KINDS.values(), api, namespaces=SPACES)
    await ready(reader, until)
    server.put(_in("team-b", trainjob("late")))
    await until(lambda: [each["metadata"]["name"] for each in reader.every("TrainJob", {})] == ["late"])
    await reader.stop()


async def test_one_namespace_without_access_keeps_the_reader_from_being_synced(server, api, until):
    server.forbidden.add(kinds.KINDS["TrainJob"].path("team-b"))
    reader = live.LiveReader(kinds.KINDS.values(), api, namespaces=SPACES)
    reader.start()
    await until(lambda: set(reader.problems()) == {"TrainJob"})
    assert not reader.synced
    assert reader.every("TrainJob", {}) is None
    await reader.stop()


async def test_the_namespaces_share_the_memory_of_one_limit(api):
    whole, parts = (live.LiveReader(kinds.KINDS.values(), api, namespaces=each) for each in ((), SPACES))
    assert whole.figure("limit_bytes") == parts.figure("limit_bytes")


def _in(space, document):
    return {**document, "metadata": {**document["metadata"], "namespace": space}}
