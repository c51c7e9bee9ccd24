"""Devices of all ranks together, by what each rank says of its own."""

from muster_guard.devices import Held, Pod, judge

TWO = {"node": [0, 1]}


def test_ranks_with_a_device_each_use_all_of_their_pod():
    held = {0: Held(["a"], ["a"], ["a", "b"]), 1: Held(["b"], ["b"], ["a", "b"])}

    assert judge(held, TWO, {"node": 2}) == ({"node": Pod(2, 2, 0, 0)}, [])


def test_two_ranks_on_one_device_are_named_and_the_other_device_is_idle():
    held = {0: Held(["a"], ["a"], ["a", "b"]), 1: Held(["a"], ["a"], ["a", "b"])}

    assert judge(held, TWO, {}) == ({"node": Pod(1, 2, 1, 1)}, [0, 1])


def test_ranks_of_two_pods_may_share_a_device_as_well():
    held = {0: Held(["a"], ["a"], ["a"]), 1: Held(["a"], ["a"], ["a"])}

    assert judge(held, {"one": [0], "other": [1]}, {})[1] == [0, 1]


def test_memory_on_the_first_device_beside_ones_own_is_not_sharing():
    held = {0: Held(["a"], ["a"], ["a", "b"]), 1: Held(["b"], ["a", "b"], ["a", "b"])}

    assert judge(held, TWO, {}) == ({"node": Pod(2, 2, 0, 0)}, [])


def test_devices_that_are_not_even_visible_are_idle_if_they_were_asked_for():
    assert judge({0: Held([], [], [])}, {"node": [0]}, {"node": 8})[0] == {"node": Pod(0, 0, 0, 8)}


def test_nothing_is_said_of_a_pod_of_which_one_rank_does_not_know_its_devices():
    held = {0: Held(["a"], ["a"], ["a", "b"]), 1: None}

    assert judge(held, TWO, {"node": 2}) == ({}, [])
