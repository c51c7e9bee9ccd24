from __future__ import annotations

import asyncio
import random

import pytest
from msgspec import structs

from muster.strategies.platform.seats import Seat
from tests.controllers.documents import SHARED, jobset, pod

CLAIM = "muster-sampler-0"


async def test_a_pod_gets_a_seat_and_then_its_gate_is_opened(cluster):
    order = []
    cluster.server.watched = lambda plural, document: document and order.append((plural, open_of(document)))
    cluster.start()
    cluster.server.put(jobset("one", (CLAIM, 1)))
    cluster.server.put(pod("one-0", CLAIM, job="one"))
    await cluster.until(lambda: cluster.open() == ["one-0"])
    assert cluster.seats(CLAIM) == ["one-0"]
    changes = [each for each in order if each[0] in {"pods", "resourceclaims"}]
    assert changes.index(("resourceclaims", True)) < changes.index(("pods", True))
    await cluster.until(lambda: cluster.said("one-0"))
    assert cluster.said("one-0") == [("Seated", f"took a seat on ResourceClaim {CLAIM} (1 of 2 are taken)")]


def open_of(document):
    taken = document["metadata"].get("annotations", {}).get("muster.dev/seats")
    return taken != "{}" if taken else not document.get("spec", {}).get("schedulingGates")


async def test_a_third_pod_waits_is_told_for_whom_and_gets_the_seat_that_becomes_free(cluster):
    cluster.start()
    for name in ("a", "b", "c"):
        cluster.server.put(jobset(name, (CLAIM, 1)))
        cluster.server.put(pod(f"{name}-0", CLAIM, job=name))
    await cluster.until(lambda: cluster.said("c-0") and cluster.open() == ["a-0", "b-0"])
    ((reason, message),) = cluster.said("c-0")
    assert reason == "WaitingForSeat"
    assert message == f"waits for a seat: 2 of 2 seats of ResourceClaim {CLAIM} are taken by job a, job b"
    cluster.end("a-0")
    await cluster.until(lambda: cluster.open() == ["b-0", "c-0"])
    assert cluster.seats(CLAIM) == ["b-0", "c-0"]


@pytest.mark.parametrize("how", ["Failed", "deleted"])
async def test_a_seat_is_free_when_its_pod_has_failed_or_is_gone(cluster, how):
    cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    cluster.server.put(pod("a-0", CLAIM, job="a"))
    await cluster.until(lambda: cluster.open() == ["a-0"])
    if how == "deleted":
        cluster.server.remove("Pod", "a-0", "team-a")
    else:
        cluster.end("a-0", how)
    await cluster.until(lambda: cluster.seats(CLAIM) == [])


async def test_a_seat_of_a_pod_that_lost_its_label_is_kept_while_it_lives(cluster):
    cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    made = cluster.server.put(pod("a-0", CLAIM, job="a"))
    await cluster.until(lambda: cluster.open() == ["a-0"])
    made = cluster.server.get("Pod", "a-0", "team-a")
    cluster.server.put({**made, "metadata": {**made["metadata"], "labels": {}}})
    await asyncio.sleep(0.8)  # longer than a resync
    assert cluster.seats(CLAIM) == ["a-0"]
    cluster.server.remove("Pod", "a-0", "team-a")
    await cluster.until(lambda: cluster.seats(CLAIM) == [])


async def test_a_pod_that_somebody_let_in_takes_a_seat(cluster):
    cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    cluster.server.put(pod("wild", CLAIM, gated=False, phase="Running"))
    await cluster.until(lambda: cluster.seats(CLAIM) == ["wild"])


async def test_a_job_larger_than_its_claim_is_told_so(cluster):
    cluster.start()
    cluster.server.put(jobset("big", (CLAIM, 3)))
    for number in range(3):
        cluster.server.put(pod(f"big-{number}", CLAIM, job="big"))
    await cluster.until(lambda: cluster.said("big-2") and cluster.open() == ["big-0", "big-1"])
    ((reason, message),) = cluster.said("big-2")
    assert reason == "NeverWhole"
    assert "job big has 3 or more pods on a claim of 2 seats" in message
    assert "raise maxSessions of profile sampler" in message


async def test_a_pod_with_two_claims_is_let_in_when_it_has_both_seats(cluster):
    cluster.profiles = {"sampler": structs.replace(SHARED, max_sessions=1)}
    cluster.start()
    other = "muster-sampler-1"
    cluster.server.put(jobset("x", (other, 1)))
    cluster.server.put(pod("x-0", other, job="x"))
    await cluster.until(lambda: cluster.open() == ["x-0"])
    cluster.server.put(pod("both", CLAIM, other))
    await cluster.until(lambda: cluster.seats(CLAIM) == ["both"])
    await cluster.quiet()
    assert cluster.open() == ["x-0"]
    cluster.end("x-0")
    await cluster.until(lambda: cluster.open() == ["both"])


async def test_unreadable_seats_are_made_again_from_the_pods_that_are_in(cluster):
    cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    cluster.server.put(pod("a-0", CLAIM, job="a"))
    await cluster.until(lambda: cluster.open() == ["a-0"])
    claim = cluster.server.get("ResourceClaim", CLAIM, "team-a")
    annotations = {**claim["metadata"]["annotations"], "muster.dev/seats": "oops"}
    cluster.server.put({**claim, "metadata": {**claim["metadata"], "annotations": annotations}})

    def mended():
        text = cluster.server.get("ResourceClaim", CLAIM, "team-a")["metadata"]["annotations"]["muster.dev/seats"]
        return text != "oops" and cluster.seats(CLAIM) == ["a-0"]

    await cluster.until(mended)


async def test_unreadable_seats_of_an_empty_claim_are_made_again(cluster):
    cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    await cluster.until(lambda: cluster.seats(CLAIM) == [])
    claim = cluster.server.get("ResourceClaim", CLAIM, "team-a")
    annotations = {**claim["metadata"]["annotations"], "muster.dev/seats": "[]"}
    cluster.server.put({**claim, "metadata": {**claim["metadata"], "annotations": annotations}})

    def mended():
        found = cluster.server.get("ResourceClaim", CLAIM, "team-a")
        return found["metadata"]["annotations"]["muster.dev/seats"] == "{}"

    await cluster.until(mended)


async def test_a_profile_that_is_gone_seats_nobody_and_says_so(cluster):
    cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    await cluster.until(lambda: cluster.seats(CLAIM) == [])
    cluster.profiles = {}
    await asyncio.sleep(0.1)
    cluster.server.put(pod("a-0", CLAIM, job="a"))
    await cluster.until(lambda: cluster.said("a-0"))
    assert cluster.open() == []
    message = cluster.said("a-0")[0][1]
    assert "takes no further jobs" in message
    assert message.endswith(f"0 of 0 seats of ResourceClaim {CLAIM} are taken by nobody")


async def test_a_controller_that_dies_between_seat_and_gate_leaves_nothing_undone(cluster):
    first = cluster.start()

    def cut(plural, _document):
        taken = cluster.seats(CLAIM)
        first.connection.cut = first.connection.cut or (plural == "resourceclaims" and bool(taken))

    cluster.server.watched = cut
    cluster.server.put(jobset("a", (CLAIM, 1)))
    cluster.server.put(pod("a-0", CLAIM, job="a"))
    await cluster.until(lambda: first.connection.cut)
    await first.stop()
    assert (cluster.seats(CLAIM), cluster.open()) == (["a-0"], [])
    cluster.start()
    await cluster.until(lambda: cluster.open() == ["a-0"])
    assert cluster.seats(CLAIM) == ["a-0"]


@pytest.mark.parametrize("seed", range(3))
async def test_fifty_pods_and_eight_controllers_that_all_write_never_take_a_thirteenth_seat(cluster, seed):
    cluster.server.rng = random.Random(seed)  # noqa: S311 - the same in every run
    cluster.server.pause, cluster.server.lag = 0.002, 0.02
    cluster.profiles = {"sampler": structs.replace(SHARED, max_sessions=3, claims=4)}
    most, ever = {}, set()

    def look(plural, _document):
        if plural == "pods":
            ever.update(cluster.open())
            for claim, count in cluster.open_by_claim().items():
                most[claim] = max(most.get(claim, 0), count)

    cluster.server.watched = look
    everyone = [cluster.start() for _ in range(8)]
    rng = random.Random(seed)  # noqa: S311 - the same in every run
    for number in range(50):
        name, claim = f"job{number}", f"muster-sampler-{number % 4}"
        stamp = f"2026-11-21T11:{rng.randrange(60):02d}:00Z"  # whom each controller sees first differs
        cluster.server.put(jobset(name, (claim, 1)))
        cluster.server.put(pod(f"{name}-0", claim, job=name, creationTimestamp=stamp))
        await asyncio.sleep(rng.uniform(0, 0.02))
        if number == 30:
            everyone[seed].connection.cut = True  # as killed: it neither writes nor hears any more
        if rng.random() < 0.3:
            end_one(cluster, rng)
    await cluster.until(lambda: len(cluster.open()) == 12)
    while len(ever) < 50 or cluster.open():
        end_one(cluster, rng)
        await asyncio.sleep(0.01)
    await cluster.until(lambda: all(cluster.seats(f"muster-sampler-{number}") == [] for number in range(4)))
    assert most == {f"muster-sampler-{number}": 3 for number in range(4)}


def end_one(cluster, rng):
    if pods := cluster.open():
        name = rng.choice(pods)
        cluster.server.remove("Pod", name, "team-a") if rng.random() < 0.5 else cluster.end(name)


async def test_a_seat_that_another_took_an_instant_before_is_respected(cluster):
    cluster.profiles = {"sampler": structs.replace(SHARED, max_sessions=1)}
    cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    await cluster.until(lambda: cluster.seats(CLAIM) == [])

    def rival(method, plural):
        if (method, plural) == ("PATCH", "resourceclaims"):
            cluster.server.faults = lambda _method, _plural: None
            uid = cluster.server.put(pod("rival", CLAIM, gated=False))["metadata"]["uid"]
            cluster.take(CLAIM, {uid: Seat("rival", "", "2026-11-21T12:00:00Z")})

    cluster.server.faults = rival
    cluster.server.put(pod("a-0", CLAIM, job="a"))
    await cluster.until(lambda: cluster.said("a-0"))
    assert cluster.open() == ["rival"]
    assert cluster.seats(CLAIM) == ["rival"]
    cluster.end("rival")
    await cluster.until(lambda: cluster.open() == ["a-0"])


async def test_a_status_that_changes_all_the_time_keeps_nobody_from_a_seat(cluster):
    cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    await cluster.until(lambda: cluster.seats(CLAIM) == [])

    def storm(method, plural):
        if (method, plural) == ("PATCH", "resourceclaims"):
            cluster.server.put({**cluster.server.get("ResourceClaim", CLAIM, "team-a"), "status": {"reservedFor": []}})

    cluster.server.faults = storm
    cluster.server.put(pod("a-0", CLAIM, job="a"))
    await cluster.until(lambda: cluster.open() == ["a-0"])
