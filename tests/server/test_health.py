"""Ready means reachable: by the API server, with what decisions need."""

from __future__ import annotations

from webhook.server.health import Health


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
