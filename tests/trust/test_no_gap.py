"""The promise of shared certificates, over histories at random: what is served is always accepted.

Replicas look and serve when they please, lead in turn, restart, and have clocks that are wrong; the Secret is
deleted; API servers hear of a bundle up to five seconds late, and are away for minutes. Once the first bundle is
written, every API server accepts every replica at every moment.
"""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.kube import transports
from tests.controllers.apiservers import RefusedError
from tests.trust.conftest import World

LAG = 5.0  # seconds; below RULES.settle
AWAY = 300.0  # seconds; below the third of an authority's life that is left when it is due
EVENTS = st.lists(
    st.tuples(
        st.floats(0, 40),  # seconds that pass first
        st.sampled_from(["look", "look", "look", "lead", "lead", "restart", "delete", "both", "away"]),
        st.integers(0, 2),
    ),
    min_size=20,
    max_size=60,
)


class History:
    def __init__(self, skews):
        self.world = World()
        self.skews = skews
        self.replicas = [self.world.replica(skew) for skew in skews]
        self.told = []  # (time, bundles), as API servers hear of them
        self.back = 0.0  # when the API server is there again
        self.world.server.faults = self.refuse

    async def begin(self):
        for each in self.replicas:
            await each.look()
        await self.replicas[0].lead()
        self.hear()

    def hear(self):
        self.told.append((self.world.time.passed, self.world.bundles()))

    @property
    def away(self):
        return self.world.time.passed < self.back

    def refuse(self, _method, _plural):
        if self.away:
            raise RefusedError(503, "away")

    async def happen(self, event, number):
        replica = self.replicas[number]
        if self.away:
            return
        if event == "away" and self.world.time.passed > self.back + AWAY:
            self.back = self.world.time.passed + AWAY
        elif event == "delete" and self.world.secret():
            self.world.server.remove("Secret", "muster-ca", "muster-system")
        elif event == "restart":
            self.replicas[number] = self.world.replica(self.skews[number])
            await self.replicas[number].look()
        elif event == "lead":
            await replica.lead()
        elif event == "both":
            await asyncio.gather(*(each.look() for each in self.replicas))
        else:
            await replica.look()
        self.hear()

    async def pass_time(self, seconds):
        """Let time pass as it does in a service: everybody looks every forty seconds at least."""
        self.world.time.passed += seconds
        for each in self.replicas:
            each.serve()
        for look in (self.replicas[0].lead, *(each.look for each in self.replicas)):
            try:
                await look()
            except transports.TransportError:
                assert self.away
        self.hear()

    def check(self):
        now = self.world.time.passed
        late = [bundles for at, bundles in self.told if at <= now - LAG][-1:]
        for seen in (*late, self.world.bundles()):
            for number, each in enumerate(self.replicas):
                served, wall = each.serving, self.world.time.wall()
                assert served.leaf.covers(wall), f"replica {number} at {now}"
                assert served.authority.covers(wall), f"replica {number} at {now}"
                assert all(served.authority_pem in bundle for bundle in seen), f"replica {number} at {now}"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS, st.lists(st.integers(-25, 25), min_size=3, max_size=3))
def test_what_is_served_is_accepted_at_every_moment(events, skews):
    async def live():
        history = History(skews)
        await history.begin()
        for seconds, event, number in events:
            await history.pass_time(seconds)
            history.check()
            await history.happen(event, number)
            history.check()

    asyncio.run(live())
