"""The memory of a record that waits: counted without recursion, and no further than asked."""

from __future__ import annotations

from muster.webhook.audit.log.weights import weight


def cycle():
    value = {"a": []}
    value["a"] += [value, value]
    return value


def test_a_weight_grows_with_what_is_held():
    assert weight({"a": "x" * 1000}, 10_000) > 1000
    assert weight({"x" * 1000: 1}, 10_000) > 1000
    assert weight([["x"] * 10] * 100, 1_000_000) > 50 * 1000
    assert weight(10**5000, 10_000) > 2000


def test_a_count_ends_where_it_is_told_to():
    assert 1000 < weight(cycle(), 1000) <= 1500
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert weight(deep, 10**9) > 100_000
