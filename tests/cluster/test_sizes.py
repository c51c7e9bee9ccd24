"""The largest of many sizes is found without looking at all of them."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from muster.webhook.cluster import sizes

STEPS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9)), max_size=60)


@given(STEPS)
def test_the_largest_is_the_largest_after_any_changes(steps):
    known, made = {}, sizes.Sizes()
    for key, size in steps:
        made.set(key, size)
        known[key] = size
        most = made.largest()
        assert known.get(most, 0) == max(known.values())


def test_changes_of_one_of_many_cost_a_few_steps_each_and_keep_nothing(monkeypatch):
    made = sizes.Sizes()
    for number in range(2_000):
        made.set(f"team-{number}", 100)
    steps = []
    for name in ("heappush", "heappop", "heapify"):
        step = getattr(heapq, name)
        cost = 2_000 if name == "heapify" else 1
        monkeypatch.setattr(heapq, name, lambda *given, step=step, cost=cost: steps.append(cost) or step(*given))
    for number in range(10_000):
        made.set("evil", 1_000 + number % 7)
        made.set("evil", 500)
        assert made.largest() == "evil"
    assert sum(steps) < 6 * 10_000
    assert len(made._heap) < 5_000
