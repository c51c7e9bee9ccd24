"""Models other than Llama: tied embeddings, sliding windows, experts, and a base in bfloat16."""

import warnings

import numpy as np
import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma2Config, Qwen3Config, Qwen3MoeConfig

from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.engines.trainer import TorchTrainer
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam, Datum, Lora, Sampling, Step
from tests.sessions.engines import drawn

_SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "eos_token_id": 3,
    "pad_token_id": 0,
    "bos_token_id": 2,
}
_CONFIGS = {
    "tied": Qwen3Config(**_SIZES, tie_word_embeddings=True),
    "window": Gemma2Config(**_SIZES, sliding_window=4, query_pre_attn_scalar=16),
    "experts": Qwen3MoeConfig(**_SIZES, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
}


@pytest.fixture(params=["tied", "window"])
def other(request, base, tmp_path):
    return _made(request.param, base, tmp_path)


def _made(name, base, tmp_path):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        AutoModelForCausalLM.from_config(_CONFIGS[name]).save_pretrained(tmp_path / name)
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / name)
    return tmp_path / name


def _trained(trainer, folder, lora):
    trainer.create("m", lora)
    for seed in range(2):
        trainer.step("m", drawn.step(seed))
        trainer.optim("m", Adam(learning_rate=1e-2))
    trainer.save("m", folder, optimizer=False)
    return folder


def _scored(trainer, tokens):
    inputs = {"target_tokens": tokens[1:], "weights": np.zeros(len(tokens) - 1, np.float32)}
    return trainer.step("m", Step("cross_entropy", {}, [Datum(tokens[:-1], inputs)], forward_only=True)).logprobs[0]


def _agrees(sampler, trainer, tolerance):
    """Prompts of other lengths beside it, so that rows are padded."""
    prompts = [np.arange(5, 5 + length) for length in (3, 12, 7)]
    answers = sampler.sample([Sampling("w", each, max_tokens=9, seed=1, stop=[]) for each in prompts])
    for prompt, answer in zip(prompts, answers, strict=True):
        (sequence,) = answer.sequences
        expected = _scored(trainer, np.concatenate([prompt, sequence.tokens]))[len(prompt) - 1 :]
        np.testing.assert_allclose(sequence.logprobs, expected, atol=tolerance)


def test_trainer_sampler_and_peft_agree(other, tmp_path, monkeypatch):
    monkeypatch.setattr("peft.tuners.lora.torchao.is_torchao_available", lambda: False)
    trainer, sampler = TorchTrainer(other), TransformersSampler(other)
    folder = _trained(trainer, tmp_path / "w", Lora(rank=4, seed=1))
    sampler.load("w", folder)
    _agrees(sampler, trainer, 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(other), folder).eval()
    tokens = np.arange(5, 25)
    with torch.no_grad():
        logprobs = theirs(torch.from_numpy(tokens[:-1])[None]).logits[0].log_softmax(-1)
    expected = logprobs.gather(1, torch.from_numpy(tokens[1:])[:, None])[:, 0]
    np.testing.assert_allclose(_scored(trainer, tokens), expected, atol=1e-5)


def test_experts_are_refused_and_attention_beside_them_is_trained(base, tmp_path):
    folder = _made("experts", base, tmp_path)
    trainer = TorchTrainer(folder)
    with pytest.raises(Refused, match=r"lora_config\.train_mlp: true: experts cannot have adapters here"):
        trainer.create("m", Lora())
    sampler = TransformersSampler(folder)
    sampler.load("w", _trained(trainer, tmp_path / "w", Lora(rank=4, seed=1, train_mlp=False)))
    _agrees(sampler, trainer, 1e-4)


def test_a_base_in_bfloat16_has_adapters_in_float32_and_agrees_about(base, tmp_path):
    trainer = TorchTrainer(base, dtype=torch.bfloat16)
    sampler = TransformersSampler(base, dtype=torch.bfloat16)
    sampler.load("w", _trained(trainer, tmp_path / "w", Lora(rank=4, seed=1)))
    assert {each.dtype for each in trainer._models["m"].adapter.named().values()} == {torch.float32}
    _agrees(sampler, trainer, 0.05)
