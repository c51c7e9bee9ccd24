"""Expansions: which default of a variable is taken because no document of the job sets it."""

from __future__ import annotations

import pytest

from muster.strategies.launches.expansions import compute, take_defaults

SET_ELSEWHERE = [
    *("MASTER_ADDR", "MASTER_PORT", "JOB_COMPLETION_INDEX", "PET_NNODES"),  # Kubernetes and Muster
    *("HOSTNAME", "HOME", "PATH", "PWD", "USER", "UID", "RANDOM"),  # images and shells
]


@pytest.mark.parametrize("name", SET_ELSEWHERE)
def test_the_default_of_a_variable_that_is_set_without_the_job_is_not_taken(name):
    assert take_defaults(f"${{{name}:-4}}", {}) == (f"${{{name}:-4}}", frozenset())


def test_the_default_of_a_variable_that_nothing_sets_is_taken_and_named():
    assert take_defaults("${GPUS:-4}", {}) == ("4", frozenset({"GPUS"}))


COMPUTED = {
    "$((4 * 2))": "8",
    "$((NODES*GPUS))": "8",
    "$(( $NODES * ${GPUS} ))": "8",
    "$((GPUS + NODES * 3 - 1))": "9",
    "$((GPUS / NODES))": "2",
    "$((6 - 3 / NODES))": "5",  # towards zero, as bash
    "$((7 % GPUS))": "3",
    "--n=$((GPUS * 1)):$((2))": "--n=4:2",
}


@pytest.mark.parametrize(("text", "value"), COMPUTED.items())
def test_arithmetic_of_known_numbers_is_computed(text, value):
    assert compute(text, {"NODES": "2", "GPUS": "4"}) == value


@pytest.mark.parametrize(
    "text", ["$((A * 2))", "$((WORD * 2))", "$((4 / 0))", "$((1 - 2))", "$((4 ** 2))", "$((4 2))", "$(())"]
)
def test_arithmetic_that_is_not_known_stays(text):
    assert compute(text, {"A": None, "WORD": "auto"}) == text
