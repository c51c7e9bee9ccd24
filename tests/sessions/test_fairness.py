"""Turns by tenant: who is next, how long anybody waits, and that nothing waits beside an idle resource."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.sessions.fairness import Fair
from muster.sessions.tenancy import Share

LOADS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 3), st.integers(1, 9), st.integers(1, 40)),
    max_size=8,
)
"""Who floods: a tenant, with which model, what a piece of his costs, and how many wait at once."""


def flooded(loads, weights=None):
    """Return a queue in which everything of some loads waits."""
    fair = Fair()
    for tenant, model, cost, count in loads:
        for _ in range(count):
            fair.put(Share(tenant, (weights or {}).get(tenant, 1.0)), str(model), cost)
    return fair


def served(fair):
    """Take a piece, and count it. Returns its tenant and its cost."""
    share, cost = fair.take()
    fair.spent({share.tenant: cost})
    return share.tenant, cost


@given(loads=LOADS, before=st.integers(0, 60))
def test_whoever_comes_is_passed_once_at_most_by_each_other_tenant(loads, before):
    fair = flooded(loads)
    for _ in range(min(before, len(fair))):
        served(fair)
    fair.put(Share("victim"), "model", 1)
    passed = []
    while (one := served(fair)[0]) != "victim":
        passed.append(one)
    assert len(passed) == len(set(passed))


@given(loads=LOADS, before=st.integers(0, 60), steps=st.integers(2, 12))
def test_a_tenant_who_asks_for_one_thing_after_the_other_has_no_less_than_those_who_flood(loads, before, steps):
    fair = flooded(loads)
    for _ in range(min(before, len(fair))):
        served(fair)
    largest = max((cost for *_, cost, _ in loads), default=1)
    had = Counter()
    for _ in range(steps):
        fair.put(Share("victim"), "model", 1)
        while (one := served(fair))[0] != "victim":
            had[one[0]] += one[1]
    # Each other tenant has had as much as he, and the one piece of each turn in which he was not there.
    assert all(amount <= (steps + 1) * (1 + largest) for amount in had.values())


@given(loads=LOADS, weights=st.dictionaries(st.sampled_from("abcde"), st.sampled_from([0.5, 1.0, 2.0, 4.0])))
def test_tenants_who_all_wait_have_parts_by_their_weights(loads, weights):
    fair = flooded(loads, weights)
    waits = Counter()
    for tenant, _, _, count in loads:
        waits[tenant] += count
    largest = max((cost for *_, cost, _ in loads), default=0)
    had = dict.fromkeys(waits, 0.0)
    while len(fair) and min(waits.values()) > 0:
        tenant, cost = served(fair)
        waits[tenant] -= 1
        had[tenant] += cost / weights.get(tenant, 1.0)
    apart = max(had.values(), default=0) - min(had.values(), default=0)
    assert apart <= 2 * largest / min(weights.values(), default=1.0) + 2 * largest


@given(loads=LOADS)
def test_everything_is_served_once_and_nothing_waits_while_nothing_is_served(loads):
    fair = flooded(loads)
    expected = Counter()
    for tenant, _, cost, count in loads:
        expected[tenant, cost] += count
    assert Counter(served(fair) for _ in range(len(fair))) == expected
    assert fair.take() is None


def test_models_of_a_tenant_take_turns_and_each_keeps_its_order():
    fair = Fair()
    for model, number in ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2):
        fair.put(Share("us"), model, (model, number))
    assert [fair.take()[1] for _ in range(5)] == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]


def test_a_tenant_who_was_alone_owes_nothing_for_what_he_had():
    fair = Fair()
    for _ in range(100):
        fair.put(Share("first"), "a", 9)
        served(fair)
    assert fair.take() is None
    for tenant in ("first", "second") * 2:
        fair.put(Share(tenant), "a", 1)
    assert [served(fair)[0] for _ in range(4)] == ["first", "second"] * 2


def test_what_does_not_fit_keeps_its_place():
    fair = Fair()
    fair.put(Share("us"), "a", "large")
    fair.put(Share("us"), "b", "small")
    assert fair.take(lambda _, item: item == "small")[1] == "small"
    assert fair.take(lambda _, item: item == "small") is None
    assert fair.take()[1] == "large"


def test_company_is_taken_in_rounds_of_tenants():
    fair = Fair()
    for tenant in ("one", "two"):
        for model in "abc":
            fair.put(Share(tenant), model, f"{tenant} {model}")
    assert fair.take()[1] == "one a"
    assert [item for _, item in fair.company(lambda *_: True)] == ["one b", "two a", "one c", "two b", "two c"]
    assert len(fair) == 0


def test_a_tenant_is_alone_until_another_comes_and_some_time_after_that_one_was_served():
    fair = Fair()
    fair.put(Share("us"), "a", 1)
    assert fair.is_alone("us")
    fair.put(Share("them"), "a", 1)
    assert not fair.is_alone("us")
    assert {served(fair)[0] for _ in range(2)} == {"us", "them"}
    assert not fair.is_alone("us")
    for _ in range(70):
        fair.put(Share("us"), "a", 1)
        served(fair)
    assert fair.is_alone("us")


def test_nothing_is_kept_of_tenants_who_have_gone():
    fair = Fair()
    for number in range(2000):
        fair.put(Share(f"tenant {number}"), "a", 1)
        served(fair)
    assert len(fair._lines) < 200


@pytest.mark.parametrize("share", [Share(), Share("team-a", 2.5), Share("team@x.org")])
def test_a_share_is_told_to_an_engine_as_it_is(share):
    assert Share.read(share.told) == share
    assert Share.read("") == Share()
