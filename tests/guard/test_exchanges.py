"""Ranks of one process exchange records: threads stand for them, and a dictionary for the store."""

import threading

import pytest

from muster_guard.exchanges import STAGES, Exchange


class Store:
    """As a store of torch; `failing` is raised by each call once it is set."""

    def __init__(self):
        self.values, self.failing, self._lock = {}, None, threading.Lock()

    def _checked(self):
        if self.failing:
            raise self.failing
        return self._lock

    def set(self, key, value):
        with self._checked():
            self.values[key] = value

    def get(self, key):
        with self._checked():
            return self.values[key]

    def check(self, keys):
        with self._checked():
            return all(key in self.values for key in keys)

    def add(self, key, number):
        with self._checked():
            self.values[key] = self.values.get(key, 0) + number
            return self.values[key]


class Part:
    """A rank that records its number and remembers what it is given."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.judgements, self.looks, self.faults = [], [], []

    def record(self):
        return self.rank

    def judge(self, records, stage):
        return [stage, sorted(records.values())]

    def judged(self, judgement):
        self.judgements.append(judgement)

    def look(self, store):
        self.looks.append(store)

    def failed(self, error):
        self.faults.append(error)


@pytest.fixture
def store():
    return Store()


def test_each_rank_gets_the_judgement_of_each_stage_over_all_records(store):
    parts = [Part(rank, 3) for rank in range(3)]
    exchanges = [Exchange(store, part) for part in parts]
    for stage in range(1, STAGES + 1):
        for each in exchanges:
            each.reach(stage)
    for each in (*exchanges[1:], exchanges[0]):
        each.close(at_once=False)

    assert [part.judgements for part in parts] == [[[stage, [0, 1, 2]] for stage in (1, 2, 3)]] * 3
    assert all(part.looks for part in parts), "files are looked at once more at the end"


def test_a_rank_that_ends_earlier_is_judged_by_what_it_said(store):
    parts = [Part(rank, 2) for rank in range(2)]
    exchanges = [Exchange(store, part) for part in parts]
    for each in exchanges:
        each.reach(1)
    ends = [threading.Thread(target=each.close, kwargs={"at_once": False}) for each in exchanges]
    for each in ends:
        each.start()
    for each in ends:
        each.join()

    assert [part.judgements[-1] for part in parts] == [[STAGES, [0, 1]]] * 2


def test_a_store_that_is_gone_is_no_fault(store):
    part = Part(1, 2)
    store.failing = RuntimeError("the owner of the store has ended")
    Exchange(store, part).close(at_once=False)

    assert (part.judgements, part.faults) == ([], [])


def test_another_fault_is_given_to_who_tells_it(store):
    part = Part(0, 1)
    store.failing = fault = KeyError("a fault of the guard")
    Exchange(store, part).close(at_once=False)

    assert part.faults == [fault]
