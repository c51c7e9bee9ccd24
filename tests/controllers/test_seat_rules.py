from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.strategies.platform.seats import Seat, SeatsError, format_seats, parse_seats
from muster.webhook.controllers import seat_rules, views

NOW = datetime.datetime(2026, 11, 21, 12, 30, tzinfo=datetime.UTC)


def stamp(seconds_ago):
    return (NOW - datetime.timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name, job="", age=10):
    gates = ("muster.dev/seat",)
    return views.Pod("team-a", name, f"uid-{name}", "sampler", job, stamp(age), gates, ("muster-sampler-0",))


def held(*pods, age=600):
    return {each.uid: Seat(each.name, each.job, stamp(age)) for each in pods}


def settle(claim, *waiting, **more):
    return seat_rules.settle(claim, waiting, NOW, **more)


def names(settlement):
    return sorted(uid.removeprefix("uid-") for uid in settlement.seats)


# Taking and giving back


def test_pods_are_seated_up_to_the_limit():
    done = settle(seat_rules.Claim({}, 2), pod("a"), pod("b"), pod("c"))
    assert names(done) == ["a", "b"]
    assert [each.name for each in done.waiting] == ["c"]


def test_the_oldest_pod_comes_first():
    done = settle(seat_rules.Claim({}, 1), pod("a", age=10), pod("b", age=30))
    assert names(done) == ["b"]


def test_pods_of_one_age_come_in_the_order_of_their_names():
    assert names(settle(seat_rules.Claim({}, 1), pod("b"), pod("a"))) == ["a"]


def test_a_pod_that_has_ended_gives_its_seat_to_the_next():
    done = settle(seat_rules.Claim(held(pod("old")), 1), pod("new"), ended={"uid-old"})
    assert names(done) == ["new"]
    assert done.seated == ("uid-new",)


def test_who_keeps_a_seat_keeps_the_time_since_when():
    assert settle(seat_rules.Claim(held(pod("old"), age=99), 2), pod("new")).seats["uid-old"].since == stamp(99)


def test_a_pod_that_nobody_let_in_counts_even_beyond_the_limit():
    done = settle(seat_rules.Claim(held(pod("a")), 1), pod("b"), uninvited=[pod("wild")])
    assert names(done) == ["a", "wild"]
    assert [each.name for each in done.waiting] == ["b"]


def test_a_lower_limit_takes_no_seat_away():
    assert names(settle(seat_rules.Claim(held(pod("a"), pod("b")), 1), pod("c"))) == ["a", "b"]


# Whole jobs


def test_a_job_is_not_started_by_half():
    done = settle(seat_rules.Claim(held(pod("x")), 3), pod("a0", "a", 60), pod("a1", "a", 60), pod("a2", "a", 60))
    assert names(done) == ["x"]


def test_a_job_of_which_some_pods_are_not_there_yet_waits_for_room_for_all():
    assert names(settle(seat_rules.Claim(held(pod("x")), 2, sizes={"a": 2}), pod("a0", "a"))) == ["x"]


def test_a_younger_job_passes_an_older_one_that_does_not_fit_yet():
    done = settle(seat_rules.Claim(held(pod("x")), 2), pod("a0", "a", 60), pod("a1", "a", 60), pod("b0", "b", 10))
    assert names(done) == ["b0", "x"]


def test_nobody_passes_a_job_that_has_waited_for_long():
    done = settle(seat_rules.Claim(held(pod("x")), 2), pod("a0", "a", 400), pod("a1", "a", 400), pod("b0", "b", 10))
    assert names(done) == ["x"]
    assert [each.name for each in done.waiting] == ["a0", "a1", "b0"]


@pytest.mark.parametrize(("age", "seated"), [(300, ["b0", "x"]), (301, ["x"])])
def test_a_job_may_be_passed_for_five_minutes_and_no_second_more(age, seated):
    done = settle(seat_rules.Claim(held(pod("x")), 2), pod("a0", "a", age), pod("a1", "a", age), pod("b0", "b", 10))
    assert names(done) == seated


def test_a_job_that_has_seats_gets_the_next_ones():
    claim = seat_rules.Claim(held(pod("a0", "a")), 2, sizes={"a": 2})
    assert names(settle(claim, pod("b0", "b", 60), pod("a1", "a", 10))) == ["a0", "a1"]


def test_seats_are_kept_for_a_while_for_pods_of_a_started_job_that_are_not_there_yet():
    sizes = {"a": 2, "b": 1}
    assert names(settle(seat_rules.Claim(held(pod("a0", "a"), age=60), 2, sizes=sizes), pod("b0", "b"))) == ["a0"]
    assert names(settle(seat_rules.Claim(held(pod("a0", "a"), age=61), 2, sizes=sizes), pod("b0", "b"))) == ["a0", "b0"]


def test_a_job_that_can_never_be_seated_whole_is_named_and_seated_in_parts():
    done = settle(seat_rules.Claim({}, 2, sizes={"a": 3}), pod("a0", "a"), pod("a1", "a"), pod("a2", "a"))
    assert done.never == {"a"}
    assert names(done) == ["a0", "a1"]


def test_whole_jobs_come_before_parts_of_jobs_that_never_fit():
    waiting = [pod(f"a{number}", "a", 60) for number in range(3)] + [pod("b0", "b", 10)]
    assert names(settle(seat_rules.Claim({}, 2, sizes={"a": 3}), *waiting)) == ["a0", "b0"]


def test_parts_that_have_waited_for_long_come_in_their_turn():
    waiting = [pod(f"a{number}", "a", 400) for number in range(3)] + [pod("b0", "b", 10)]
    assert names(settle(seat_rules.Claim({}, 2, sizes={"a": 3}), *waiting)) == ["a0", "a1"]


# Claims on their way out


def test_a_claim_that_drains_seats_only_jobs_that_have_begun():
    claim = seat_rules.Claim(held(pod("a0", "a")), 4, drains=True, sizes={"a": 2})
    assert names(settle(claim, pod("b0", "b", 60), pod("a1", "a", 10))) == ["a0", "a1"]


# The annotation


def test_the_annotation_reads_back_as_it_was_written():
    there = held(pod("a", "job"), pod("b"))
    assert parse_seats(format_seats(there)) == there
    assert format_seats({}) == "{}"
    assert parse_seats("") == {}


@pytest.mark.parametrize("text", ["{", "[]", "1", "null", '{"u": 1}', '{"u": {"pod": "a"}}', '"x"'])
def test_an_annotation_of_another_form_is_an_error_that_shows_it(text):
    with pytest.raises(SeatsError, match="is not of the form"):
        parse_seats(text)


# Rules that hold for all


PODS = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["", "a", "b", "c"]), st.integers(0, 900)),
    max_size=12,
    unique_by=lambda each: each[0],
).map(lambda rows: [pod(f"p{number}", job, age) for number, job, age in rows])
SIZES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 8))


@settings(deadline=None)
@given(st.data())
def test_seats_never_pass_the_limit_and_nobody_is_lost(data):
    pods = data.draw(PODS)
    limit = data.draw(st.integers(0, 8))
    cut = data.draw(st.integers(0, min(limit, len(pods))))
    claim = seat_rules.Claim(held(*pods[:cut], age=data.draw(st.integers(0, 200))), limit, sizes=data.draw(SIZES))
    done = settle(claim, *pods[cut:])
    assert len(done.seats) <= limit
    assert set(done.seats) == set(claim.seats) | set(done.seated)
    assert {each.uid for each in done.waiting} | set(done.seated) == {each.uid for each in pods[cut:]}


@settings(deadline=None)
@given(st.data())
def test_the_order_in_which_pods_are_told_changes_nothing(data):
    pods = data.draw(PODS)
    claim = seat_rules.Claim({}, data.draw(st.integers(0, 8)), sizes=data.draw(SIZES))
    shuffled = data.draw(st.permutations(pods))
    assert settle(claim, *shuffled) == settle(claim, *pods)


@settings(deadline=None)
@given(PODS, st.integers(1, 8), SIZES)
def test_an_empty_claim_seats_somebody_who_has_waited_for_long_or_never_fits(pods, limit, sizes):
    done = settle(seat_rules.Claim({}, limit, sizes=sizes), *pods)
    assert done.seats or not pods


@settings(deadline=None)
@given(PODS, st.integers(1, 8), SIZES)
def test_settling_again_seats_only_jobs_that_were_started_or_never_fit(pods, limit, sizes):
    first = settle(seat_rules.Claim({}, limit, sizes=sizes), *pods)
    left = [each for each in pods if each.uid not in first.seats]
    later = NOW + datetime.timedelta(seconds=1)
    again = seat_rules.settle(seat_rules.Claim(first.seats, limit, sizes=sizes), left, later)
    started = {seat.job for seat in first.seats.values()}
    assert all(each.job in started or each.uid not in again.seats or each.job in first.never for each in left)
