"""Authorities that replicas share: joined in any order they are the same, and what signs is trusted already."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.certs import authorities, errors, material_sources, pems, rings

NOW = datetime(2026, 11, 22, tzinfo=UTC)
DAY = timedelta(days=1)
MADE = tuple(authorities.create(NOW - age * DAY, validity=30 * DAY) for age in range(8))
SETS = st.lists(st.sampled_from(MADE), max_size=3).map(lambda found: rings.Ring.unexpired(found, NOW))


@given(SETS, SETS, SETS)
def test_joining_is_the_same_in_any_order_and_any_number_of_times(one, two, three):
    joined = one.joined(two, NOW).joined(three, NOW).fingerprints

    assert three.joined(one, NOW).joined(two, NOW).fingerprints == joined
    assert one.joined(two.joined(three, NOW), NOW).joined(two, NOW).fingerprints == joined


@given(SETS, SETS)
def test_joining_loses_nobody_but_the_oldest_of_too_many(one, two):
    joined = one.joined(two, NOW)

    there = {*one.fingerprints, *two.fingerprints}
    assert set(joined.fingerprints) <= there
    assert len(joined.members) == min(len(there), rings.LIMIT)
    begun = [each.window.not_before for each in joined.members]
    assert begun == sorted(begun, reverse=True)


@given(
    SETS.filter(lambda ring: ring.members),
    st.dictionaries(st.sampled_from([m.fingerprint for m in MADE]), st.booleans()),
)
def test_whoever_is_trusted_signs_before_whoever_is_not(ring, trusted):
    chosen = rings.signer(ring, trusted, NOW).fingerprint

    assert chosen in trusted or not set(ring.fingerprints) & set(trusted)
    assert trusted.get(chosen) or not any(trusted.get(each) for each in ring.fingerprints)


def test_the_newest_that_is_known_for_long_signs_and_of_those_just_seen_the_oldest():
    new, old = MADE[0], MADE[3]
    ring = rings.Ring.unexpired((old, new), NOW)

    assert rings.signer(ring, {new.fingerprint: True, old.fingerprint: True}, NOW) is new
    assert rings.signer(ring, {new.fingerprint: False, old.fingerprint: True}, NOW) is old
    assert rings.signer(ring, {new.fingerprint: False, old.fingerprint: False}, NOW) is old
    assert rings.signer(ring, {}, NOW) is new


def test_an_authority_near_its_end_gives_way_to_one_that_was_just_seen_but_not_to_a_stranger():
    new, old = MADE[0], MADE[3]
    ring, end = rings.Ring.unexpired((old, new), NOW), old.window.not_after - timedelta(seconds=1)
    margin = timedelta(seconds=2)
    just_seen = {new.fingerprint: False, old.fingerprint: True}

    assert rings.signer(ring, just_seen, end - margin, margin) is old
    assert rings.signer(ring, just_seen, end, margin) is new
    assert rings.signer(ring, just_seen, end) is old, "without a margin until its last second"
    assert rings.signer(ring, dict.fromkeys(ring.fingerprints, False), end, margin) is new, "bundles just mended"
    assert rings.signer(ring, {old.fingerprint: True}, end, margin) is old
    assert rings.signer(rings.Ring.unexpired((old,), NOW), {old.fingerprint: True}, end, margin) is old


def test_an_authority_that_is_not_valid_yet_or_any_more_signs_nothing():
    future, past = authorities.create(NOW + DAY), authorities.create(NOW - 40 * DAY, validity=30 * DAY)

    assert rings.Ring.unexpired((past,), NOW).members == ()
    with pytest.raises(errors.AuthorityError, match="none is valid"):
        rings.signer(rings.Ring.unexpired((future,), NOW), {}, NOW)


def test_a_ring_is_due_when_it_is_empty_or_its_newest_is():
    assert rings.Ring().due(NOW)
    assert not rings.Ring.unexpired((MADE[0],), NOW).due(NOW)
    assert rings.Ring.unexpired((MADE[0],), NOW).due(NOW + 21 * DAY)


def test_rotating_puts_a_fresh_authority_in_front():
    before = rings.Ring.unexpired((MADE[2],), NOW)
    after = rings.rotate(before, NOW, validity=30 * DAY)

    assert after.fingerprints[1:] == before.fingerprints
    assert after.members[0].window.not_after == NOW + 30 * DAY


def test_what_is_written_is_read_back_with_its_keys():
    ring = rings.Ring.unexpired(MADE[:2], NOW)
    read = rings.parse(ring.pem(), "Secret x", NOW)

    assert read.fingerprints == ring.fingerprints
    assert [pems.key_pem(each.key) for each in read.members] == [pems.key_pem(each.key) for each in ring.members]


@pytest.mark.parametrize("spoil", [lambda pem: pem[:-40], lambda _: b"", lambda pem: pem.replace(b"M", b"N", 3)])
def test_damage_is_told_with_its_place(spoil):
    with pytest.raises(errors.MaterialError, match=r"^Secret x: "):
        rings.parse(spoil(rings.Ring.unexpired(MADE[:2], NOW).pem()), "Secret x", NOW)


def test_the_key_of_another_is_found_out():
    one, two = MADE[:2]
    text = pems.certificate_pem(one.certificate) + pems.key_pem(two.key)
    with pytest.raises(errors.MaterialError, match="is not the key of the certificate"):
        rings.parse(text, "Secret x", NOW)


def test_a_shared_leaf_stays_until_it_is_due_or_another_signs(clock, service):
    source = material_sources.SharedSource(service, validity=timedelta(hours=3), clock=clock)
    with pytest.raises(errors.AuthorityError, match="not known yet"):
        source.current()
    first = rings.rotate(rings.Ring(), clock())
    source.update(first, {})
    leaf = source.current()
    clock.advance(minutes=100)
    assert source.current() is leaf
    clock.advance(minutes=30)
    renewed = source.current()
    assert renewed.fingerprint != leaf.fingerprint
    assert renewed.authority == leaf.authority

    both = rings.rotate(first, clock())
    source.update(both, dict.fromkeys(first.fingerprints, True))
    assert source.current() is renewed
    source.update(both, dict.fromkeys(both.fingerprints, True))
    assert source.current().authority_pem == pems.certificate_pem(both.members[0].certificate)


def test_what_is_shared_is_valid_for_clocks_that_are_behind(clock, service):
    source = material_sources.SharedSource(service, clock=clock)
    source.update(rings.rotate(rings.Ring(), clock()), {})
    behind = clock() - timedelta(minutes=55)

    assert source.current().leaf.covers(behind)
    assert source.current().authority.covers(behind)
