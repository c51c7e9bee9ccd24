"""Many controllers at one claim, each with old knowledge, each able to stop anywhere: the protocol itself, no I/O."""

from __future__ import annotations

import dataclasses
import datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from muster.webhook.controllers import seat_rules, views

NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
LIMIT = 3
GATES = ("muster.dev/seat",)


@dataclasses.dataclass
class Controller:
    """What one has read: a version of the claim and of the pods, and which pods it is about to let in."""

    version: int = -1
    held: dict = dataclasses.field(default_factory=dict)
    pods: dict = dataclasses.field(default_factory=dict)
    plan: dict | None = None
    open: list = dataclasses.field(default_factory=list)


class Claim(RuleBasedStateMachine):
    """The world: one claim, its pods, eight controllers."""

    pods = Bundle("pods")

    def __init__(self):
        super().__init__()
        self.world = {}  # live pods by uid
        self.held, self.version = {}, 0
        self.jobs = {}
        self.count = 0
        self.controllers = [Controller() for _ in range(8)]

    @rule(target=pods, size=st.integers(1, 4))
    def create_a_job(self, size):
        self.count += 1
        job = f"job{self.count}"
        self.jobs[job] = size
        made = [
            views.Pod("n", f"{job}-{i}", f"u{job}-{i}", "p", job, "2026-11-21T11:00:00Z", GATES) for i in range(size)
        ]
        self.world |= {each.uid: each for each in made}
        return made[0].uid

    @rule(which=st.integers(0, 50))
    def end_a_pod_that_runs(self, which):
        running = [uid for uid, each in sorted(self.world.items()) if not each.gated]
        if running:
            self.world.pop(running[which % len(running)])

    @rule(uid=pods)
    def delete_a_pod(self, uid):
        self.world.pop(uid, None)

    @rule(who=st.integers(0, 7))
    def read_pods(self, who):
        self.controllers[who].pods = dict(self.world)

    @rule(who=st.integers(0, 7))
    def read_the_claim_and_decide(self, who):
        me = self.controllers[who]
        me.version, me.held = self.version, dict(self.held)
        gone = {uid for uid in me.held if uid not in me.pods and uid not in self.world}  # asked for just now
        waiting = [each for uid, each in me.pods.items() if each.gated and uid not in me.held]
        uninvited = [
            each for uid, each in self.world.items() if uid in me.pods and not each.gated and uid not in me.held
        ]
        claim = seat_rules.Claim(me.held, LIMIT, sizes=self.jobs)
        me.plan = dict(seat_rules.settle(claim, waiting, NOW, ended=gone, uninvited=uninvited).seats)

    @rule(who=st.integers(0, 7))
    def swap(self, who):
        me = self.controllers[who]
        if me.plan is not None and me.version == self.version:
            self.held, self.version = me.plan, self.version + 1
            me.open = [uid for uid in me.plan if uid in me.pods]
        me.plan = None

    @rule(who=st.integers(0, 7))
    def open_a_gate(self, who):
        me = self.controllers[who]
        if me.open:
            uid = me.open.pop()
            if uid in self.world:
                self.world[uid] = dataclasses.replace(self.world[uid], gates=())

    @rule(who=st.integers(0, 7))
    def crash(self, who):
        self.controllers[who] = Controller()

    @invariant()
    def never_more_than_there_are_seats(self):
        assert len([each for each in self.world.values() if not each.gated]) <= LIMIT
        assert len(self.held) <= LIMIT

    @invariant()
    def nobody_runs_without_a_seat(self):
        assert all(uid in self.held for uid, each in self.world.items() if not each.gated)

    def teardown(self):
        """When all controllers but one have gone, that one seats everybody in turn, and nothing is left."""
        self.controllers = [Controller() for _ in range(8)]
        for _ in range(2 * len(self.world) + 2):
            self.read_pods(0)
            self.read_the_claim_and_decide(0)
            self.swap(0)
            while self.controllers[0].open:
                self.open_a_gate(0)
            self.never_more_than_there_are_seats()
            for uid in [uid for uid, each in self.world.items() if not each.gated]:
                self.world.pop(uid)
        assert self.world == {}
        assert self.held == {}


TestClaim = Claim.TestCase
TestClaim.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
