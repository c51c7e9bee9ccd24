"""Answers are rewarded as a person would, by a pattern whose time is linear, and Dr. GRPO's loss has its divisor."""

import json
import os
import subprocess
from pathlib import Path

import pytest

PROBE = Path(__file__).with_name("answering.py")
IMAGES = PROBE.parents[3] / "images"


@pytest.fixture(scope="module")
def found(python):
    environment = os.environ | {
        "PYTHONPATH": str(IMAGES / "rollouts"), "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1",
    }  # fmt: skip
    done = subprocess.run([python, PROBE], env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_right_number_behind_the_mark_is_rewarded_however_it_is_written(found):
    rewards = {"right": 1.0, "written": 1.0, "wrong": -0.2, "none": -0.2, "first": -0.2}
    assert found["texts"] == rewards
    assert found["said"] == rewards


def test_pattern_rewards_and_column_are_the_users(found):
    assert found["others"] == [2.0, 0.0]


def test_a_question_becomes_a_conversation(found):
    first, second = found["prompts"]
    assert [each["role"] for each in first] == ["system", "user"]
    assert first[1]["content"] == "1 + 1?"
    assert second == [{"role": "user", "content": "Hello"}]


def test_a_pattern_that_is_none_and_a_column_that_is_missing_are_refused_with_their_flag(found):
    *patterns, column = found["refusals"]
    assert len(patterns) == 3
    assert all(each.startswith("answer_pattern: ") and "(?P<answer>...)" in each for each in patterns)
    assert column == "answer_column: the data set has no column 'answer'; its are ['other']"


def test_no_pattern_takes_more_than_time_that_is_linear_in_the_text(found):
    assert max(found["growth"]) < 30, "a backtracking engine would not end at all"


def test_dr_grpo_divides_by_a_constant_where_trl_divides_by_tokens(found):
    assert found["losses"]["ours"] == pytest.approx(0.5 * 6 / (2 * 10))
    assert "--router_aux_loss_coef 0" in found["losses"]["refused"]
