"""When things expire and when they are renewed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from muster.certs import authorities, expiries, leaves

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
SPANS = st.timedeltas(timedelta(minutes=1), timedelta(days=4000))


@given(now=MOMENTS, validity=SPANS)
def test_a_new_window_covers_now_and_ends_after_its_validity(now, validity):
    window = expiries.opening(now, validity)
    assert window.covers(now)
    assert not window.due(now) or validity < timedelta(minutes=15)
    assert abs(window.remaining(now) - validity.total_seconds()) <= 1
    assert (window.not_before.microsecond, window.not_before.tzinfo) == (0, UTC)


@given(now=MOMENTS, validity=SPANS, later=SPANS)
def test_what_is_due_stays_due_and_is_due_before_it_expires(now, validity, later):
    window = expiries.opening(now, validity)
    if window.due(now):
        assert window.due(now + later)
    assert window.due(window.not_after)


@given(now=MOMENTS, inner=SPANS, outer=SPANS)
def test_a_clipped_window_lies_within_the_outer_one(now, inner, outer):
    limit = expiries.opening(now, outer)
    clipped = expiries.opening(now, inner).clipped(limit)
    assert limit.not_before <= clipped.not_before
    assert clipped.not_after <= limit.not_after


def test_a_window_includes_both_its_ends():
    window = expiries.opening(datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1))
    second = timedelta(seconds=1)
    assert window.covers(window.not_before)
    assert window.covers(window.not_after)
    assert not window.covers(window.not_before - second)
    assert not window.covers(window.not_after + second)


def test_a_ca_that_is_not_yet_due_outlives_any_leaf_it_signs(clock):
    authority = authorities.create(clock())
    while not authority.window.due(clock()):
        leaf = leaves.issue(authority, ("m",), clock())
        assert leaf.window.remaining(clock()) > (leaves.VALIDITY - timedelta(seconds=2)).total_seconds()
        clock.advance(days=20)


def test_leaf_and_ca_have_a_remaining_time_each(new_material):
    material = new_material()
    moment = material.leaf.not_after + timedelta(seconds=5)
    assert material.leaf.remaining(moment) == -5
    assert material.authority.remaining(moment) > 200 * 24 * 3600
