"""Engines whose device is a GPU: the numbers of a CPU, and nothing left there while they are away."""

import warnings

import numpy as np
import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that transformers looks for
    from muster.sessions.demo import tiny
    from muster.sessions.engines.sampler import TransformersSampler
    from muster.sessions.engines.trainer import TorchTrainer
    from muster.sessions.engines.whole import WholeSampler, WholeTrainer
from muster.sessions.seam import Adam, Lora, Sampling
from tests.sessions.engines import drawn
from tests.sessions.gpu.gpus import GPU, WHY

pytestmark = pytest.mark.skipif(not GPU, reason=WHY)
_LORA = Lora(rank=8, seed=3)
_WORKSPACE = 96 << 20  # bytes that cuBLAS keeps for its sums


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("base") / "tiny", hidden=256)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("base") / "large", hidden=2048, layers=4)


def _learned(engine, lora, restless=False):
    """Take three steps, away after each call where it is restless, and return the logprobs of the last."""
    engine.create("m", lora)
    for number in range(3):
        for call in (
            lambda at=number: engine.step("m", drawn.step(at, loss="importance_sampling")),
            lambda: engine.optim("m", Adam(learning_rate=1e-3)),
        ):
            call()
            if restless:
                engine.away()
                engine.back()
    return np.concatenate(engine.step("m", drawn.step(9, forward_only=True)).logprobs)


@pytest.mark.parametrize(("kind", "lora"), [(TorchTrainer, _LORA), (WholeTrainer, Lora(rank=0))])
def test_a_trainer_learns_on_a_gpu_what_it_learns_on_a_cpu(base, kind, lora):
    on_cpu, on_gpu = _learned(kind(base), lora), _learned(kind(base, device="cuda"), lora)
    np.testing.assert_allclose(on_gpu, on_cpu, atol=2e-3)


@pytest.mark.parametrize(("kind", "lora"), [(TorchTrainer, _LORA), (WholeTrainer, Lora(rank=0))])
def test_a_trainer_that_leaves_a_gpu_after_each_call_learns_the_same(base, kind, lora):
    still = _learned(kind(base, device="cuda"), lora)
    np.testing.assert_array_equal(_learned(kind(base, device="cuda"), lora, restless=True), still)


def test_models_that_share_passes_on_a_gpu_learn_what_each_learns_alone(base):
    alone, shared = TorchTrainer(base, device="cuda"), TorchTrainer(base, device="cuda")
    for trainer in (alone, shared):
        for model in "ab":
            trainer.create(model, Lora(rank=8, seed=ord(model)))
    steps = {model: drawn.step(ord(model)) for model in "ab"}
    together = shared.steps(list(steps.items()))
    for (model, step), (outputs, _) in zip(steps.items(), together, strict=True):
        own = alone.step(model, step)
        for one, other in zip(own.logprobs, outputs.logprobs, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-3), (torch.bfloat16, 0.1)])
def test_a_sampler_gives_its_tokens_the_logprobs_that_the_trainer_gives_them(base, tmp_path, dtype, within):
    trainer = TorchTrainer(base, device="cuda", dtype=dtype)
    _learned(trainer, _LORA)
    trainer.save("m", tmp_path / "adapter", optimizer=False)
    sampler = TransformersSampler(base, device="cuda", dtype=dtype)
    sampler.load("m", tmp_path / "adapter")
    prompt = drawn.step(1).data[0].tokens
    (answer,) = sampler.sample([Sampling("m", prompt, count=8, max_tokens=24, seed=5)])
    for each in answer.sequences:
        tokens = np.concatenate([prompt, each.tokens])
        data = drawn.Datum(tokens[:-1], {"target_tokens": tokens[1:], "weights": np.ones(len(tokens) - 1, np.float32)})
        (p,) = trainer.step("m", drawn.Step("cross_entropy", {}, [data], True)).logprobs
        np.testing.assert_allclose(p[len(prompt) - 1 :], each.logprobs, atol=within)


def test_a_sampler_that_leaves_a_gpu_between_any_two_tokens_says_the_same(base):
    def said(restless):
        sampler = TransformersSampler(base, device="cuda")
        sampler.begin(1, Sampling(None, drawn.step(1).data[0].tokens, max_tokens=12, seed=1, count=2))
        while not (answers := sampler.advance()):
            if restless:
                sampler.away()
                sampler.back()
        return [(each.tokens.tolist(), each.logprobs.tolist()) for each in answers[1].sequences]

    assert said(restless=True) == said(restless=False)


@pytest.mark.parametrize(
    ("kind", "lora"),
    [(TorchTrainer, _LORA), (WholeTrainer, Lora(rank=0)), (TransformersSampler, None), (WholeSampler, None)],
)
def test_an_engine_that_is_away_has_nothing_on_its_gpu(large, kind, lora):
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    engine = kind(large, device="cuda")
    if lora is not None:
        _learned(engine, lora)
    assert torch.cuda.memory_allocated() - before > 500 << 20
    engine.away()
    assert torch.cuda.memory_reserved() - before < _WORKSPACE
    engine.back()
    assert torch.cuda.memory_allocated() - before > 500 << 20
    engine.away()
