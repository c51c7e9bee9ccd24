"""Many jobs at once are spread over the claims before any of their pods has a seat."""

from __future__ import annotations

import asyncio
from collections import Counter

import orjson
import pytest

from tests.support import admissions, devices, jobs
from webhook.admission import reviews
from webhook.cluster import readers
from webhook.metrics import Metrics
from webhook.server import picks
from webhook.server.resolvers import Resolver

CLASS = devices.device_class()


class Uncached:
    """A live cluster in which nobody has made the claims yet."""

    def __init__(self, *documents):
        self._known = admissions.make_reader(*documents)

    def get(self, ref):
        found = self._known.get(ref)
        if found is None and ref.kind == "ResourceClaim":
            raise readers.NotCached(ref)
        return found


@pytest.fixture
def resolver(request):
    made = []

    def make(cluster):
        made.append(Resolver(cluster, None, Metrics()))
        return made[-1]

    yield make
    for each in made:
        each.close()


def sampler(name, nodes=1):
    metadata = {**devices.annotated(profile="seats"), "labels": {jobs.FRAMEWORK: "vllm"}}
    return jobs.make_jobset(name, metadata=metadata, container={"args": ["--model=m"]}, nodes=nodes)


async def chosen(resolver, document, **review):
    body = orjson.dumps(admissions.make_review(document, **review))
    decision = await resolver.decide(reviews.parse(body, "mutate"), devices.policy())
    (entry,) = devices.pod_of(decision.document)["resourceClaims"]
    return entry["resourceClaimName"]


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
    recent.note(decision)

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
        decision = await one.decide(request, policy)
        document = decision.document
        assert decision.allowed
