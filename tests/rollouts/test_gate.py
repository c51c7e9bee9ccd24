from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_rollouts.gate import Gate, Progress


class Trainer:
    """Takes samples in their order; after `per_version` of them other weights are served."""

    def __init__(self, per_version):
        self.per_version, self.version, self.taken, self.before = per_version, 1, 0, 0
        self.queue, self.staleness = deque(), []

    def take(self):
        if self.queue:
            self.staleness.append(self.version - self.queue.popleft())
            self.taken += 1
            if self.taken - self.before == self.per_version:
                self.version, self.before = self.version + 1, self.taken
        return bool(self.staleness)

    def progress(self):
        return Progress(self.version, self.taken, self.before, self.per_version, waits=not self.queue)


class Rollouts:
    """Starts and ends groups in any order, as `choose` draws."""

    def __init__(self, gate, samples, trainer):
        self.gate, self.samples, self.trainer, self.running, self.next = gate, samples, trainer, [], 0

    def start(self):
        progress = self.trainer.progress()
        if self.gate.may_start(progress):
            self.gate.start(self.next, progress.version)
            self.running.append((self.next, progress.version))
            self.next += 1
            return True
        return False

    def end(self, which):
        group, version = self.running.pop(which % len(self.running))
        self.gate.finish(group, self.samples, [version] * self.samples)
        for versions in self.gate.deliver(self.trainer.progress()):
            self.trainer.queue.extend(versions)


def play(samples, per_version, staleness, choices):
    trainer = Trainer(per_version)
    rollouts = Rollouts(Gate(samples, staleness), samples, trainer)
    for kind, which in choices:
        if kind == "start":
            rollouts.start()
        elif kind == "end" and rollouts.running:
            rollouts.end(which)
        elif kind == "take":
            trainer.take()
    return trainer, rollouts


@st.composite
def histories(draw):
    """What happens, in which the groups that started last tend to end first."""
    chance = draw(st.randoms(use_true_random=True))
    kinds = chance.choices(
        ["start", "end", "take"], weights=draw(st.sampled_from([(5, 5, 1), (1, 1, 8), (2, 3, 8)])), k=600
    )
    return [(kind, chance.choice([-1, -1, -1, -2, 0, chance.randrange(50)])) for kind in kinds]


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(0, 20), st.integers(0, 5), histories())
def test_no_sample_is_too_old_when_it_is_taken_in_whatever_order_groups_end(samples, more, staleness, choices):
    # With none allowed, a group across two versions is late whenever it starts.
    per_version = samples + more if staleness else samples * (more + 1)
    trainer, _ = play(samples, per_version, staleness, choices)
    assert max(trainer.staleness, default=0) <= staleness


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 24), st.integers(0, 5), histories())
def test_the_trainer_never_waits_for_ever(samples, per_version, staleness, choices):
    trainer, rollouts = play(samples, per_version, staleness, choices)
    wanted = trainer.taken + 3 * per_version
    for _ in range(20 * wanted):
        while rollouts.start():
            pass
        if rollouts.running:
            rollouts.end(0)
        while trainer.queue:
            trainer.take()
    assert trainer.taken >= wanted


def test_so_many_groups_run_at_once_as_the_staleness_allows():
    trainer, rollouts = play(8, 16, 3, [("start", 0)] * 100)
    assert len(rollouts.running) == (3 + 1) * 2
    assert trainer.version == 1


def test_a_slow_group_is_waited_for_only_when_it_would_be_too_old():
    trainer = Trainer(2)
    rollouts = Rollouts(Gate(1, 1), 1, trainer)
    while rollouts.start():
        pass
    assert len(rollouts.running) == 4
    for _ in range(2):
        rollouts.end(1)
    assert len(trainer.queue) == 2
    rollouts.end(1)
    assert len(trainer.queue) == 3
    for _ in range(3):
        trainer.take()
    assert rollouts.start()
    rollouts.end(1)
    assert not trainer.queue
    rollouts.end(0)
    assert list(trainer.queue) == [1, 2]


def test_rows_that_a_conversation_adds_count():
    gate = Gate(2, 0)
    progress = Progress(version=1, taken=0, taken_before=0, per_version=8)
    gate.start(0, 1)
    gate.finish(0, 7, "rows")
    assert not gate.may_start(progress)
    assert list(gate.deliver(progress)) == ["rows"]
    assert not gate.may_start(progress)
    assert gate.undelivered == 0


def test_a_trainer_that_needs_more_than_it_did_gets_it():
    gate = Gate(4, 0)
    gate.start(0, 1)
    gate.finish(0, 4, "first")
    list(gate.deliver(Progress(1, 0, 0, per_version=4)))
    assert not gate.may_start(Progress(1, 4, 0, per_version=4))
    assert gate.may_start(Progress(1, 4, 0, per_version=4, waits=True))


@pytest.mark.parametrize(("samples", "staleness"), [(0, 1), (1, -1)])
def test_what_cannot_be_is_refused(samples, staleness):
    with pytest.raises(ValueError, match="A gate needs"):
        Gate(samples, staleness)


def test_a_group_that_is_late_in_any_case_holds_no_other():
    gate = Gate(1, 0)
    gate.start(0, 1)
    gate.start(1, 3)
    gate.finish(1, 1, "in time")
    assert list(gate.deliver(Progress(version=3, taken=2, taken_before=2, per_version=1))) == ["in time"]


def period(staleness, latency, training, steps=60):
    """The seconds of a step, in a time of its own, with a sampler that answers any number of groups at once."""
    trainer = Trainer(8)
    rollouts = Rollouts(Gate(8, staleness), 8, trainer)
    now, ends, until = 0, deque(), None
    while trainer.version <= steps:
        while rollouts.start():
            ends.append(now + latency)
        if until is None and trainer.queue:
            # As TRL does, a step is trained when its samples are there, and then other weights are served; they are
            # so with the eighth sample here.
            for _ in range(7):
                trainer.take()
            until = now + training
        now = min([*ends, *([] if until is None else [until])])
        if until == now:
            trainer.take()
            until = None
        else:
            ends.popleft()
            rollouts.end(0)
    assert max(trainer.staleness) <= staleness
    return now / steps


@pytest.mark.parametrize(("latency", "training"), [(40, 1), (40, 10)])
@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_with_a_slow_sampler_steps_are_as_many_times_faster_as_versions_may_be_under_way(staleness, latency, training):
    alone = latency + training
    least = max(alone / (staleness + 1), training)
    assert least <= period(staleness, latency, training) < 1.1 * least
