"""What a training says at its end is what TRL logged on the way."""

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
        "ratio_min": 0.9998,
        "ratio_max": 1.0002,
    }


def test_a_training_that_logged_nothing_says_so():
    found = Report().told(0)
    assert (found["samples"], found["dropped_share"], found["staleness_mean"]) == (0, 0.0, None)
    assert (found["ratio_mean"], found["ratio_min"], found["ratio_max"]) == (None, None, None)
