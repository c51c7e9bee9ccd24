"""Several ranks of one trainer against one alone, and what ends them."""

import json
import subprocess
import sys

import pytest

from muster.sessions.engines import ranks, sharded
from tests.sessions.gateways import ROOT


@pytest.fixture(scope="module")
def told(base, tmp_path_factory):
    return beside("float32", base, tmp_path_factory.mktemp("ranks"))


def beside(what, base, folder):
    command = [sys.executable, "-m", "tests.sessions.engines.beside", what, str(base), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "told.json").read_text())


@pytest.mark.parametrize("what", ["losses", "norms"])
def test_losses_and_norms_of_gradients_are_those_of_one_rank(told, what):
    assert max(told[what]) < 1e-6


def test_log_probabilities_come_in_the_order_of_the_data(told):
    assert len(told["logprobs"]) == 16
    assert max(told["logprobs"]) < 1e-5


def test_weights_and_moments_after_steps_are_those_of_one_rank(told):
    assert told["weights"] < 1e-6


def test_what_ranks_save_is_named_and_shaped_as_what_one_rank_saves(told):
    assert told["named alike"]


def test_what_one_rank_saved_is_written_by_ranks_to_the_same_bytes(told):
    assert told["read and written"]


def test_ranks_and_one_rank_go_on_alike_from_what_ranks_saved(told):
    assert told["goes on"] < 1e-6


def test_ranks_in_bfloat16_save_what_one_rank_writes_alike_and_learn_as_it_does(base, tmp_path):
    told = beside("bfloat16", base, tmp_path)
    assert told["written alike"]
    assert told["losses"] < 0.01


def test_what_cannot_be_is_refused_by_all_ranks_and_they_go_on(told):
    rank, second, empty, path, overflow = told["refused"]
    assert "pass rank=0" in rank
    assert "of one model at a time" in second
    assert "there is no gradient" in empty
    assert "has no manifest.json" in path
    assert "the weights would overflow" in overflow


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([5, 3, 9, 1], [[[3], [0]], [[1], [2]]]),
        ([4, 4, 2, 2], [[[0, 2]], [[1, 3]]]),
        ([7], [[[0]], [[]]]),
    ],
)
def test_each_rank_has_as_many_passes_as_the_others(lengths, expected):
    assert sharded.shares(lengths, 2, 8) == expected


@pytest.mark.parametrize("count", [1, 65])
def test_a_number_of_ranks_that_cannot_be_is_refused(base, count):
    with pytest.raises(ValueError, match=f"ranks: {count}: pass 2 to 64"):
        ranks.joined(base, ranks=count)
