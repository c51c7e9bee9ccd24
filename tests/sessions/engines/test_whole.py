"""Full fine-tuning: what it computes against transformers and torch, what it saves, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from muster.sessions.engines.trainer import TorchTrainer
from muster.sessions.engines.whole import MODEL, WholeSampler, WholeTrainer
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam, Lora, Sampled, Sampling
from tests.sessions.engines import drawn

_WHOLE = Lora(rank=0, seed=1)
_ADAM = Adam(learning_rate=1e-3, weight_decay=0.01, grad_clip_norm=1.0)


@pytest.fixture(scope="module")
def one(base):
    return WholeTrainer(base)


@pytest.fixture
def whole(one):
    one.unload("m")
    one.create("m", _WHOLE)
    return one


def _weights(trainer):
    return torch.cat([each.detach().ravel() for each in trainer._weights.values()])


def _trained(trainer, seeds=range(3)):
    for seed in seeds:
        trainer.step("m", drawn.step(seed))
        trainer.optim("m", _ADAM)
    return _weights(trainer)


def test_steps_are_those_of_torch_on_the_plain_model(whole, base):
    theirs = transformers.AutoModelForCausalLM.from_pretrained(base)
    named = dict(sorted(theirs.named_parameters()))
    adam = torch.optim.AdamW(named.values(), lr=1e-3, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.01)
    for seed in range(3):
        step = drawn.step(seed)
        for datum in step.data:
            logits = theirs(torch.from_numpy(datum.tokens)[None]).logits[0].log_softmax(-1)
            p = logits.gather(1, torch.from_numpy(datum.inputs["target_tokens"])[:, None])[:, 0]
            (-p * torch.from_numpy(datum.inputs["weights"])).sum().backward()
        torch.nn.utils.clip_grad_norm_(named.values(), 1.0)
        adam.step()
        adam.zero_grad()
        whole.step("m", step)
        whole.optim("m", Adam(learning_rate=1e-3, weight_decay=0.01, grad_clip_norm=1.0, eps=1e-6))
    expected = torch.cat([each.detach().ravel() for each in named.values()])
    torch.testing.assert_close(_weights(whole), expected, atol=1e-5, rtol=0)


def test_a_step_that_would_overflow_is_refused_and_the_weights_stay(whole):
    before = _trained(whole)
    whole.step("m", drawn.step())
    with pytest.raises(Refused, match="optim_step: the weights would overflow"):
        whole.optim("m", Adam(learning_rate=1e30, weight_decay=1e30))
    assert torch.equal(before, _weights(whole))
    whole.optim("m", _ADAM)
    assert not torch.equal(before, _weights(whole))


def test_a_model_that_is_made_again_begins_with_the_base(whole):
    before = _weights(whole)
    assert not torch.equal(_trained(whole), before)
    whole.create("m", _WHOLE)
    assert torch.equal(_weights(whole), before)


def test_training_goes_on_bit_for_bit_from_what_was_saved(whole, base, tmp_path):
    _trained(whole)
    whole.save("m", tmp_path / "v", optimizer=True)
    expected = _trained(whole, range(3, 5))
    other = WholeTrainer(base)
    other.load("m", tmp_path / "v", optimizer=True)
    assert torch.equal(_trained(other, range(3, 5)), expected)
    other.load("m", tmp_path / "v", optimizer=False)
    assert not torch.equal(_trained(other, range(3, 5)), expected)


def _tuned(base, dtype):
    """Return a model after 40 small steps on the same data, what its optimizer holds, and the loss."""
    trainer = WholeTrainer(base, dtype=dtype)
    trainer.create("m", _WHOLE)
    for _ in range(40):
        trainer.step("m", drawn.step(1))
        trainer.optim("m", Adam(learning_rate=1e-5))
    loss = trainer.step("m", replace(drawn.step(1), forward_only=True)).metrics["loss:sum"]
    held = trainer._models["m"].optimizer._named
    return trainer, torch.cat([each.detach().ravel() for each in held.values()]), loss


@pytest.fixture(scope="module")
def tuned(base):
    return _tuned(base, torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_steps_change_weights_of_16_bits_as_they_change_those_of_float32(base, tuned, dtype):
    begun = _weights(WholeTrainer(base))
    _, exact, loss = tuned
    trainer, held, found = _tuned(base, dtype)
    assert {each.dtype for each in trainer._weights.values()} == {dtype}
    changed = exact != begun
    assert ((held != begun.to(dtype).float()) & changed).sum() >= 0.95 * changed.sum()
    assert abs(found / loss - 1) < 0.01


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_training_of_16_bits_goes_on_bit_for_bit_from_what_was_saved(base, tmp_path, dtype):
    one, other = WholeTrainer(base, dtype=dtype), WholeTrainer(base, dtype=dtype)
    one.create("m", _WHOLE)
    _trained(one)
    one.save("m", tmp_path / "v", optimizer=True)
    expected = _trained(one, range(3, 5))
    other.load("m", tmp_path / "v", optimizer=True)
    assert torch.equal(_trained(other, range(3, 5)), expected)


@pytest.mark.parametrize("lora", [Lora(rank=8), Lora(rank=0, train_mlp=False)])
def test_adapters_are_refused_where_all_weights_are_trained(whole, lora):
    with pytest.raises(Refused, match="all weights are trained here: pass rank=0"):
        whole.create("m", lora)


def test_a_second_model_is_refused_and_the_first_stays(whole, tmp_path):
    before = _trained(whole)
    whole.save("m", tmp_path / "v", optimizer=False)
    for call in (
        lambda: whole.create("other", _WHOLE),
        lambda: whole.load("other", tmp_path / "v", optimizer=False),
    ):
        with pytest.raises(Refused, match="of one model at a time: unload the other first"):
            call()
    assert torch.equal(_weights(whole), before)


def test_an_adapter_and_torn_weights_are_refused_and_the_weights_stay(whole, trainer, tmp_path):
    before = _trained(whole)
    trainer.create("a", Lora(rank=2))
    trainer.save("a", tmp_path / "adapter", optimizer=True)
    whole.save("m", tmp_path / "torn", optimizer=True)
    for name in ("optimizer.safetensors", "model.safetensors"):
        path = tmp_path / "torn" / name
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(Refused, match="is torn or was changed"):
            whole.load("m", tmp_path / "torn", optimizer=True)
    with pytest.raises(Refused, match="are not a whole model"):
        whole.load("m", tmp_path / "adapter", optimizer=False)
    assert torch.equal(_weights(whole), before)


def test_a_whole_model_is_refused_where_adapters_are_trained(whole, trainer, tmp_path):
    whole.save("m", tmp_path / "v", optimizer=False)
    with pytest.raises(Refused, match="is not an adapter"):
        trainer.load("m", tmp_path / "v", optimizer=False)
    assert isinstance(trainer, TorchTrainer)


def test_the_sampler_agrees_with_the_trainer_and_the_base_beside_it_stays_the_base(whole, base, tmp_path):
    sampler, step = WholeSampler(base), drawn.step(9, (12,), forward_only=True)
    tokens = step.data[0].tokens
    step.data[0].inputs["target_tokens"][:-1] = tokens[1:]
    plain = whole.step("m", step).logprobs[0]
    for version, seeds in (("v1", range(3)), ("v2", range(3, 6))):
        _trained(whole, seeds)
        whole.save("m", tmp_path / version, optimizer=False)
        sampler.load(version, tmp_path / version)
    trained = whole.step("m", step).logprobs[0]
    ask = [Sampling(weights, tokens, count=0, prompt_logprobs=True) for weights in ("v2", None, "v1", "gone", "v2")]
    new, old, between, gone, again = sampler.sample(ask)
    np.testing.assert_allclose(new.prompt_logprobs[1:], trained[:-1], atol=1e-4)
    np.testing.assert_allclose(old.prompt_logprobs[1:], plain[:-1], atol=1e-4)
    assert np.abs(between.prompt_logprobs[1:] - trained[:-1]).max() > 1e-3
    assert isinstance(gone, Refused)
    np.testing.assert_array_equal(new.prompt_logprobs, again.prompt_logprobs)


def test_a_sampler_takes_new_weights_under_an_old_name_and_refuses_torn_ones(whole, base, tmp_path):
    sampler, ask = WholeSampler(base), Sampling("v", np.arange(4, 12), count=0, prompt_logprobs=True)
    found = []
    for seeds in (range(2), range(2, 4)):
        _trained(whole, seeds)
        whole.save("m", tmp_path / "v", optimizer=False)
        sampler.load("v", tmp_path / "v")
        found.append(sampler.sample([ask])[0].prompt_logprobs[1:])
    assert np.abs(found[0] - found[1]).max() > 1e-4
    (tmp_path / "v" / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(Refused, match="is torn or was changed"):
        sampler.load("v", tmp_path / "v")
    np.testing.assert_array_equal(sampler.sample([ask])[0].prompt_logprobs[1:], found[1])


def test_a_sampler_answers_from_the_bytes_that_it_verified_and_verifies_again_what_it_gave_away(whole, base, tmp_path):
    _trained(whole)
    whole.save("m", tmp_path / "v", optimizer=False)
    sampler, request = WholeSampler(base), Sampling("v", np.array([5, 6, 7]), max_tokens=4, seed=1)
    sampler.load("v", tmp_path / "v")
    with (tmp_path / "v" / MODEL).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    (answer,) = sampler.sample([request])
    assert len(answer.sequences) == 1
    assert isinstance(sampler.sample([replace(request, weights=None)])[0], Sampled)
    (answer,) = sampler.sample([request])
    assert isinstance(answer, Refused)
    assert "is torn or was changed" in str(answer)
