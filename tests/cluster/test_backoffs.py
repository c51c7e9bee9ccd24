from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from muster import backoffs


class Highest(random.Random):
    def uniform(self, _low, high):
        return high


def test_the_bound_of_the_delay_doubles_up_to_its_cap_and_starts_over_when_reset():
    backoff = backoffs.Backoff(Highest(), base=1.0, cap=30.0)
    assert [backoff.delay() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    backoff.reset()
    assert backoff.delay() == 1


@given(st.integers(0, 5000), st.integers())
def test_no_delay_is_negative_or_above_the_cap_however_many_failures(failures, seed):
    backoff = backoffs.Backoff(random.Random(seed), base=0.25, cap=30.0)  # noqa: S311 - jitter
    backoff.failures = failures
    assert 0.0 <= backoff.delay() <= 30.0


def test_a_share_of_the_bound_is_always_waited_where_that_is_asked_for():
    backoff = backoffs.Backoff(random.Random(1), base=1.0, cap=8.0, least=0.5)  # noqa: S311 - jitter
    delays = [backoff.delay() for _ in range(6)]
    assert all(bound / 2 <= delay <= bound for delay, bound in zip(delays, [1, 2, 4, 8, 8, 8], strict=True))
    assert len(set(delays)) == 6


def test_what_the_server_asks_for_is_waited_in_full_but_not_for_ever():
    backoff = backoffs.Backoff(Highest(), base=1.0, cap=30.0)
    assert backoff.delay(retry_after=7.0) == 8.0
    assert backoff.delay(retry_after=1e9) == 302.0


def test_two_replicas_do_not_come_back_together():
    first, second = (backoffs.Backoff(random.Random(seed), base=1.0) for seed in (1, 2))  # noqa: S311 - jitter
    assert [first.delay() for _ in range(3)] != [second.delay() for _ in range(3)]
