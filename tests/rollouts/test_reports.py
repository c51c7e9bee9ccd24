"""What a training says at its end is what TRL logged on the way."""

import math
import random

from muster_rollouts.reports import Report


def test_dropped_samples_are_counted_over_all_windows_and_set_against_all_that_were_taken():
    report = Report()
    report.add({"ratio": 1.0002, "sample/staleness_mean": 0.5, "sample/staleness_max": 1.0, "loss": 0.1})
    report.add({"ratio": 0.9998, "sample/staleness_mean": 1.5, "sample/staleness_max": 2.0})
    report.add({"sample/dropped_stale_total": 3.0, "ratio": None})
    report.add({"sample/dropped_stale_total": 1.0})

    assert report.told(80) == {
        "samples": 76,
        "dropped": 4,
        "dropped_share": 0.05,
        "staleness_mean": 1.0,
        "staleness_max": 2.0,
        "ratio_mean": 1.0,
        "ratio_error": None,
        "ratio_min": 0.9998,
        "ratio_max": 1.0002,
    }


def test_a_training_that_logged_nothing_says_so():
    found = Report().told(0)
    assert (found["samples"], found["dropped_share"], found["staleness_mean"]) == (0, 0.0, None)
    assert (found["ratio_mean"], found["ratio_min"], found["ratio_max"]) == (None, None, None)


def test_the_mean_ratio_is_over_tokens_and_its_error_is_that_of_so_many_draws():
    report = Report()
    report.add({"ratio": 1.02, "kl": 0.005, "batch/trained_tokens_per_step": 100.0}, 1)
    report.add({"ratio": 0.99, "kl": 0.02, "batch/trained_tokens_per_step": 150.0}, 3)

    found = report.told(8)

    assert found["ratio_mean"] == round((100 * 1.02 + 300 * 0.99) / 400, 6)
    assert found["ratio_error"] == round((2 * 0.005 * 100 + 2 * 0.02 * 300) ** 0.5 / 400, 6)


def test_ratios_that_are_drawn_with_the_probabilities_that_are_told_stay_within_four_of_their_errors():
    drawn, report = random.Random(0), Report()  # noqa: S311  # no secret
    for step in range(1, 81):
        # The mean of the ratio is 1 where log ratios are normal with mean -v / 2 and variance v.
        logs = [-drawn.gauss(0.02, 0.2) for _ in range(128)]
        ratios = [math.exp(each) for each in logs]
        kl = sum(ratio - 1 - log for ratio, log in zip(ratios, logs, strict=True)) / 128
        report.add({"ratio": sum(ratios) / 128, "kl": kl, "batch/trained_tokens_per_step": 128.0}, step)

    found = report.told(80)

    assert abs(found["ratio_mean"] - 1) < 4 * found["ratio_error"] < 0.01
    assert max(abs(found["ratio_min"] - 1), abs(found["ratio_max"] - 1)) > 0.02, "a single step says little"
