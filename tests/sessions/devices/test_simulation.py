"""The simulation of many sessions on few devices, in small."""

import random

import pytest

from bench import sessions_devices as simulation


@pytest.fixture(scope="module")
def devices():
    """Return what the sessions of six devices had, by the way in which they took turns."""
    return _simulated(simulation._ADAPTERS)


def _simulated(trainers, samplers=simulation._SAMPLERS):
    chosen = simulation.loads(trainers, samplers)
    out = {}
    for way, make in simulation._WAYS.items():
        mixes, chance = random.Random(8), random.Random(7)  # noqa: S311  # no secrets
        out[way] = []
        for _ in range(6):
            hads = [simulation.Had(mixes.choice(chosen)) for _ in range(5)]
            make(hads, chance).run()
            out[way].append(hads)
    return out


def _duty(devices):
    computed = sum(had.computed for device in devices for had in device)
    return computed / (simulation.HOURS * 3600 * len(devices))


def _least(devices):
    return min(part for device in devices for part in simulation.fair(device))


def test_a_device_under_the_lease_computes_twice_as_much_as_one_of_a_session_of_its_own(devices):
    alone = simulation._exclusive(simulation.loads(simulation._ADAPTERS)[2], 7)
    assert _duty([[alone]]) == pytest.approx(0.4, abs=0.01)
    assert _duty(devices["lease"]) > 0.83


def test_the_lease_gives_each_session_its_fair_share_and_a_queue_does_not(devices):
    assert _least(devices["lease"]) > 0.8 > _least(devices["first in, first out"])


def test_with_all_weights_too_no_session_has_much_less_than_its_fair_share():
    assert _least(_simulated(simulation._FULL)["lease"]) > 0.8


def test_with_the_moves_of_an_h200_a_device_computes_for_85_percent_of_the_time_with_all_weights_too():
    devices = _simulated(simulation._MEASURED_FULL, simulation._MEASURED_WHOLE)["lease"]
    assert _duty(devices) > 0.85
    assert _least(devices) > 0.8


def test_nobody_holds_more_seconds_than_there_are(devices):
    for some in devices.values():
        for hads in some:
            assert sum(had.held for had in hads) <= simulation.HOURS * 3600 * 1.01
            assert all(had.computed <= had.held for had in hads)


def test_a_fair_share_is_never_more_than_a_session_wants():
    load = simulation.Load(1, 1, 18, (0, 0), (0, 0))
    light = simulation.Had(load, held=load.alone * simulation.HOURS * 3600)
    heavy = simulation.Had(simulation.Load(9, 9, 2, (0, 0), (0, 0)), held=0.5 * simulation.HOURS * 3600)
    assert list(simulation.fair([light, heavy])) == pytest.approx([1, 1])


def test_no_order_of_turns_reaches_for_all_weights_what_the_lease_reaches_for_adapters():
    """Each step needs both engines once, and one of them has memory at a time: no policy saves these changes."""
    most = {
        kind: [simulation.bound(load) for load in simulation.loads(trainers)]
        for kind, trainers in (("adapters", simulation._ADAPTERS), ("all weights", simulation._FULL))
    }
    assert most["all weights"] == pytest.approx([0.722, 0.684, 0.696], abs=0.001)
    assert max(most["all weights"]) < 0.85 < max(most["adapters"])


@pytest.mark.parametrize("trainers", [simulation._ADAPTERS, simulation._FULL])
def test_under_no_way_does_a_device_compute_more_than_the_bound_of_its_sessions(trainers):
    chosen = simulation.loads(trainers)
    for way, make in simulation._WAYS.items():
        hads = [simulation.Had(load) for load in (*chosen, chosen[0], chosen[2])]
        make(hads, random.Random(3)).run()  # noqa: S311  # no secret
        computed, held = (sum(getattr(had, name) for had in hads) for name in ("computed", "held"))
        assert computed / held <= max(map(simulation.bound, chosen)) * 1.01, way
