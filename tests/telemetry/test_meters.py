"""Metrics of a training, as Prometheus reads them."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from muster_telemetry import meters
from muster_telemetry.syncs import Syncs
from tests.telemetry.rows import asynchronous, synchronous


def series(text):
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}


def shown(made):
    registry = CollectorRegistry()
    registry.register(made)
    return series(generate_latest(registry).decode())


def test_what_nobody_measured_has_no_series():
    assert shown(meters.Meters(Syncs())) == {
        "muster_training_weight_sync_seconds_count": 0,
        "muster_training_weight_sync_seconds_sum": 0,
    }


def test_a_synchronous_training_has_its_reward_difference_ratio_and_the_seconds_of_its_syncs():
    syncs = Syncs()
    made = meters.Meters(syncs)
    syncs.sent(None, 0.5)
    syncs.sent(None, 0.25)
    made.add(synchronous(1), 1)
    made.add(synchronous(2), 2)
    assert shown(made) == {
        "muster_training_step": 2,
        "muster_training_reward": 0.02,
        "muster_training_sampling_logp_difference": 1e-7,
        "muster_training_importance_ratio": 1,
        "muster_training_weight_sync_seconds_count": 2,
        "muster_training_weight_sync_seconds_sum": 0.75,
    }


def test_an_asynchronous_training_has_its_staleness_and_counts_what_it_threw_away():
    made = meters.Meters(Syncs())
    for step, dropped in ((1, {}), (2, {"sample/dropped_stale_total": 3.0}), (3, {"sample/dropped_stale_total": 2.0})):
        made.add(asynchronous(step, **dropped), step)
    found = shown(made)
    assert found["muster_training_samples_dropped_total"] == 5
    assert found["muster_training_staleness_versions"] == 0.5
    assert found["muster_training_tokens_per_second"] == 800


def test_they_are_served_at_a_port():
    made = meters.Meters(Syncs())
    made.add(synchronous(7), 7)
    listener = made.serve(0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{listener.server_port}/metrics", timeout=30) as answer:
            assert series(answer.read().decode())["muster_training_step"] == 7
    finally:
        listener.shutdown()
        listener.server_close()


def test_a_port_is_asked_for_by_a_variable():
    assert meters.port({}) is None
    assert meters.port({"MUSTER_METRICS_PORT": "9400"}) == 9400


@pytest.mark.parametrize("value", ["0", "65536", "http", "-1", "9" * 5000, "\u0669"])
def test_a_port_that_is_none_is_told_and_ends_nothing(value, capsys):
    assert meters.port({"MUSTER_METRICS_PORT": value}) is None
    assert "MUSTER_METRICS_PORT" in capsys.readouterr().err
