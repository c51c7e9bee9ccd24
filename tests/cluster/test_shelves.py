"""What is held of one kind stays within its bytes, whoever creates how much of it."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.webhook.cluster import kinds, live, readers, shelves, snapshots, stores

KiB, MiB = 1024, 1024 * 1024
JOBS, FROZEN = kinds.KINDS["TrainJob"], kinds.KINDS["RuntimeSnapshot"]
HOSTILE = "team-evil"


def fill(store, make, count, size, namespace=HOSTILE):
    for number in range(count):
        store.put(make(namespace, f"{namespace}-{number}", f"{number:08}" + "x" * (size - 8)))


def a_job(namespace, name, text):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"args": [text]}}


def a_snapshot(namespace, name, text):
    return {"metadata": {"name": f"{name}-runtime-snapshot", "namespace": namespace}, "data": {"runtime": text}}


@pytest.mark.parametrize(("kind", "make"), [(JOBS, a_job), (FROZEN, a_snapshot)])
@pytest.mark.parametrize("size", [8, 3 * KiB, 100 * KiB, 200 * KiB, MiB])
def test_no_number_and_no_size_of_objects_takes_more_than_the_room_and_the_count_of_bytes_is_true(kind, make, size):
    store = stores.Store(kind, 2 * MiB)
    tracemalloc.start()
    try:
        fill(store, make, min(60 * MiB // (size + 600), 10_000) if size < MiB else 40, size)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    markers = 100 * store.left_out
    assert store.used <= 2 * MiB
    assert taken <= store.used * 1.1 + markers + 64 * KiB
    assert store.left_out


@pytest.mark.parametrize("hostile", [500, 3 * KiB, 60 * KiB])
@pytest.mark.parametrize("first", [True, False])
def test_who_fills_a_namespace_pushes_out_nothing_of_others(hostile, first):
    store = stores.Store(JOBS, MiB)
    if first:
        fill(store, a_job, 20, 6 * KiB, "team-a")
    fill(store, a_job, 3 * MiB // hostile, hostile)
    if not first:
        fill(store, a_job, 20, 6 * KiB, "team-a")
    held = [store.get(readers.Ref("TrainJob", "team-a", f"team-a-{number}")) for number in range(20)]
    assert None not in held
    assert store.used > 0.8 * MiB - 2 * hostile


def test_several_namespaces_that_are_filled_share_what_others_leave():
    store = stores.Store(JOBS, MiB)
    for namespace in ("evil-1", "evil-2", "evil-3", "evil-4", "team-a"):
        fill(store, a_job, 3 * MiB // (6 * KiB) if namespace != "team-a" else 10, 6 * KiB, namespace)
    assert all(store.get(readers.Ref("TrainJob", "team-a", f"team-a-{number}")) for number in range(10))


def test_one_namespace_may_take_all_where_nobody_else_needs_it():
    store = stores.Store(JOBS, MiB)
    fill(store, a_job, 140, 6 * KiB, "team-a")
    assert (len(store), store.left_out) == (140, 0)


def test_what_is_too_large_to_keep_is_known_to_be_missing_until_it_is_deleted_or_small():
    store = stores.Store(JOBS, MiB)
    ref = readers.Ref("TrainJob", "team-a", "big")
    store.put(a_job("team-a", "big", "small"))
    store.put(a_job("team-a", "big", "x" * shelves.LARGEST))
    assert (store.get(ref), len(store), store.left_out, store.used) == (None, 0, 1, 0)
    store.put(a_job("team-a", "big", "small"))
    assert (len(store), store.left_out) == (1, 0)
    store.put(a_job("team-a", "big", "x" * shelves.LARGEST))
    store.drop(a_job("team-a", "big", ""))
    assert (len(store), store.left_out) == (0, 0)


def test_a_job_with_a_script_of_30_kb_is_kept():
    store = stores.Store(JOBS)
    store.put(a_job("team-a", "large", "x" * 40_000))
    assert len(store) == 1


def test_a_list_forgets_what_was_left_out_and_is_not_there_any_more():
    store = stores.Store(JOBS, MiB)
    fill(store, a_job, 400, 6 * KiB)
    before = store.left_out
    listing = store.listing()
    listing.take([a_job("team-a", "a", "x")])
    assert store.left_out >= before
    listing.end()
    assert (len(store), store.left_out, store.used < 2 * KiB) == (1, 0, True)


def test_an_object_that_cannot_be_packed_is_left_out_alone(caplog):
    store = stores.Store(JOBS, MiB)
    store.put({"metadata": {"name": "odd", "namespace": "team-a", "annotations": 7}, "spec": {"n": 2**70}})
    store.put(a_job("team-a", "good", "x"))
    assert (len(store), store.left_out) == (1, 1)
    assert "cannot be kept" in caplog.text


def test_names_take_room_too():
    store = stores.Store(JOBS, MiB)
    for number in range(20_000):
        store.put({"metadata": {"name": f"{number}-{'n' * 240}", "namespace": HOSTILE}})
    assert len(store) < MiB // (shelves.OVERHEAD + 240)


def test_changes_of_one_object_each_second_take_no_more_room():
    store = stores.Store(FROZEN, MiB)
    for number in range(3_000):
        store.put(a_snapshot("team-a", "one", f"{number:010}" + "x" * 30 * KiB))
    assert (len(store), store.left_out) == (1, 0)
    assert store.used < 32 * KiB


def test_equal_snapshots_of_a_namespace_are_counted_once_and_released_with_the_last():
    store = stores.Store(FROZEN, MiB)
    for name in ("a", "b", "c"):
        store.put(a_snapshot("team-a", name, "x" * 50_000))
    assert 50_000 < store.used < 54_000
    for name in ("a", "b", "c"):
        store.put(a_snapshot("team-a", name, "y" * 40_000))
    assert 40_000 < store.used < 44_000
    for name in ("a", "b", "c"):
        store.drop(a_snapshot("team-a", name, ""))
    assert store.used == 0


NAMES = st.sampled_from(["a", "b", "c", "d"])
STEP = st.tuples(NAMES, NAMES, st.integers(0, 900), st.sampled_from(["", "t" * 100, "u" * 300]), st.booleans())


@given(st.lists(STEP, max_size=60))
def test_after_any_changes_the_bytes_are_those_of_what_is_held(steps):
    room = 3_000
    shelf = shelves.Shelf(room)
    there = set()
    for namespace, name, size, text, stays in steps:
        ref = readers.Ref("TrainJob", namespace, name)
        if stays:
            shelf.put(ref, size, size, text)
            there.add(ref)
        else:
            shelf.pop(ref)
            there.discard(ref)
        assert shelf.used <= room
        assert len(shelf) + shelf.left_out == len(there)
        assert shelf.used == sum(space.used for space in shelf._spaces.values())
    for ref in there:
        shelf.pop(ref)
    assert (shelf.used, len(shelf), shelf.left_out) == (0, 0, 0)


def test_of_very_many_that_are_left_out_only_some_are_known_one_by_one(monkeypatch):
    monkeypatch.setattr(shelves, "MARKED", 100)
    shelf = shelves.Shelf(0)
    for number in range(1_000):
        shelf.put(readers.Ref("TrainJob", HOSTILE, f"job-{number}"), b"", 1)
    assert len(shelf._left) == 100
    assert shelf.left_out == 1_000


def test_what_was_left_out_without_a_mark_is_not_forgotten_before_all_have_been_listed(monkeypatch):
    monkeypatch.setattr(shelves, "MARKED", 3)
    store = stores.Store(JOBS, MiB)
    fill(store, a_job, 5, shelves.LARGEST)
    for number in range(3):
        store.drop(a_job(HOSTILE, f"{HOSTILE}-{number}", ""))
    assert store.left_out == 2
    listing = store.listing()
    assert store.left_out == 2
    listing.take([a_job(HOSTILE, f"{HOSTILE}-4", "x" * shelves.LARGEST)])
    listing.end()
    assert store.left_out == 1


def test_the_kinds_share_one_limit_and_the_leader_takes_little_more_than_half_as_much_again():
    assert sum(kind.share for kind in kinds.KINDS.values()) == pytest.approx(1)
    followed = (kinds.POD, kinds.JOBSET, kinds.CLAIM, kinds.TEMPLATE, kinds.NAMESPACE)
    leader = sum(kind.share for kind in followed)
    assert leader <= 0.56
    assert (1 + leader) * live.ROOM <= 256 * MiB


def test_what_was_read_of_texts_has_a_limit_in_bytes_and_long_texts_do_not_push_out_short_ones():
    readings = snapshots.Readings(400 * KiB)
    readings.add("short", (b"{}", ""))
    for number in range(100):
        readings.add(f"{number:06}" + "x" * 20 * KiB, (b"x" * 20 * KiB, ""))
        readings.add(f"{number:06}" + "x" * 200 * KiB, (b"", "too long"))
    assert readings.used <= 400 * KiB
    assert readings.get("short") == (b"{}", "")
