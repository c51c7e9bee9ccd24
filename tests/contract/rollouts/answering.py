"""Prints rewards, refusals, prompts, and how the time of a pattern grows with its text, as JSON."""

import json
import pickle
import sys
import time
from types import SimpleNamespace

import torch
from trl.experimental.async_grpo import AsyncGRPOTrainer

from muster_rollouts.answers import SYSTEM, AnswerReward, prompt_of
from muster_rollouts.losses import ConstantDivisorTrainer

GOLD = "She sold 48 / 2 = <<48/2=24>>24 clips.\n#### 2,125"
TEXTS = {
    "right": "So it is\n#### 2125",
    "written": "#### $2,125.00",
    "wrong": "#### 2",
    "none": "2125",
    "first": "#### 7 #### 2125",
}


def refusals():
    for make in (
        lambda: AnswerReward("(?P<answer>[0-9]"),
        lambda: AnswerReward("####"),
        lambda: AnswerReward(r"(?P<answer>a)\1"),
        lambda: AnswerReward()(["a"], other=["b"]),
    ):
        try:
            make()
        except ValueError as reason:
            yield str(reason)


def growth():
    """Seconds for a text of which a backtracking engine tries exponentially many ways, and for one twice as long."""
    reward = AnswerReward(pattern="(?P<answer>(?:a+)+)b")
    found = []
    for length in (100_000, 200_000):
        begun = time.perf_counter()
        assert reward(["a" * length], answer=["a"]) == [-0.2]
        found.append(time.perf_counter() - begun)
    return found


def losses():
    """TRL's loss beside ours for one batch: 2 samples of which 6 tokens are trained, with answers of up to 10."""
    AsyncGRPOTrainer.compute_loss = lambda *_, **__: torch.tensor(0.5)
    owner = SimpleNamespace(aux_loss_enabled=False, args=SimpleNamespace(max_completion_length=10))
    made = ConstantDivisorTrainer.__new__(ConstantDivisorTrainer)
    made.__dict__ |= vars(owner)
    inputs = {"global_n_tokens": [6.0], "global_n_forward_tokens": [14.0], "mean_seq_len": [7.0]}
    ours = float(made.compute_loss(None, inputs))
    made.aux_loss_enabled = True
    try:
        made.compute_loss(None, inputs)
    except ValueError as reason:
        return {"ours": ours, "refused": str(reason)}
    return {"ours": ours}


reward = pickle.loads(pickle.dumps(AnswerReward()))  # noqa: S301  # as it goes to the worker's process
texts = list(TEXTS.values())
said = [[{"role": "assistant", "content": text}] for text in texts]
json.dump(
    {
        "texts": dict(zip(TEXTS, reward(texts, answer=[GOLD] * len(texts)), strict=True)),
        "said": dict(zip(TEXTS, reward(said, answer=[GOLD] * len(texts)), strict=True)),
        "others": AnswerReward(right=2.0, wrong=0.0, column="gold", pattern="<(?P<answer>.*?)>")(
            ["<yes>", "<no>"], gold=["yes", "yes"]
        ),
        "prompts": [
            prompt_of({"question": "1 + 1?"}, "question", SYSTEM),
            prompt_of({"prompt": [{"role": "user", "content": "Hello"}]}, "question", ""),
        ],
        "refusals": list(refusals()),
        "growth": growth(),
        "losses": losses(),
    },
    sys.stdout,
)
