from __future__ import annotations

import multiprocessing
import queue
import threading

import pytest

from muster_rollouts.counts import CountedQueue, Counts
from tests.support.waits import until

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def counts():
    return Counts(SPAWN, 8)


@pytest.fixture
def samples(counts):
    return CountedQueue(queue.Queue(), counts)


def take(samples, count):
    for _ in range(count):
        samples._inner.put("sample")
        assert samples.get(timeout=1) == "sample"


def test_what_the_trainer_takes_is_counted_from_each_version_on(counts, samples):
    counts.value = 1
    take(samples, 3)
    counts.value = 2
    take(samples, 2)
    progress = counts.read()
    assert (progress.version, progress.taken, progress.taken_before) == (2, 5, 3)
    assert counts.value == 2


def test_what_it_fetches_before_its_first_step_says_nothing_about_a_version(counts, samples):
    counts.value = 1
    take(samples, 24)
    counts.value = 2
    assert counts.read().per_version == 8


def test_the_version_that_took_least_of_the_last_eight_counts(counts, samples):
    for version, taken in enumerate([24, 8, 6, 7]):
        take(samples, taken)
        counts.value = version + 1
    assert counts.read().per_version == 6
    for version in range(8):
        take(samples, 9)
        counts.value = version + 10
    assert counts.read().per_version == 9


def test_a_trainer_that_took_nothing_for_a_version_takes_at_least_one_next_time(counts, samples):
    take(samples, 1)
    counts.value = 1
    counts.value = 2
    assert counts.read().per_version == 1


async def test_it_is_known_whether_the_trainer_waits(counts, samples):
    thread = threading.Thread(target=samples.get)
    thread.start()
    await until(lambda: counts.read().waits)
    samples._inner.put("sample")
    thread.join()
    assert not counts.read().waits
    assert samples.qsize() == 0


def test_an_empty_queue_says_so_in_time(samples):
    with pytest.raises(queue.Empty):
        samples.get(timeout=0.01)


def _child(counts, samples, answers):
    samples.put("from the child")
    answers.put((counts.value, type(samples).__name__))


def test_the_other_process_sees_the_counts_and_puts_samples():
    counts = Counts(SPAWN, 8)
    samples, answers = CountedQueue(SPAWN.Queue(), counts), SPAWN.Queue()
    counts.value = 7
    child = SPAWN.Process(target=_child, args=(counts, samples, answers))
    child.start()
    try:
        assert answers.get(timeout=60) == (7, "Queue")
        assert samples.get(timeout=60) == "from the child"
    finally:
        child.join()
    assert counts.read().taken == 1


def test_a_trainer_that_takes_nothing_is_refused():
    with pytest.raises(ValueError, match="per_version must be 1 or more"):
        Counts(SPAWN, 0)
