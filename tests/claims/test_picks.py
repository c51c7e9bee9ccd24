"""Many jobs at once are spread over the claims before any of their pods has a seat."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections import Counter

import orjson
import pytest
from msgspec import structs

from muster.strategies.platform.seats import seat_entries
from muster.strategies.platform.supplies import holders
from muster.webhook.admission import decisions, reviews
from muster.webhook.cluster import readers
from muster.webhook.metrics import Metrics
from muster.webhook.server import picks
from muster.webhook.server.resolvers import Asked, Resolver
from tests.support import admissions, devices, jobs

CLASS = devices.device_class()


class Uncached:
    """A live cluster in which nobody has made the claims yet."""

    whole = True

    def __init__(self, *documents):
        self._known = admissions.make_reader(*documents)

    def get(self, ref):
        found = self._known.get(ref)
        if found is None and ref.kind == "ResourceClaim":
            raise readers.NotCached(ref)
        return found


@pytest.fixture
def resolver():
    return lambda cluster: Resolver(cluster, None, Metrics())


def sampler(name, nodes=1):
    metadata = {**devices.annotated(profile="seats"), "labels": {jobs.FRAMEWORK: "vllm"}}
    return jobs.make_jobset(name, metadata=metadata, container={"args": ["--model=m"]}, nodes=nodes)


async def chosen(resolver, document, **review):
    body = orjson.dumps(admissions.make_review(document, **review))
    document = patched(document, await resolver.resolve(Asked(reviews.parse(body, "mutate"), devices.policy(), 0.0)))
    (entry,) = devices.pod_of(document)["resourceClaims"]
    return entry["resourceClaimName"]


def patched(document, ending):
    response = orjson.loads(ending.body)["response"]
    assert response["allowed"]
    return admissions.patched(document, response)


@pytest.mark.parametrize("cluster", [admissions.make_reader(CLASS), Uncached(CLASS)], ids=["empty", "not cached"])
async def test_jobs_that_come_together_are_spread_evenly(resolver, cluster):
    one = resolver(cluster)
    claims = await asyncio.gather(*(chosen(one, sampler(f"job-{number}")) for number in range(6)))
    assert Counter(claims) == {"muster-seats-0": 2, "muster-seats-1": 2, "muster-seats-2": 2}


async def test_a_job_of_two_pods_takes_two_seats(resolver):
    one = resolver(admissions.make_reader(CLASS))
    claims = [await chosen(one, sampler(f"job-{number}", nodes)) for number, nodes in enumerate((2, 1, 1, 1))]
    assert claims == ["muster-seats-0", "muster-seats-1", "muster-seats-2", "muster-seats-1"]


async def test_seats_that_are_taken_meanwhile_are_not_counted_twice(resolver):
    cluster = admissions.make_reader(CLASS)
    one = resolver(cluster)
    assert await chosen(one, sampler("first")) == "muster-seats-0"
    for number in range(3):
        cluster.add(devices.seated(f"muster-seats-{number}", "pod", job="first" if number == 0 else "other"))
    assert await chosen(one, sampler("second")) == "muster-seats-0"


async def test_a_rehearsal_and_another_namespace_count_for_nothing(resolver):
    one = resolver(admissions.make_reader(CLASS))
    assert await chosen(one, sampler("a"), dryRun=True) == "muster-seats-0"
    elsewhere = sampler("a")
    elsewhere["metadata"]["namespace"] = "team-b"
    assert await chosen(one, elsewhere, namespace="team-b") == "muster-seats-0"
    assert await chosen(one, sampler("a")) == "muster-seats-0"


def test_a_pick_is_forgotten_when_its_pods_must_have_come():
    now = 0.0
    recent = picks.Picks(lambda: now)
    decision = admissions.decide(sampler("a"), CLASS, policy=devices.policy())
    recent.note(decision.request, picks.given(decision))

    def seen():
        overlay = picks.Overlay(admissions.make_reader(CLASS))
        recent.show(decision.request, overlay)
        return overlay.get(readers.Ref("ResourceClaim", jobs.NAMESPACE, "muster-seats-0"))

    assert "a pod to come" in seen()["metadata"]["annotations"]["muster.dev/seats"]
    now = picks.REMEMBERED
    assert seen() is None


async def test_the_validation_of_a_strict_job_does_not_find_its_own_seat_taken(resolver):
    one = resolver(admissions.make_reader(CLASS))
    policy = devices.policy(devices.Profile("strict", devices.CLASS, sharing="shared", when_full="deny"))
    document = sampler("a")
    document["metadata"]["annotations"] = {devices.PROFILE: "strict"}
    for phase in ("mutate", "validate"):
        request = reviews.parse(orjson.dumps(admissions.make_review(document)), phase)
        document = patched(document, await one.resolve(Asked(request, policy, 0.0)))


def noted(recent, document, **review):
    request = reviews.parse(orjson.dumps(admissions.make_review(document, **review)), "mutate")
    cluster = admissions.make_reader(CLASS)
    overlay = picks.Overlay(cluster)
    recent.show(request, overlay)
    decision = decisions.evaluate(request, overlay, devices.policy())
    recent.note(request, picks.given(decision))
    return decision


def shown(recent, namespace=jobs.NAMESPACE):
    """Return the entries of the first claim, as the next job of the namespace sees them."""
    document = sampler("next")
    document["metadata"]["namespace"] = namespace
    request = reviews.parse(orjson.dumps(admissions.make_review(document, namespace=namespace)), "mutate")
    overlay = picks.Overlay(admissions.make_reader(CLASS))
    recent.show(request, overlay)
    claim = overlay.get(readers.Ref("ResourceClaim", namespace, "muster-seats-0"))
    return seat_entries(claim or {})


def test_the_seats_of_a_job_are_one_entry_with_their_number():
    recent = picks.Picks()
    noted(recent, sampler("a", nodes=2))
    assert shown(recent) == {"pick-0": {"pod": "2 pods to come", "job": "a", "seats": 2}}
    assert sum(holder.seats for holder in holders(seated_by(shown(recent)))) == 2


def seated_by(entries):
    return {"metadata": {"annotations": {"muster.dev/seats": json.dumps(entries)}}}


@pytest.mark.parametrize(("replicas", "parallelism"), [(1, 3_000_000), (10**9, 10**9), (4, 1)])
def test_a_job_that_can_never_be_seated_is_not_noted_however_many_pods_it_has(replicas, parallelism):
    recent = picks.Picks()
    document = sampler("a")
    (job,) = document["spec"]["replicatedJobs"]
    job["replicas"], job["template"]["spec"]["parallelism"] = replicas, parallelism
    tracemalloc.start()
    try:
        assert noted(recent, document).verdict == "patched"
        assert shown(recent) == {}
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


def test_the_picks_of_one_namespace_are_limited_and_push_out_no_others():
    recent = picks.Picks()
    noted(recent, sampler("quiet"))
    loud = sampler("loud")
    loud["metadata"]["namespace"] = "team-b"
    decision = noted(recent, loud, namespace="team-b")
    for _ in range(2 * picks.MOST_PICKS):
        recent.note(decision.request, picks.given(decision))
    assert len(shown(recent, "team-b")) == picks.MOST_PICKS
    assert [entry["job"] for entry in shown(recent).values()] == ["quiet"]


def test_the_namespaces_with_picks_are_limited():
    recent = picks.Picks()
    decision = noted(recent, sampler("a"))
    for number in range(picks.MOST_NAMESPACES):
        request = structs.replace(decision.request, namespace=f"team-{number}")
        recent.note(request, picks.given(decision))
    assert shown(recent) == {}


@pytest.mark.parametrize("count", ["3", -5, 0, 1.5, None, True, [2]])
def test_an_entry_with_a_strange_number_of_seats_counts_for_one(count):
    assert [holder.seats for holder in holders(seated_by({"uid": {"pod": "p", "job": "j", "seats": count}}))] == [1]


def test_an_entry_never_stands_for_more_seats_than_can_be_written():
    entries = {f"uid-{number}": {"pod": "p", "job": "j", "seats": int("9" * 4000)} for number in range(50)}
    assert sum(holder.seats for holder in holders(seated_by(entries))) == 50 * 1_000_000
