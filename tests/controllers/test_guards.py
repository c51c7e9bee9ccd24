"""What is read of a termination message: the guard's own two forms, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_guard import endings
from muster_guard import trainings as guard
from webhook.controllers import guards
from webhook.controllers.guards import Expected, Guarded

REPORT = {"schema": guard.SCHEMA, "worldSize": 2, "expected": "2", "rank": 0, "steps": 8, "wallSeconds": 14.2}


def pod(*messages, **status):
    """A pod whose containers ended with these messages."""
    states = [{"name": "node", "state": {"terminated": {"exitCode": 0, "message": each}}} for each in messages]
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": states, **status}}


def said(**changes):
    return guards.read(pod(json.dumps(REPORT | changes)))


def test_the_report_that_the_guard_writes_is_read(monkeypatch):
    monkeypatch.setenv("MUSTER_EXPECTED_WORLD_SIZE", "2")
    line = json.dumps(guard.Training(2, 0).report())
    found = guards.read(pod(f"{line}\n"))
    assert (found.size, found.expected, found.steps, found.is_right) == (2, Expected(2, 2), 0, True)


@pytest.mark.parametrize(
    ("environment", "size", "expected"),
    [
        ({"MUSTER_EXPECTED_WORLD_SIZE": "2"}, 1, Expected(2, 2)),
        ({"MUSTER_EXPECTED_WORLD_SIZE": "1"}, 4, Expected(1, 1)),
        ({"PET_NNODES": "2:4", "LOCAL_WORLD_SIZE": "2"}, 2, Expected(4, 8)),
        ({"PET_NNODES": "3", "PET_NPROC_PER_NODE": "auto"}, 1, Expected(3, None)),
    ],
)
def test_the_failure_that_the_guard_writes_is_read(monkeypatch, environment, size, expected):
    for name in ("MUSTER_EXPECTED_WORLD_SIZE", "PET_NNODES", "PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    texts = []
    monkeypatch.setattr(endings, "fail", texts.append)
    monkeypatch.setattr(guard, "_compared", set())
    guard.compare(size)
    found = guards.read(pod(*texts))
    assert found == Guarded(size, expected)
    assert found.is_right is False


@pytest.mark.parametrize(("text", "size"), [("2", 2), ("2 to 4", 4), ("2 or more", 99)])
def test_a_size_within_what_was_asked_for_is_right(text, size):
    assert said(expected=text, worldSize=size).is_right
    assert str(guards.expected(text)) == text


def test_where_nothing_was_asked_for_nothing_is_right_or_wrong():
    assert said(expected=None).is_right is None


def test_a_container_that_was_started_again_keeps_what_it_said_before():
    running = {
        "state": {"running": {}},
        "lastState": {"terminated": {"message": json.dumps(REPORT | {"worldSize": 1})}},
    }
    assert guards.read({"metadata": {}, "status": {"containerStatuses": [running]}}).is_right is False


def test_the_last_report_of_a_container_counts_and_a_wrong_size_before_a_right_one_of_another():
    earlier, later = json.dumps(REPORT | {"worldSize": 1}), json.dumps(REPORT)
    assert guards.read(pod(f"{earlier}\n{later}\n")).size == 2
    assert guards.read(pod(later, earlier)).size == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "muster.dev/training/v2"},
        {"worldSize": 0},
        {"worldSize": -1},
        {"worldSize": True},
        {"worldSize": "2"},
        {"worldSize": 10**10},
        {"worldSize": 1e300},
        {"expected": "two"},
        {"expected": "2 or less"},
        {"expected": "4 to 2"},
        {"expected": "0"},
        {"expected": "\u0662"},
        {"expected": ["2"]},
        {"expected": "2" * 5000},
    ],
)
def test_a_report_of_another_form_is_no_report(changes):
    assert said(**changes) is None


@pytest.mark.parametrize("value", [-1, "8", True, 10**12, None, [1]])
def test_an_odd_number_of_steps_or_seconds_is_left_out(value):
    found = said(steps=value, wallSeconds=value)
    assert (found.size, found.steps, found.seconds) == (2, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "out of memory",
        "[" * guards.LIMIT,
        '{"a":' * 600,
        "muster: this training has 1 rank",
        "muster: this training has one rank, but 2 were asked for (x)",
        "muster: this training has 1 rank, but many were asked for (x)",
        "muster: this training has \u0661 rank, but 2 were asked for (x)",
        f"muster: this training has {'1' * 4000} ranks, but 2 were asked for (x)",
        " " + json.dumps(REPORT),
        "x" * guards.LIMIT + "\n" + json.dumps(REPORT),
    ],
)
def test_any_other_text_says_nothing(text):
    assert guards.read(pod(text)) is None


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {"containerStatuses": None},
        {"containerStatuses": [None, 1, {"state": 1}, {"state": {"terminated": []}}]},
    ],
)
def test_a_status_of_any_other_shape_says_nothing(status):
    assert guards.read({"metadata": {}, "status": status}) is None


ODD = st.builds(json.dumps, st.dictionaries(st.sampled_from([*REPORT]), st.none() | st.text() | st.integers()))


@given(st.text(max_size=300) | ODD)
def test_no_text_fails_or_comes_out_as_text(text):
    found = guards.read(pod(text))
    assert found is None or isinstance(found.size, int)
