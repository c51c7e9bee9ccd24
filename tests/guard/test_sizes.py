"""What the environment says of the world size."""

import pytest

from muster_guard.sizes import expected

MUSTER = "MUSTER_EXPECTED_WORLD_SIZE"


def pet(nodes: str, each: str = "1", **more: str) -> dict[str, str]:
    return {"PET_NNODES": nodes, "PET_NPROC_PER_NODE": each, **more}


def holding(environment: dict[str, str]) -> list[int]:
    asked = expected(environment)
    assert asked is not None
    return [size for size in range(1, 17) if asked.holds(size)]


def test_musters_word_holds_whatever_trainer_says():
    assert holding({MUSTER: "2", **pet("4", "8")}) == [2]


@pytest.mark.parametrize("each", ["4", "8", "auto"])
def test_without_musters_word_it_is_nodes_times_the_processes_that_the_launcher_made(each):
    assert holding(pet("2", each, LOCAL_WORLD_SIZE="4")) == [8]


def test_an_elastic_training_may_have_any_number_of_whole_nodes_in_its_range():
    assert holding(pet("2:4", "2", LOCAL_WORLD_SIZE="2")) == [4, 6, 8]


@pytest.mark.parametrize("each", ["auto", "gpu", "cpu", "", "4"])
def test_without_a_launcher_each_node_has_one_rank_at_least(each):
    assert holding(pet("3", each)) == list(range(3, 17))


def test_on_one_node_trainers_word_is_sure_only_of_ranks_that_a_launcher_made():
    assert not expected(pet("1", "4")).sure
    assert expected(pet("1", "4", LOCAL_WORLD_SIZE="2")).sure
    assert holding(pet("1", "4", LOCAL_WORLD_SIZE="2")) == [2]
    assert expected(pet("2", "4")).sure
    assert expected({MUSTER: "4", **pet("1", "4")}).sure


@pytest.mark.parametrize(
    "environment", [{}, {MUSTER: ""}, {MUSTER: "two"}, {MUSTER: "0"}, pet("x"), pet("0"), pet("3:2"), {MUSTER: "-1"}]
)
def test_what_says_nothing_asks_for_nothing(environment):
    assert expected(environment) is None


def test_the_source_is_named_as_it_was_read():
    assert expected(pet("2", "4")).source == "PET_NNODES=2 PET_NPROC_PER_NODE=4"
    assert expected(pet("2", "4", LOCAL_WORLD_SIZE="8")).source == "PET_NNODES=2 LOCAL_WORLD_SIZE=8"
    assert expected({MUSTER: "2"}).source == "MUSTER_EXPECTED_WORLD_SIZE=2"
    assert str(expected(pet("2:4", "2", LOCAL_WORLD_SIZE="2"))) == "4 to 8"
    assert str(expected(pet("3", "auto"))) == "3 or more"
