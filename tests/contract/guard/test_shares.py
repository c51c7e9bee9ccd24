"""Ranks that share gradients, shard them or train apart are told apart, and their weights stay as they were."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough  # all ways to train run twice, which takes minutes
PROGRAM = str(Path(__file__).parent / "programs" / "shares.py")
WORDS = {
    "ddp": "shared",
    "ddp_in_bf16": "shared",
    "ddp_with_accumulation": "shared",
    "ddp_that_warms_up": "shared",
    "lora": "shared",
    "gradients_by_hand": "shared",
    "two_optimizers": "shared",
    "zero_redundancy": "shared",
    "experts": "shared",
    "tensor_and_data_parallel": "shared",
    "fsdp1": "sharded",
    "fsdp1_with_original_parameters": "sharded",
    "fsdp2": "sharded",
    "hybrid_fsdp2": "sharded",
    # It cannot be told of these.
    "stages": None,
    "averaged_weights": None,
    "equal_data": None,
    "one_rank_without_an_optimizer": None,
    "optimizer_that_shares": None,
    "two_optimizers_of_which_one_is_bare": "not-shared",
    "lora_apart": "not-shared",
    "no_sync_for_ever": "not-shared",
    "around_a_copy": "not-shared",
    "plain": "not-shared",
    "plain_with_other_weights": "not-shared",
    "plain_with_a_shared_loss": "not-shared",
    "a_head_outside": "not-shared",
    "apart_that_warms_up": "not-shared",
}


@pytest.fixture(scope="module")
def ran(module_nodes):
    """What each case came to, by the mode of the guard."""
    return {
        mode: json.loads(module_nodes("python", PROGRAM, MUSTER_GUARD=mode, seconds=900).output.splitlines()[-1])
        for mode in ("report", "off")
    }


def reports(ranks):
    return [json.loads(line) for each in ranks for line in each["said"].splitlines() if line.startswith("{")]


def sentences(ranks):
    return [line for each in ranks for line in each["said"].splitlines() if line.startswith("muster:")]


@pytest.mark.parametrize(("case", "word"), WORDS.items(), ids=list(WORDS))
def test_each_way_to_train_is_judged(ran, case, word):
    ranks = ran["report"][case]

    assert [each["code"] for each in ranks] == [0] * len(ranks), ranks
    assert {each.get("gradients") for each in reports(ranks)} == {word}
    assert {each.get("verdict") for each in reports(ranks)} == {
        (word == "not-shared" and "gradients-not-shared") or None
    }
    assert len(sentences(ranks)) == (word == "not-shared"), "one rank says it, and says nothing of what is right"


@pytest.mark.parametrize("case", WORDS)
def test_the_weights_are_bit_for_bit_those_without_the_guard(ran, case):
    sums = [[each["sum"] for each in ran[mode][case]] for mode in ("report", "off")]

    assert sums[0] == sums[1]
    assert None not in sums[0]


def test_enforce_ends_each_rank_with_the_fixed_code_and_one_sentence(nodes):
    # Its four steps take 80 seconds, and nobody waits for them.
    done = nodes("python", PROGRAM, "no_sync_for_ever", "--slowly", MUSTER_GUARD="enforce", seconds=240)
    ranks = json.loads(done.output.splitlines()[-1])["no_sync_for_ever"]

    assert [each["code"] for each in ranks] == [78, 78], ranks
    assert all(line.startswith("muster: ranks 0 and 1 train apart: ") for line in sentences(ranks))
    assert [each["sum"] for each in ranks] == [None, None]
