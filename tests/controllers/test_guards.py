"""What is read of a termination message: the guard's own two forms, and nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.webhook.controllers import guards
from muster.webhook.controllers.guards import Expected, Guarded, Measured
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
    assert found == Guarded(size, expected, verdict="size-differs")
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


MEASURED = {
    "nodes": 2, "devices": {"used": 7, "visible": 8, "shared": 1, "idle": 1}, "gradients": "not-shared", "writes": 3,
    "firstStepSeconds": 12.345678, "stepsPerSecond": 2.5, "tokensPerSecond": 4096.0, "verdict": "device-shared",
}  # fmt: skip
METRICS = {
    "muster.dev/world-size": "16", "muster.dev/expected-world-size": "2 to 16", "muster.dev/nodes": "2",
    "muster.dev/devices": "15", "muster.dev/devices-shared": "1", "muster.dev/devices-idle": "1",
    "muster.dev/gradients": "sharded", "muster.dev/paths-shared": "3", "muster.dev/first-step-seconds": "12.35",
    "muster.dev/steps-per-second": "2.5", "muster.dev/tokens-per-second": "4096.0",
    "muster.dev/verdict": "devices-idle",
}  # fmt: skip


def trainjob(metrics, **status):
    listed = [{"name": name, "value": value} for name, value in metrics.items()]
    return {
        "metadata": {"name": "t"},
        "status": {"trainerStatus": {"metrics": listed, "lastUpdatedTime": "T", **status}},
    }


def test_what_the_guard_measured_is_read():
    found = said(**MEASURED)
    assert found.verdict == "device-shared"
    assert found.measured == Measured(2, 7, 8, 1, 1, "not-shared", 3, 12.3457, 2.5, 4096.0)


FIELDS = {
    "nodes": ("nodes",), "devices": ("used", "visible", "shared", "idle"), "gradients": ("gradients",),
    "writes": ("paths",), "firstStepSeconds": ("first_step_seconds",), "stepsPerSecond": ("steps_per_second",),
    "tokensPerSecond": ("tokens_per_second",),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FIELDS])
@pytest.mark.parametrize("value", [-1 - 10**10, "8", True, 10**12, None, [1], {"used": "1"}, {}, "shared\x1b[2J"])
def test_odd_members_of_what_was_measured_are_left_out_and_the_rest_is_read(name, value):
    kept, whole = said(**MEASURED | {name: value}).measured, said(**MEASURED).measured
    assert kept == replace(whole, **dict.fromkeys(FIELDS[name]))


def test_metrics_in_the_status_of_a_trainjob_say_the_same_as_a_report():
    found, at = guards.from_status(trainjob({"loss": "0.5", **METRICS}))
    assert at == "T"
    assert (found.size, str(found.expected), found.verdict) == (16, "2 to 16", "devices-idle")
    assert found.measured == Measured(2, 15, None, 1, 1, "sharded", 3, 12.35, 2.5, 4096.0)


def test_the_metrics_that_the_guard_makes_are_all_known():
    made = (Path(__file__).parents[2] / "images/guard/muster_guard/measured.py").read_text()
    body = made[made.index("def metrics(self)") :]
    names = re.findall(r'^            "([a-z-]+)":', body[: body.index("return {f")], re.MULTILINE)
    assert {f"muster.dev/{name}" for name in names} == METRICS.keys()


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"loss": "0.5"},
        {**METRICS, "muster.dev/world-size": "0"},
        {**METRICS, "muster.dev/world-size": "\u0661"},
        {**METRICS, "muster.dev/world-size": "2.5"},
        {**METRICS, "muster.dev/world-size": "1" * 64},
        {**METRICS, "muster.dev/expected-world-size": "many"},
        {**{f"m{index}": "1" for index in range(256)}, **METRICS},
    ],
)
def test_a_status_without_a_world_size_says_nothing(metrics):
    assert guards.from_status(trainjob(metrics)) is None


@pytest.mark.parametrize("status", [None, [], {"trainerStatus": 1}, {"trainerStatus": {"metrics": [None]}}, {}])
def test_a_trainer_status_of_any_other_shape_says_nothing(status):
    assert guards.from_status({"metadata": {}, "status": status}) is None


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=64), st.lists(st.integers()))


@given(st.dictionaries(st.sampled_from([*METRICS, "loss"]), st.text(max_size=64)))
def test_no_metric_fails_and_no_text_of_one_is_kept(metrics):
    found = guards.from_status(trainjob(METRICS | metrics))
    if found is not None:
        assert len(repr(found[0])) < 600


@given(
    st.dictionaries(st.sampled_from(["worldSize", *MEASURED]), VALUES | st.dictionaries(st.text(max_size=8), VALUES))
)
def test_no_report_fails_and_no_text_of_one_is_kept(changes):
    found = guards.read(pod(json.dumps(REPORT | changes)))
    if found is not None:
        assert len(repr(found)) < 600
        assert guards.problem(found) is None or len(guards.problem(found)) < 300


@pytest.mark.parametrize("word", guards.VERDICTS)
def test_each_verdict_is_one_sentence_with_what_to_do(word):
    text = guards.problem(said(**MEASURED | {"verdict": word, "worldSize": 1}))
    assert "\n" not in text
    assert not text.endswith(".")
    assert ("; " in text) is not word.startswith("weights")


def test_a_training_without_a_verdict_has_no_problem():
    assert guards.problem(said()) is None
    assert guards.problem(said(expected="1", worldSize=2, verdict="size-differs")).startswith(
        "the training has 2 ranks, but 1 was asked for; "
    )


def test_ranks_on_fewer_nodes_than_were_asked_for_are_told_by_their_nodes():
    text = guards.problem(said(nodes=1, verdict="size-differs"))
    assert text.startswith("the training has 2 ranks, which are on 1 node, fewer than were asked for; ")
