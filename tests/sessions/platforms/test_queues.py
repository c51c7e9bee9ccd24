"""For whom an engine waits, as it is told to a client: of a seat, and of a turn on the device."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.sessions.nodes import notices
from muster.sessions.platforms import queues
from muster.sessions.platforms.pods import seen
from muster.sessions.platforms.queues import Queues

CLAIM = "muster-seat-0"


def claim(**annotations):
    texts = {
        f"muster.dev/{key}": each if isinstance(each, str) else json.dumps(each) for key, each in annotations.items()
    }
    return {"metadata": {"name": CLAIM, "annotations": texts}}


def pod(job, age=0, *, name=None, uid=None, gated=True, on=CLAIM, gone=False):
    name = name or f"{job}-trainer"
    metadata = {"name": name, "uid": uid or f"uid-{name}", "creationTimestamp": f"2026-01-01T00:00:{age:02}Z"}
    metadata["labels"] = {"jobset.sigs.k8s.io/jobset-name": job, "muster.dev/role": "trainer"}
    if gone:
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    gates = [{"name": "muster.dev/seat"}] if gated else []
    condition = {"type": "PodScheduled", "status": "False" if gated else "True"}
    return {
        "metadata": metadata,
        "spec": {"schedulingGates": gates, "resourceClaims": [{"name": "devices", "resourceClaimName": on}]},
        "status": {"conditions": [condition]},
    }


def seats(*jobs):
    return {f"uid-{job}-{n}": {"pod": f"{job}-{n}", "job": job, "since": "now"} for n, job in enumerate(jobs)}


def test_the_place_is_that_of_the_job_by_age_and_the_holders_are_named():
    own = pod("c", 3)
    line = [own, pod("c", 3, name="c-sampler"), pod("b", 1), pod("d", 9), pod("x", 0, on="muster-seat-1")]
    found = Queues(claim(seats=seats("a", "a", "e")), [*line, pod("a", 0, gated=False), pod("y", 0, gone=True)])
    assert found.seat("trainer", own) == (
        f"the trainer waits for a seat on claim {CLAIM}, place 2 of 3 in its line; its seats are taken by a (2), e"
    )


def test_who_has_a_seat_and_waits_for_its_gate_only_is_in_no_line():
    own = pod("c")
    held = Queues(claim(seats={"uid-c-trainer": {"pod": "c-trainer", "job": "c", "since": "now"}}), [own])
    assert held.seat("trainer", own) == f"the trainer waits for a seat on claim {CLAIM}; its seats are taken by c"


def test_many_holders_are_counted():
    told = Queues(claim(seats=seats(*"abcdefg")), []).seat("sampler", pod("z"))
    assert told.endswith("its seats are taken by a, b, c, d, 3 more")


def test_profiles_that_are_full_are_told_with_or_without_the_claim():
    own, full = pod("c"), ("seat", "spare")
    told = "; profiles without enough free seats: seat, spare"
    for found in (Queues(claim(seats=seats("a")), [own], full=full), Queues(claim(), full=full), Queues(full=full)):
        assert found.seat("trainer", own) == dataclasses.replace(found, full=()).seat("trainer", own) + told


def test_without_the_claim_it_is_told_that_it_waits():
    assert Queues().seat("trainer", pod("c")) == "the trainer waits for a seat on a shared device"


@given(st.permutations(range(8)), st.integers(0, 7))
def test_each_job_has_the_place_of_its_age_whatever_the_order_of_the_list(order, which):
    ages = [each // 2 for each in range(8)]  # two at a time are as old, and go by name
    line = [pod(f"job{n}", ages[n]) for n in order]
    told = Queues(claim(), line).seat("trainer", pod(f"job{which}", ages[which]))
    assert told.endswith(f"place {which + 1} of 8 in its line")


LEASE = {
    "phase": "working",
    "holder": "b-trainer",
    "since": "then",
    "changes": 1,
    "turns": {},
    "waiting": ["c-trainer"],
}


def test_a_turn_is_waited_for_with_the_place_and_the_holder():
    told = Queues(claim(lease={**LEASE, "waiting": ["x", "c-trainer"]})).turn("trainer", pod("c"))
    assert told.endswith("place 2 of 2 by the time at which they asked; b-trainer has had it since then")


@pytest.mark.parametrize(
    "lease",
    [
        pytest.param({**LEASE, "waiting": ["x"]}, id="it does not wait"),
        pytest.param({**LEASE, "holder": "c-sampler"}, id="the other engine of its Gateway has it"),
        pytest.param({}, id="nobody takes turns"),
    ],
)
def test_whoever_waits_for_no_other_session_is_told_nothing(lease):
    assert Queues(claim(lease=lease), (), frozenset({"c-trainer", "c-sampler"})).turn("trainer", pod("c")) == ""


def test_between_two_holders_that_is_told():
    told = Queues(claim(lease={**LEASE, "holder": None, "since": None})).turn("trainer", pod("c"))
    assert told.endswith("it is being given to the next")


def test_an_engine_that_has_not_had_its_first_turn_is_not_said_to_be_starting():
    own = pod("c", gated=False)
    found = seen("trainer", [own], Queues(claim(lease=LEASE)))
    assert (found.address, found.absence) == (None, "device")
    assert "waits for its turn" in found.reason
    assert seen("trainer", [own]).absence == "starting"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(st.sampled_from(["waiting", "holder", "since", "job", "pod", "a"]), each, max_size=4)
    ),
    max_leaves=12,
)


@given(ANYTHING | st.text(max_size=30), ANYTHING | st.text(max_size=30))
def test_whatever_stands_on_the_claim_a_sentence_is_told_and_nothing_fails(first, second):
    found = Queues(claim(seats=first, lease=second), [pod("c")])
    assert found.seat("trainer", pod("c")).startswith("the trainer waits for a seat")
    turn = found.turn("trainer", pod("c"))
    assert turn == "" or turn.startswith("the trainer waits for its turn on the device of claim")


def test_the_annotations_are_those_that_are_written():
    assert notices.ANNOTATION == queues._LEASE
