from __future__ import annotations

import time

from msgspec import structs

from muster.webhook.controllers import desired
from tests.controllers.apiservers import RefusedError
from tests.controllers.documents import DEDICATED, SHARED, jobset, namespace, pod


def claims(cluster, space="team-a"):
    everything = cluster.server.all("ResourceClaim") + cluster.server.all("ResourceClaimTemplate")
    return sorted(each["metadata"]["name"] for each in everything if each["metadata"]["namespace"] == space)


BOTH = ["muster-sampler-0", "muster-sampler-1"]


async def test_a_job_brings_the_objects_of_its_profiles_into_its_namespace(cluster):
    cluster.start()
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    await cluster.until(lambda: claims(cluster) == BOTH)
    cluster.server.put(jobset("two", ("muster-trainer", 1), profile="trainer"))
    await cluster.until(lambda: claims(cluster) == [*BOTH, "muster-trainer"])
    await cluster.quiet()
    assert sum(method == "POST" and plural != "events" for method, plural, *_ in cluster.server.log) == 3


async def test_a_job_that_is_there_before_the_controllers_gets_its_objects(cluster):
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    cluster.start()
    await cluster.until(lambda: claims(cluster) == BOTH)


async def test_a_namespace_gets_objects_ahead_by_its_annotation(cluster):
    cluster.start()
    cluster.server.put(namespace("team-b", {"muster.dev/profiles": "trainer"}))
    await cluster.until(lambda: claims(cluster, "team-b") == ["muster-trainer"])
    assert claims(cluster) == []


async def test_when_all_jobs_are_gone_everything_is_removed_after_the_grace(cluster):
    cluster.start(grace=0.3)
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    await cluster.until(lambda: claims(cluster) == BOTH)
    since = time.monotonic()
    cluster.server.remove("JobSet", "one", "team-a")
    await cluster.until(lambda: claims(cluster) != BOTH)
    assert time.monotonic() - since >= 0.3
    await cluster.until(lambda: claims(cluster) == [])


async def test_a_job_that_has_ended_asks_for_nothing_any_more(cluster):
    cluster.start()
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    await cluster.until(lambda: claims(cluster) == BOTH)
    cluster.server.put(jobset("one", ("muster-sampler-0", 1), status={"terminalState": "Completed"}))
    await cluster.until(lambda: claims(cluster) == [])


async def test_a_claim_that_is_deleted_by_hand_is_made_again(cluster):
    cluster.start()
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    await cluster.until(lambda: claims(cluster) == BOTH)
    cluster.server.remove("ResourceClaim", "muster-sampler-0", "team-a")
    await cluster.until(lambda: claims(cluster) == BOTH)


async def test_a_changed_profile_replaces_free_claims_and_leaves_those_in_use(cluster):
    cluster.start()
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    cluster.server.put(pod("one-0", "muster-sampler-0", job="one"))
    await cluster.until(lambda: cluster.open() == ["one-0"])
    kept = cluster.server.get("ResourceClaim", "muster-sampler-0", "team-a")["metadata"]["uid"]
    cluster.profiles = {"sampler": structs.replace(SHARED, count=4)}
    await cluster.until(lambda: count(cluster, "muster-sampler-1") == 4)
    await cluster.quiet()
    assert cluster.server.get("ResourceClaim", "muster-sampler-0", "team-a")["metadata"]["uid"] == kept
    assert cluster.seats("muster-sampler-0") == ["one-0"]
    cluster.end("one-0")
    await cluster.until(lambda: count(cluster, "muster-sampler-0") == 4)


def count(cluster, name):
    found = cluster.server.get("ResourceClaim", name, "team-a")
    return found and found["spec"]["devices"]["requests"][0]["exactly"]["count"]


async def test_changes_are_followed_long_before_everything_is_looked_at_again(cluster):
    cluster.start(resync=3600)
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    await cluster.until(lambda: claims(cluster) == BOTH)
    for number in (4, 2):
        cluster.profiles = {"sampler": structs.replace(SHARED, count=number)}
        await cluster.until(lambda: count(cluster, "muster-sampler-1") == number)  # noqa: B023 - waited for here


async def test_a_changed_profile_replaces_its_template(cluster):
    cluster.start()
    cluster.server.put(jobset("two", ("muster-trainer", 1), profile="trainer"))
    await cluster.until(lambda: claims(cluster) == ["muster-trainer"])
    cluster.profiles = {"trainer": structs.replace(DEDICATED, count=8)}

    def replaced():
        found = cluster.server.get("ResourceClaimTemplate", "muster-trainer", "team-a")
        return found and found["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 8

    await cluster.until(replaced)


async def test_an_object_of_somebody_else_is_left_alone_and_reported(cluster):
    theirs = desired.made("team-a", "muster-sampler-0", SHARED)
    theirs["metadata"]["labels"] = {"muster.dev/profile": "sampler"}
    before = cluster.server.put(theirs)["metadata"]["resourceVersion"]
    cluster.start()
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    cluster.server.put(pod("one-0", "muster-sampler-0", job="one"))
    await cluster.until(lambda: cluster.said("muster-sampler-0"))
    await cluster.quiet()
    ((reason, message),) = cluster.said("muster-sampler-0")
    assert reason == "NameTaken"
    assert "was not made by Muster" in message
    assert cluster.server.get("ResourceClaim", "muster-sampler-0", "team-a")["metadata"]["resourceVersion"] == before
    assert cluster.open() == []


async def test_a_namespace_that_is_being_deleted_gets_nothing_and_no_end_of_tries(cluster):
    cluster.server.put(namespace("team-b", deleting=True))
    cluster.start()
    cluster.server.put(jobset("one", ("muster-sampler-0", 1), space="team-b"))
    await cluster.quiet()
    assert cluster.server.log == []


async def test_a_namespace_that_is_not_known_yet_gets_nothing(cluster):
    cluster.start()
    cluster.server.put(jobset("one", ("muster-sampler-0", 1), space="team-c"))
    await cluster.quiet()
    assert cluster.server.log == []


async def test_a_namespace_that_begins_to_be_deleted_meanwhile_is_no_error_loop(cluster, caplog):
    cluster.start()
    await cluster.quiet(0.05)
    tries = []

    def terminating(method, plural):
        if method == "POST" and plural == "resourceclaims":
            tries.append(plural)
            raise RefusedError(403, "forbidden: unable to create: namespace team-a is being terminated")

    cluster.server.faults = terminating
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    await cluster.until(lambda: tries)
    await cluster.quiet()
    assert len(tries) <= 6  # resyncs
    assert "to be done again" not in caplog.text


async def test_an_api_server_that_fails_is_tried_again(cluster):
    left = [RefusedError(500, "etcd is slow"), RefusedError(429, "later"), RefusedError(409, "conflict")]

    def failing(method, plural):
        if method == "POST" and plural == "resourceclaims" and left:
            raise left.pop()

    cluster.server.faults = failing
    cluster.start()
    cluster.server.put(jobset("one", ("muster-sampler-0", 1)))
    await cluster.until(lambda: claims(cluster) == BOTH)
