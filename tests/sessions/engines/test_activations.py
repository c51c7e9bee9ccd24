"""What a pass keeps for its backward pass: layers and logits that are computed again give the same numbers."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, GPT2Config, GraniteConfig, MixtralConfig, Qwen3Config

from muster.sessions.engines.activations import Scorer, recompute_layers

_SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 64,
}
_CONFIGS = {
    "tied": Qwen3Config(**_SIZES, tie_word_embeddings=True),
    "capped": Gemma2Config(**_SIZES, sliding_window=4, query_pre_attn_scalar=16, final_logit_softcapping=3.0),
    "scaled": GraniteConfig(**{**_SIZES, "num_key_value_heads": 2}, logits_scaling=8.0),
    "experts": MixtralConfig(**_SIZES, num_local_experts=4, num_experts_per_tok=2),
    "another head": GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2, n_positions=64),
}
_LOGITS = 4 * 100 * 4 * 3  # bytes of those of 4 rows and 3 tokens


@pytest.fixture(params=list(_CONFIGS))
def model(request):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return AutoModelForCausalLM.from_config(_CONFIGS[request.param]).eval()


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(4, 100, (4, 11))), torch.from_numpy(rng.integers(4, 100, (4, 11, 2)))


def _differentiated(scorer, drawn):
    scorer.zero_grad()
    scores = scorer(*drawn)
    (scores * torch.arange(scores.numel()).view(scores.shape).sin()).sum().backward()
    return scores.detach(), {name: each.grad.clone() for name, each in scorer.named_parameters()}


@contextmanager
def _kept():
    """Counts the bytes of what is saved for the backward pass, each storage once."""
    found = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield lambda: sum(found.values())


def test_scores_are_the_log_probabilities_of_the_model(model, drawn):
    tokens, targets = drawn
    expected = model(tokens).logits.float().log_softmax(2).gather(2, targets)
    torch.testing.assert_close(Scorer(model)(*drawn), expected, atol=1e-5, rtol=0)


def test_logits_of_a_slice_at_a_time_give_the_same_scores_and_gradients(model, drawn):
    scores, gradients = _differentiated(Scorer(model), drawn)
    sliced, taken = _differentiated(Scorer(model, _LOGITS), drawn)
    torch.testing.assert_close(sliced, scores, atol=1e-5, rtol=0)
    torch.testing.assert_close(taken, gradients, atol=1e-5, rtol=1e-4)


def test_logits_of_a_slice_at_a_time_are_not_kept(model, drawn):
    with _kept() as whole:
        Scorer(model)(*drawn)
    with _kept() as sliced:
        Scorer(model, _LOGITS)(*drawn)
    assert whole() - sliced() >= 4 * 11 * 100 * 4


def test_layers_that_are_computed_again_give_the_same_bits(model, drawn):
    scores, gradients = _differentiated(Scorer(model), drawn)
    recompute_layers(model, above=0)
    again, taken = _differentiated(Scorer(model), drawn)
    assert torch.equal(again, scores)
    assert all(torch.equal(taken[name], each) for name, each in gradients.items())


def test_layers_keep_more_than_their_inputs_only_in_small_passes(model, drawn):
    def kept(tokens):
        with _kept() as found:
            model.base_model(tokens, use_cache=False)
        return found()

    before, small = kept(drawn[0]), kept(drawn[0][:1])
    recompute_layers(model, above=20)
    assert kept(drawn[0]) < before / 2
    assert kept(drawn[0][:1]) == small
