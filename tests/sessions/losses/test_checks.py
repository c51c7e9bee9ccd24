"""What a loss does not read is refused, with what to do instead."""

import math

import numpy as np
import pytest

from muster.sessions.losses.checks import config_of, inputs_of, loss_named
from muster.sessions.losses.table import LOSSES
from muster.sessions.refusals import Refused


def _inputs(name, length=3):
    return {"target_tokens": np.zeros(length, np.int64)} | {k: np.ones(length, np.float32) for k in LOSSES[name].inputs}


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_request_with_all_inputs_is_taken(name):
    assert inputs_of(name, _inputs(name), 3).keys() == _inputs(name).keys()


def test_stable_reinforce_is_refused_with_the_loss_to_pass_instead():
    with pytest.raises(Refused, match="not published: pass loss_fn='importance_sampling'"):
        loss_named("stable_reinforce")


def test_a_custom_loss_is_refused_with_the_method_that_computes_it():
    with pytest.raises(Refused, match="forward_backward_custom"):
        loss_named("custom")


def test_an_unknown_loss_is_refused_with_the_names_of_all_and_shortened():
    with pytest.raises(Refused, match="cross_entropy, importance_sampling, ppo, cispo, dro, gspo") as refusal:
        loss_named("x" * 10_000)
    assert len(str(refusal.value)) < 200


def test_defaults_stand_where_no_config_is_given():
    assert config_of("ppo", {"clip_high_threshold": 1.5}) == {"clip_low_threshold": 0.8, "clip_high_threshold": 1.5}


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("ppo", {"clip_ratio": 1.0}, "clip_ratio: ppo does not read it: pass only clip_low_threshold"),
        ("cross_entropy", {"beta": 1.0}, "beta: cross_entropy does not read it: leave it out"),
        ("dro", {"beta": "large"}, "beta: large: pass a finite number"),
        ("dro", {"beta": math.inf}, "pass a finite number"),
        ("dro", {"beta": True}, "pass a finite number"),
        ("ppo", {"clip_low_threshold": 2.0}, "clip_low_threshold: is above clip_high_threshold"),
    ],
)
def test_a_config_that_would_do_nothing_or_harm_is_refused(name, config, message):
    with pytest.raises(Refused, match=message):
        config_of(name, config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"advantages": None}, "advantages: is missing: ppo reads target_tokens, logprobs, advantages"),
        ({"weights": np.ones(3, np.float32)}, "weights: ppo does not read it"),
        (
            {"advantages": np.ones(2, np.float32)},
            r"advantages: has shape \[2\]: pass the shape of target_tokens, \[3\]",
        ),
        ({"logprobs": np.array([0, np.nan, 0], np.float32)}, "logprobs: holds NaN"),
        ({"logprobs": np.array([0, -np.inf, 0], np.float32)}, "logprobs: holds NaN or an infinity"),
        ({"target_tokens": np.zeros(3, np.float32)}, "target_tokens: holds float32: pass integers"),
        ({"target_tokens": np.zeros((3, 2), np.int64)}, "ppo reads one target for each token"),
        ({"target_tokens": np.zeros(4, np.int64)}, r"target_tokens: has shape \[4\]: pass a row for each of the 3"),
        ({"logprobs": np.array(["a", "b", "c"])}, "pass float32"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, message):
    given = {key: value for key, value in (_inputs("ppo") | change).items() if value is not None}
    with pytest.raises(Refused, match=message):
        inputs_of("ppo", given, 3)


def test_cross_entropy_takes_several_targets_a_token():
    given = {"target_tokens": np.zeros((3, 2), np.int64), "weights": np.ones((3, 2), np.float32)}
    assert inputs_of("cross_entropy", given, 3)["weights"].shape == (3, 2)


def test_cross_entropy_without_any_column_is_refused():
    given = {"target_tokens": np.zeros((3, 0), np.int64), "weights": np.ones((3, 0), np.float32)}
    with pytest.raises(Refused, match="target_tokens: has shape"):
        inputs_of("cross_entropy", given, 3)
