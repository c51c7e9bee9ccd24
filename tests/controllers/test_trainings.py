"""Which pod speaks for a training, and the annotation that keeps what it said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.webhook.controllers import trainings
from muster.webhook.controllers.guards import Expected, Guarded, Measured, Sampling
from muster.webhook.controllers.trainings import Report

RIGHT, WRONG = Guarded(2, Expected(2, 2), 8, 14.2), Guarded(1, Expected(2, 2))
SAMPLED = Guarded(2, Expected(2, 2), 8, 14.2, None, Sampling(0.8, 8, 0.1, 1.5e-07, 1.0, 0.5, 0))
ENDED = Guarded(2, Expected(2, 2), 3, 4.5, "weights-refused", Sampling(syncs=3))


def report(said=RIGHT, pod="job-node-0-0-abcde", created="2026-11-23T10:00:00Z", attempt=0):
    return Report(attempt, pod, created, said)


def test_a_wrong_size_speaks_for_all_pods_of_an_attempt_in_whatever_order_they_report():
    right, wrong = report(), report(WRONG, "job-node-0-1-fghij")
    assert trainings.chosen(right, wrong) == trainings.chosen(wrong, right) == wrong


def test_the_first_of_pods_that_agree_speaks_so_that_one_training_is_written_once():
    first, other = report(), report(pod="job-node-0-1-fghij", created="2026-11-23T11:00:00Z")
    assert trainings.chosen(first, other) == first


def test_a_later_pod_in_the_same_place_replaces_what_an_earlier_one_said():
    wrong, retried = report(WRONG), report(pod="job-node-0-0-zzzzz", created="2026-11-23T10:01:00Z")
    assert trainings.chosen(wrong, retried) == trainings.chosen(retried, wrong) == retried


def test_a_later_attempt_of_the_jobset_counts_whatever_the_earlier_ones_said():
    earlier, later = report(WRONG), report(attempt=1)
    assert trainings.chosen(earlier, later) == trainings.chosen(later, earlier) == later


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (RIGHT, "as-asked"),
        (WRONG, "not-as-asked"),
        (Guarded(4, None), "nothing-asked"),
        (SAMPLED, "as-asked"),
        (ENDED, "as-asked"),
        (Guarded(2, Expected(2, 2), verdict="device-shared"), "not-as-asked"),
        (Guarded(2, None, verdict="devices-idle"), "not-as-asked"),
        (Guarded(2, Expected(2, 2), verdict="paths-shared"), "as-asked"),
    ],
)
def test_the_annotation_is_read_as_it_was_written_and_names_the_outcome(said, outcome):
    text = trainings.format_report(report(said))
    assert trainings.parse_report(text) == report(said)
    assert f'"outcome":"{outcome}"' in text


def test_the_rank_that_speaks_with_the_sampler_speaks_for_the_training_and_a_verdict_before_it():
    plain, sampled = report(), report(SAMPLED, "job-node-0-1-fghij")
    ended = report(ENDED, "job-node-0-2-fghij")
    assert trainings.chosen(plain, sampled) == trainings.chosen(sampled, plain) == sampled
    assert trainings.chosen(sampled, ended) == trainings.chosen(ended, sampled) == ended
    assert trainings.chosen(ended, report(WRONG)) == report(WRONG)


def test_an_annotation_is_read_without_what_is_no_number_or_no_verdict_of_ours():
    text = trainings.format_report(report(ENDED)).replace("weights-refused", "\\u001b[2J").replace("3}", '"x"}')
    assert trainings.parse_report(text).said == Guarded(2, Expected(2, 2), 3, 4.5)


def test_an_annotation_has_few_bytes_whatever_a_pod_said():
    seen = Measured(*[10**9] * 5, "not-shared", 10**9, *[1.23456e-05] * 3)
    full = Guarded(
        10**9, Expected(10**9, 10**9 + 1), 10**9, 1e9, "gradients-not-shared", Sampling(*[-1.23456e-05] * 7), seen
    )
    kept = replace(report(full, pod="p" * 253), heard="2026-11-23T10:00:00Z", predicted="right")
    text = trainings.format_report(kept)
    assert len(text) < 1400
    assert trainings.parse_report(text).said.measured == seen
    assert trainings.parse_report(text).predicted == "right"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        "[]",
        "null",
        "{",
        trainings.format_report(report()).replace("/v1", "/v2"),
        trainings.format_report(report()).replace('"worldSize":2', '"worldSize":true'),
        trainings.format_report(report()).replace('"attempt":0', '"attempt":null'),
        trainings.format_report(report(pod="x" * 3000)),
    ],
)
def test_an_annotation_of_another_form_is_none(text):
    assert trainings.parse_report(text) is None


@given(st.text(max_size=200))
def test_no_annotation_fails(text):
    assert trainings.parse_report(text) is None


def live(said=RIGHT, created="2026-11-23T10:00:30Z", **changes):
    return replace(report(said, "", created), **changes)


def test_a_pod_speaks_before_a_status_unless_the_status_tells_of_a_fault():
    pod, fault = report(), Guarded(2, Expected(2, 2), verdict="device-shared")
    assert trainings.chosen(live(), pod) == trainings.chosen(pod, live()) == pod
    assert trainings.chosen(live(fault), pod) == trainings.chosen(pod, live(fault)) == live(fault)


def test_of_two_statuses_the_later_counts_whatever_the_earlier_said():
    wrong, later = live(WRONG), live(created="2026-11-23T10:00:31Z")
    assert trainings.chosen(wrong, later) == trainings.chosen(later, wrong) == later


def test_a_status_counts_for_a_later_attempt_only_if_it_was_written_after_what_is_kept():
    kept = replace(report(), heard="2026-11-23T10:05:00Z")
    old, new = live(attempt=1), live(attempt=1, created="2026-11-23T10:05:01Z")
    assert (trainings.chosen(kept, old), trainings.chosen(kept, new)) == (kept, new)
