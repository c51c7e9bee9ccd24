"""A person's training loop, as it would run on a laptop: nothing here knows Muster, only the `tinker` client.

The task is to answer with the digit of the question. A few supervised steps teach the form, ten steps of reinforcement
learning do the rest: 32 answers a step, the reward 1 for the right digit, advantages within the group of a question.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tinker
from tinker import types

__all__ = ["Step", "train"]

_GROUP, _QUESTIONS = 8, 4
_SUPERVISED, _REINFORCED = 14, 10


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its number, and the mean reward of its answers, 0 to 1."""

    number: int
    reward: float


def train(service: tinker.ServiceClient, base: str, tell: Callable[[Step], None]) -> list[Step]:
    """Train a model, and return its steps.

    Args:
        service: a client of the Gateway.
        base: name of the base model.
        tell: is called after each step of reinforcement learning.
    """
    client = service.create_lora_training_client(base_model=base, rank=16, seed=1).result()
    tokenizer = client.get_tokenizer()
    chance = random.Random(1)  # noqa: S311  # questions, no secrets
    for _ in range(_SUPERVISED):
        data = [_example(tokenizer, digit) for digit in chance.choices("0123456789", k=16)]
        passed = client.forward_backward(data, "cross_entropy")
        stepped = client.optim_step(types.AdamParams(learning_rate=4e-3))
        passed.result(), stepped.result()
    steps = []
    for number in range(1, _REINFORCED + 1):
        step = Step(number, _reinforce(client, tokenizer, chance.choices("0123456789", k=_QUESTIONS)))
        steps.append(step)
        tell(step)
    return steps


def _reinforce(client: tinker.TrainingClient, tokenizer: Any, digits: Sequence[str]) -> float:
    """Take one step, and return the mean reward of the answers before it."""
    sampler = client.save_weights_and_get_sampling_client().result()
    prompts = [_prompt(tokenizer, digit) for digit in digits]
    params = types.SamplingParams(max_tokens=1, temperature=1.0)
    asked = [sampler.sample(types.ModelInput.from_ints(each), _GROUP, params) for each in prompts]
    data, rewards = [], []
    for digit, prompt, answer in zip(digits, prompts, asked, strict=True):
        right = _token(tokenizer, digit)
        sequences = answer.result().sequences
        got = np.array([float(next(iter(each.tokens)) == right) for each in sequences])
        rewards.extend(got)
        for each, advantage in zip(sequences, got - got.mean(), strict=True):
            data.append(_rollout(prompt, list(each.tokens), list(each.logprobs or []), float(advantage)))
    passed = client.forward_backward(data, "importance_sampling")
    stepped = client.optim_step(types.AdamParams(learning_rate=4e-3))
    passed.result(), stepped.result()
    return float(np.mean(rewards))


def _example(tokenizer: Any, digit: str) -> types.Datum:
    tokens = [*_prompt(tokenizer, digit), _token(tokenizer, digit)]
    weights = [0.0] * (len(tokens) - 2) + [1.0]
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": weights},
    )


def _rollout(prompt: list[int], answer: list[int], logprobs: list[float], advantage: float) -> types.Datum:
    tokens, before = [*prompt, *answer], [0.0] * (len(prompt) - 1)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tokens[1:],
            "logprobs": [*before, *logprobs],
            "advantages": [*before, *[advantage] * len(answer)],
        },
    )


def _prompt(tokenizer: Any, digit: str) -> list[int]:
    return list(tokenizer.encode(f"say {digit}: ", add_special_tokens=False))


def _token(tokenizer: Any, digit: str) -> int:
    return int(tokenizer.encode(digit, add_special_tokens=False)[0])
