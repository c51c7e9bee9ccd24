"""A person's training loop, as it would run on a laptop: nothing here knows Muster, only the `tinker` client.

The task is to answer a sum with a digit in the answer. A model that was made at random does so now and then; ten steps
of reinforcement learning later it always does. Each step asks eight questions eight times, gives 1 or 0 for each
answer, and takes the mean of a question's answers away from each (GRPO without a division).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import tinker
from tinker import types

__all__ = ["Step", "train"]

_STEPS, _QUESTIONS, _ANSWERS = 10, 8, 8
_RATE = 1.2e-2


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
    digits = frozenset(tokenizer.encode("0123456789", add_special_tokens=False))
    chance = random.Random(1)  # noqa: S311  # questions, no secrets
    steps = []
    for number in range(1, _STEPS + 1):
        questions = [f"{chance.randrange(10)}+{chance.randrange(10)}=" for _ in range(_QUESTIONS)]
        prompts = [list(tokenizer.encode(each, add_special_tokens=False)) for each in questions]
        step = Step(number, _reinforce(client, prompts, digits, seed=number * _QUESTIONS))
        steps.append(step)
        tell(step)
    return steps


def _reinforce(
    client: tinker.TrainingClient, prompts: Sequence[list[int]], digits: Collection[int], seed: int
) -> float:
    """Take one step, and return the mean reward of the answers before it."""
    sampler = client.save_weights_and_get_sampling_client().result()
    asked = [
        # A seed for each question: with one for all, their answers would be the same chances.
        sampler.sample(types.ModelInput.from_ints(each), _ANSWERS, types.SamplingParams(max_tokens=4, seed=seed + at))
        for at, each in enumerate(prompts)
    ]
    data, rewards = [], []
    for prompt, answer in zip(prompts, asked, strict=True):
        sequences = answer.result().sequences
        got = np.array([float(any(token in digits for token in each.tokens)) for each in sequences])
        rewards.extend(got)
        data += [_rollout(prompt, each, gain) for each, gain in zip(sequences, got - got.mean(), strict=True)]
    passed = client.forward_backward(data, "importance_sampling")
    stepped = client.optim_step(types.AdamParams(learning_rate=_RATE))
    passed.result()
    stepped.result()
    return float(np.mean(rewards))


def _rollout(prompt: list[int], answer: types.SampledSequence, advantage: float) -> types.Datum:
    tokens, before = [*prompt, *answer.tokens], [0.0] * (len(prompt) - 1)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tokens[1:],
            "logprobs": [*before, *(answer.logprobs or ())],
            "advantages": [*before, *[advantage] * len(answer.tokens)],
        },
    )
