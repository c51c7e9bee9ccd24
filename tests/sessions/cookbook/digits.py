"""A task of a person's own: an answer that holds a digit is worth 1. `digits.py BASE URL LOG sync|async`."""

from __future__ import annotations

import asyncio
import re
import sys
from functools import partial

import chz
from tinker_cookbook import renderers
from tinker_cookbook.rl import train
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.types import RLDataset, RLDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer


class Digits(ProblemEnv):
    def __init__(self, renderer, number):
        super().__init__(renderer, format_coef=0.0)
        self._number = number

    def get_question(self):
        return f"{self._number}?"

    def check_answer(self, sample_str):
        return bool(re.search(r"[0-9]", sample_str))

    def check_format(self, _):
        return True

    def get_reference_answer(self):
        return "a digit"


class Numbers(RLDataset):
    def __init__(self, renderer, groups, size):
        self._renderer, self._groups, self._size = renderer, groups, size

    def get_batch(self, index):
        numbers = [(index * self._groups + at) % 10 for at in range(self._groups)]
        return [ProblemGroupBuilder(partial(Digits, self._renderer, each), self._size) for each in numbers]

    def __len__(self):
        return 100


@chz.chz
class Builder(RLDatasetBuilder):
    model: str

    async def __call__(self):
        return Numbers(renderers.get_renderer("role_colon", get_tokenizer(self.model)), 4, 8), None


def main(base, url, log, mode):
    off_policy = train.AsyncConfig(max_steps_off_policy=1, groups_per_batch=4, loss_fn="importance_sampling")
    config = train.Config(
        learning_rate=1e-2 if mode == "async" else 2e-2,
        dataset_builder=Builder(model=base),
        model_name=base,
        renderer_name="role_colon",
        recipe_name="digits",
        lora_rank=16,
        max_tokens=5,
        log_path=log,
        base_url=url,
        eval_every=0,
        save_every=0,
        max_steps=24 if mode == "async" else 16,
        loss_fn="importance_sampling",
        async_config=off_policy if mode == "async" else None,
    )
    asyncio.run(train.main(config))


if __name__ == "__main__":
    main(*sys.argv[1:])
