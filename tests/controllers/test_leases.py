from __future__ import annotations

import asyncio

import pytest

from muster.webhook.cluster import leases, writes
from tests.controllers.apiservers import ApiServer, RefusedError
from tests.controllers.documents import namespace
from tests.support import waits

TERMS = leases.Terms(duration=15, deadline=10, retry=2)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def server():
    made = ApiServer()
    made.put(namespace("muster-system"))
    return made


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def candidate(server, clock):
    def make(name, terms=TERMS):
        connection = server.connection()
        made = leases.Election(writes.Writes(connection), terms, name, clock=clock)
        made.connection = connection
        return made

    return make


def holder(server):
    return server.get("Lease", "muster-controllers", "muster-system")["spec"]["holderIdentity"]


async def test_the_first_candidate_makes_the_lease_and_leads(server, candidate):
    one = candidate("one")
    assert await one.attempt()
    assert holder(server) == "one"


async def test_a_second_candidate_waits_while_the_first_renews(server, candidate, clock):
    one, two = candidate("one"), candidate("two")
    for _ in range(20):
        assert await one.attempt()
        assert not await two.attempt()
        clock.now += 5
    assert holder(server) == "one"


async def test_a_lease_that_nobody_renews_is_taken_when_it_was_seen_unchanged_for_its_duration(
    server, candidate, clock
):
    one, two = candidate("one"), candidate("two")
    assert await one.attempt()
    clock.now += 1000  # what matters is how long it was seen, not how old its times are
    assert not await two.attempt()
    clock.now += 14
    assert not await two.attempt()
    clock.now += 2
    assert await two.attempt()
    assert server.get("Lease", "muster-controllers", "muster-system")["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_cannot_renew_stops_before_another_may_start(candidate, clock):
    one, two = candidate("one"), candidate("two")
    assert await one.attempt()
    assert not await two.attempt()
    one.connection.cut = True
    clock.now += 9
    assert await one.attempt()
    clock.now += 2
    assert not await one.attempt()
    assert not await two.attempt()
    clock.now += 5
    assert await two.attempt()


async def test_a_leader_that_finds_another_holder_stops_at_once(server, candidate):
    one = candidate("one")
    assert await one.attempt()
    lease = server.get("Lease", "muster-controllers", "muster-system")
    server.put({**lease, "spec": {**lease["spec"], "holderIdentity": "two"}})
    assert not await one.attempt()


async def test_of_many_candidates_at_once_one_leads(candidate):
    everyone = [candidate(f"c{number}") for number in range(8)]
    assert sum(await asyncio.gather(*(each.attempt() for each in everyone))) == 1


async def test_a_released_lease_is_taken_at_once(candidate, clock):
    one, two = candidate("one"), candidate("two")
    assert await one.attempt()
    await one.release()
    assert not one.leading
    clock.now += 0.1
    assert await two.attempt()


async def test_releasing_what_another_holds_changes_nothing(server, candidate, clock):
    one, two = candidate("one"), candidate("two")
    assert await one.attempt()
    assert not await two.attempt()
    clock.now += 16
    assert await two.attempt()
    await one.release()
    assert holder(server) == "two"


async def test_the_work_runs_while_the_lease_is_held_and_the_next_one_goes_on(server, candidate):
    quick = leases.Terms(duration=1, deadline=0.5, retry=0.05)
    at_work = []

    def worker(name):
        async def work():
            at_work.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                at_work.remove(name)

        return work

    one, two = candidate("one", quick), candidate("two", quick)
    for each in (one, two):
        each._clock = asyncio.get_running_loop().time
    tasks = [asyncio.create_task(each.hold(worker(name))) for name, each in (("one", one), ("two", two))]
    await waits.until(lambda: at_work)
    first = at_work[0]
    index = ("one", "two").index(first)
    await asyncio.sleep(0.6)
    assert at_work == [first]
    tasks[index].cancel()
    await waits.until(lambda: at_work and at_work != [first])
    assert len(at_work) == 1
    other = (one, two)[1 - index]
    other.connection.cut = True
    await waits.until(lambda: not at_work)
    tasks[1 - index].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_work_that_fails_is_begun_again(candidate):
    one = candidate("one", leases.Terms(duration=1, deadline=0.5, retry=0.02))
    begun = []

    async def work():
        begun.append(1)
        raise RuntimeError("no")

    one._clock = asyncio.get_running_loop().time
    task = asyncio.create_task(one.hold(work))
    await waits.until(lambda: len(begun) > 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_refusal_takes_nothing_away_before_its_time(server, candidate, clock):
    one = candidate("one")
    assert await one.attempt()

    def forbidden(method, _plural):
        raise RefusedError(403, f"{method} forbidden")

    server.faults = forbidden
    clock.now += 5
    assert await one.attempt()
    clock.now += 6
    assert not await one.attempt()


async def test_a_lease_that_somebody_made_without_a_spec_is_taken(server, candidate):
    metadata = {"name": "muster-controllers", "namespace": "muster-system"}
    server.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata})
    assert await candidate("one").attempt()
    assert await candidate("two").attempt() is False
