"""What is read of a termination message: the guard's own two forms, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.webhook.controllers import guards
from muster.webhook.controllers.guards import Expected, Guarded
from muster_guard import endings
from muster_guard import trainings as guard

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


SAMPLING = {
    "reward": 0.875, "syncs": 24, "syncSeconds": 0.12, "difference": 1.2e-07,
    "ratio": 1.0, "staleness": 0.5, "dropped": 0,
}  # fmt: skip


def test_what_a_training_said_of_its_samples_is_read_and_kept_as_it_was_said():
    found = said(sampling=SAMPLING, verdict="weights-differ")
    assert found.sampling.written() == SAMPLING
    assert found.sampling.sync_seconds == 0.12
    assert found.verdict == "weights-differ"
    assert guards.sampling(found.sampling.written()) == found.sampling


def test_numbers_of_samples_have_six_digits():
    assert said(sampling={"reward": 1 / 3}).sampling.written() == {"reward": 0.333333}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "x",
        7,
        {},
        {"reward": "1"},
        {"reward": True},
        {"reward": 1e300},
        {"syncs": 1.5},
        {"syncs": -1},
        {"x": 1},
    ],
)
def test_numbers_of_samples_that_are_none_are_left_out_and_the_rest_is_read(value):
    found = said(sampling=value)
    assert (found.size, found.sampling) == (2, None)


@pytest.mark.parametrize("value", [None, "", "weights", "weights-differ ", ["weights-differ"], {"a": 1}, 7])
def test_a_verdict_that_is_not_known_is_none(value):
    assert said(verdict=value).verdict is None


def test_the_report_of_a_training_that_the_guard_ended_stands_above_the_reason_and_is_read(monkeypatch):
    written = []
    monkeypatch.setattr(endings, "terminate", written.append)
    monkeypatch.setattr(endings, "_marks", lambda **_: [])
    monkeypatch.setattr(endings.os, "_exit", written.append)
    monkeypatch.setenv("MUSTER_EXPECTED_WORLD_SIZE", "1")
    monkeypatch.setitem(guard.added, "sampling", lambda: {"syncs": 1})
    guard.fail("muster: the sampler serves other weights", "weights-differ")
    report, reason, code = written
    assert (reason, code) == ("muster: the sampler serves other weights", 78)
    found = guards.read(pod(f"{report}\n{reason}\n"))
    assert (found.size, found.verdict, found.sampling.syncs, found.is_right) == (1, "weights-differ", 1, True)


def test_what_others_add_to_a_report_is_left_out_where_it_is_nothing(monkeypatch):
    monkeypatch.setitem(guard.added, "sampling", lambda: None)
    assert "sampling" not in guard.Training(2, 0).report()


MEMBERS = st.dictionaries(
    st.sampled_from([*SAMPLING, "x"]), st.none() | st.text() | st.integers() | st.floats() | st.lists(st.integers())
)


@given(MEMBERS)
def test_whatever_is_said_of_samples_only_sensible_numbers_come_out_and_few_bytes(raw):
    found = guards.sampling(raw)
    written = found.written() if found else {}
    assert all(type(value) in (int, float) and abs(value) < 10**10 for value in written.values())
    assert set(written) <= set(SAMPLING)
    assert len(json.dumps(written)) < 300


ODD = st.builds(json.dumps, st.dictionaries(st.sampled_from([*REPORT]), st.none() | st.text() | st.integers()))


@given(st.text(max_size=300) | ODD)
def test_no_text_fails_or_comes_out_as_text(text):
    found = guards.read(pod(text))
    assert found is None or isinstance(found.size, int)
