"""Trainer and sampler together: a policy learns by reinforcement, from its own samples of its latest weights."""

import numpy as np

from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.seam import Adam, Datum, Lora, Sampling, Step

_DIGITS = set(range(6, 16))  # of the tiny model's tokens
_PROMPT = np.array([20, 21, 22])


def _datum(sequence, advantage):
    tokens = np.concatenate([_PROMPT, sequence.tokens])
    before = np.zeros(len(_PROMPT) - 1, np.float32)
    logprobs = np.concatenate([before, sequence.logprobs])
    advantages = np.concatenate([before, np.full(len(sequence.tokens), advantage, np.float32)])
    inputs = {"target_tokens": tokens[1:], "logprobs": logprobs, "advantages": advantages.astype(np.float32)}
    return Datum(tokens[:-1], inputs)


def test_a_policy_learns_to_answer_with_digits_from_its_own_samples(trainer, base, tmp_path):
    sampler = TransformersSampler(base)
    trainer.create("policy", Lora(rank=16, seed=0))
    rewards = []
    for turn in range(12):
        trainer.save("policy", tmp_path / str(turn), optimizer=False)
        sampler.load("policy", tmp_path / str(turn))
        (answer,) = sampler.sample([Sampling("policy", _PROMPT, count=32, max_tokens=4, seed=turn, stop=[])])
        reward = np.array([float(bool(_DIGITS & set(each.tokens.tolist()))) for each in answer.sequences])
        rewards.append(reward.mean())
        data = [_datum(s, a) for s, a in zip(answer.sequences, reward - reward.mean(), strict=True)]
        outputs = trainer.step("policy", Step("importance_sampling", {}, data))
        for p, datum in zip(outputs.logprobs, data, strict=True):
            np.testing.assert_allclose(p[2:], datum.inputs["logprobs"][2:], atol=1e-4)
        trainer.optim("policy", Adam(learning_rate=2e-2))
    assert rewards[0] < 0.7
    assert np.mean(rewards[-3:]) > 0.97
