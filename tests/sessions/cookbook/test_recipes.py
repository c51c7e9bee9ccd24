"""Recipes of tinker-cookbook, which nobody here wrote, unmodified against a Gateway with torch engines."""

from __future__ import annotations

import json

import pytest

_KL = "optim/kl_sample_train_v1"
"""Sampled against trained log-probabilities, as the cookbook logs it: an oracle that both engines agree."""
_PRICES = "CONNECT tinker-docs.thinkingmachines.ai:443 HTTP/1."


def metrics(log, name):
    """Return a metric of all steps that have it."""
    steps = [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]
    return [each[name] for each in steps if name in each]


@pytest.mark.thorough
def test_the_math_recipe_trains_and_trainer_and_sampler_agree(recipe, torch_gateway, wall, tmp_path):
    recipe(
        *("-m", "tinker_cookbook.recipes.math_rl.train", "env=arithmetic", "renderer_name=role_colon"),
        *("loss_fn=importance_sampling", "groups_per_batch=4", "group_size=4", "max_tokens=5", "max_steps=3"),
        *(f"model_name={torch_gateway.base}", f"base_url={torch_gateway.url}", "eval_every=0"),
        f"log_path={tmp_path / 'log'}",
    )
    assert len(metrics(tmp_path / "log", "env/all/reward/total")) == 3
    assert max(map(abs, metrics(tmp_path / "log", _KL))) < 1e-6
    (last,) = [json.loads(line) for line in (tmp_path / "log" / "checkpoints.jsonl").read_text().splitlines()]
    assert last["state_path"].endswith("/weights/final")
    # Prices are all that it asks other machines for, with telemetry on; the Gateway takes that.
    assert all(each.startswith(_PRICES) for each in wall.wanted)


@pytest.mark.thorough
def test_reinforcement_in_step_comes_to_a_reward_of_one(recipe, torch_gateway, tmp_path):
    recipe("digits.py", torch_gateway.base, torch_gateway.url, tmp_path / "log", "sync")
    rewards = metrics(tmp_path / "log", "env/all/reward/total")
    assert (len(rewards), rewards[0] < 0.9, max(rewards)) == (16, True, 1.0)
    assert max(map(abs, metrics(tmp_path / "log", _KL))) < 1e-6


@pytest.mark.thorough
def test_reinforcement_with_samples_of_older_weights_comes_to_a_reward_of_one(recipe, torch_gateway, tmp_path):
    recipe("digits.py", torch_gateway.base, torch_gateway.url, tmp_path / "log", "async")
    rewards = metrics(tmp_path / "log", "env/all/reward/total")
    assert (len(rewards), rewards[0] < 0.9, max(rewards)) == (24, True, 1.0)
    assert abs(metrics(tmp_path / "log", _KL)[0]) < 1e-6  # the first samples are of the weights that are trained


@pytest.mark.thorough
def test_supervised_training_on_the_conversations_of_the_cookbook_lowers_their_loss(recipe, torch_gateway, tmp_path):
    recipe("conversations.py", torch_gateway.base, torch_gateway.url, tmp_path / "log")
    trained, held_out = metrics(tmp_path / "log", "train_mean_nll"), metrics(tmp_path / "log", "test/nll")
    assert min(trained[-3:]) < trained[0] - 1
    assert held_out[-1] < held_out[0] - 1
