"""Ready means reachable: by the API server, with what decisions need."""

from __future__ import annotations

import asyncio
import logging

from muster.webhook.server.health import Health


class Answers:
    """A check whose answer can be changed, and the clock that makes it count."""

    def __init__(self):
        self.problem = ""
        self.asked = 0
        self.now = 0.0

    async def check(self):
        self.asked += 1
        return self.problem

    def clock(self):
        return self.now


async def test_ready_when_every_check_passes():
    answers = Answers()
    assert (await Health({"a": answers.check}).readyz(None)).status == 200


async def test_not_ready_names_the_check_and_what_is_wrong():
    answers = Answers()
    answers.problem = "caches are being filled"
    response = await Health({"cluster": answers.check}).readyz(None)
    assert (response.status, response.text) == (503, "cluster: caches are being filled\n")


async def test_checks_are_remembered_for_two_seconds():
    answers = Answers()
    health = Health({"a": answers.check}, answers.clock)
    await health.problems()
    answers.problem = "gone"
    assert await health.problems() == {}
    answers.now = 2.0
    assert await health.problems() == {"a": "gone"}
    assert answers.asked == 2


async def test_draining_fails_readiness_but_not_liveness():
    health = Health({})
    health.drain()
    assert (await health.readyz(None)).status == 503
    assert (await health.healthz(None)).status == 200


async def test_whoever_asks_while_the_checks_run_gets_their_answer():
    begun, go_on, asked = asyncio.Event(), asyncio.Event(), []

    async def check():
        asked.append(1)
        begun.set()
        await go_on.wait()
        return "broken"

    health = Health({"a": check})
    first = asyncio.create_task(health.readyz(None))
    await begun.wait()
    second = asyncio.create_task(health.readyz(None))
    first.cancel()  # the probe has its own deadline
    await asyncio.gather(first, return_exceptions=True)
    go_on.set()
    assert (await second).status == 503
    assert (await health.readyz(None)).status == 503
    assert asked == [1]


async def test_a_check_that_raises_has_found_a_problem(caplog):
    async def check():
        raise RuntimeError("oh")

    with caplog.at_level(logging.CRITICAL, "muster.webhook.server.health"):
        response = await Health({"a": check}).readyz(None)
    assert (response.status, response.text) == (503, "a: the check failed with RuntimeError; the log has more\n")


async def test_who_asks_while_the_service_starts_to_stop_is_told_so():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def check():
        begun.set()
        await go_on.wait()
        return ""

    health = Health({"a": check})
    asking = asyncio.create_task(health.problems())
    await begun.wait()
    health.drain()
    go_on.set()
    assert await asking == {"shutdown": "is under way"}
