"""Prompts that come while others are answered: each gets what it gets alone, and short ones need not wait for long."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma2Config

from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.engines.tickets import answered
from muster.sessions.seam import Adam, Lora, Sampling
from tests.sessions.engines import drawn


@pytest.fixture(scope="module")
def adapters(base, shared, tmp_path_factory):
    """Two trained adapters of different shapes."""
    folder = tmp_path_factory.mktemp("weights")
    for number, model in enumerate(("one", "two")):
        shared.create(model, Lora(rank=4 + number, seed=number, train_mlp=not number))
        shared.step(model, drawn.step(number))
        shared.optim(model, Adam(learning_rate=5e-2))
        shared.save(model, folder / model, optimizer=False)
    return folder


@pytest.fixture(scope="module")
def sampler(base, adapters):
    made = TransformersSampler(base, budget=400)
    made.load("one", adapters / "one")
    made.load("two", adapters / "two")
    return made


@pytest.fixture(scope="module")
def window(base, tmp_path_factory):
    """A sampler of a model whose cache forgets what is outside of a window."""
    folder = tmp_path_factory.mktemp("window")
    config = Gemma2Config(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=64,
        sliding_window=4,
        query_pre_attn_scalar=16,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return TransformersSampler(folder)


def _prompt(seed, length):
    return np.random.default_rng(seed).integers(4, drawn.VOCABULARY, length)


def _came(sampler, arrivals):
    """Answer requests, each of which comes at its turn of the sampler."""
    answers, turn = {}, 0
    while len(answers) < len(arrivals):
        for ticket, (when, request) in enumerate(arrivals):
            if when == turn:
                sampler.begin(ticket, request)
        answers.update(sampler.advance())
        turn += 1
    return [answers[ticket] for ticket in range(len(arrivals))]


def _same(one, other):
    assert [each.tokens.tolist() for each in one.sequences] == [each.tokens.tolist() for each in other.sequences]
    assert [each.ended for each in one.sequences] == [each.ended for each in other.sequences]
    for a, b in zip(one.sequences, other.sequences, strict=True):
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
        if a.topk is not None:
            np.testing.assert_allclose(a.topk[1], b.topk[1], atol=1e-5)
    if one.prompt_logprobs is not None:
        np.testing.assert_allclose(one.prompt_logprobs, other.prompt_logprobs, atol=1e-5)


requests = st.builds(
    lambda seed, length, **rest: Sampling(prompt=_prompt(seed, length), seed=seed, **rest),
    seed=st.integers(0, 99),
    length=st.integers(1, 30),
    weights=st.sampled_from(["one", "two", None]),
    count=st.integers(0, 3),
    max_tokens=st.integers(1, 12),
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    top_k=st.sampled_from([-1, 5]),
    stop=st.sampled_from([[], [7, 8, 9, 10, 11], ["a", "7"]]),
    prompt_logprobs=st.booleans(),
    topk_sampled=st.sampled_from([0, 2]),
)


@settings(max_examples=12)
@given(arrivals=st.lists(st.tuples(st.integers(0, 8), requests), min_size=1, max_size=6))
def test_a_prompt_gets_what_it_gets_alone_whenever_it_comes_and_whatever_is_beside_it(sampler, arrivals):
    together = _came(sampler, arrivals)
    for (_, request), answer in zip(arrivals, together, strict=True):
        _same(answer, *answered(sampler, [request]))


@settings(max_examples=5)
@given(whens=st.lists(st.integers(0, 6), min_size=2, max_size=4))
def test_a_model_whose_cache_cannot_be_joined_answers_the_same(window, whens):
    wanted = [Sampling(None, _prompt(n, 3 + 4 * n), count=2, max_tokens=8, seed=n, stop=[]) for n in range(len(whens))]
    together = _came(window, list(zip(whens, wanted, strict=True)))
    assert not window._batches
    for request, answer in zip(wanted, together, strict=True):
        _same(answer, *answered(window, [request]))


def test_a_short_prompt_that_comes_later_is_answered_while_a_long_one_grows(sampler):
    long = Sampling("one", _prompt(1, 20), max_tokens=100, seed=1, stop=[])
    sampler.begin(0, long)
    assert not any(sampler.advance() for _ in range(5))
    sampler.begin(1, replace(long, weights="two", prompt=_prompt(2, 3), max_tokens=3))
    assert [list(sampler.advance()) for _ in range(3)] == [[], [], [1]]
    assert len(sampler._batches) == 1, "they shared their passes"
    turns = 8
    while not (ended := sampler.advance()):
        turns += 1
    assert turns + 1 == 100
    _same(ended[0], *answered(sampler, [long]))


def test_what_does_not_fit_beside_the_others_waits_and_keeps_its_place(sampler):
    wide = Sampling("one", _prompt(1, 100), max_tokens=100, seed=1, stop=[])
    tiny = replace(wide, prompt=_prompt(2, 3), max_tokens=2)
    for ticket, request in enumerate((wide, wide, wide, tiny)):
        sampler.begin(ticket, request)
    sampler.advance()
    assert sum(len(batch.rows) for batch in sampler._batches) == 2
    order = []
    while len(order) < 4:
        order += sampler.advance()
    assert order == [0, 1, 3, 2]


def test_one_that_is_wider_than_the_budget_is_answered_alone(sampler):
    request = Sampling("one", _prompt(1, 300), max_tokens=30, count=2, seed=1, stop=[])
    (answer,) = answered(sampler, [request])
    assert [len(each.tokens) for each in answer.sequences] == [30, 30]


def test_padding_goes_with_the_longest_row(sampler):
    sampler.begin(0, Sampling("one", _prompt(1, 90), max_tokens=2, seed=1, stop=[]))
    sampler.begin(1, Sampling("one", _prompt(2, 5), max_tokens=50, seed=1, stop=[]))
    while 0 not in sampler.advance():
        pass
    (batch,) = sampler._batches
    assert batch._mask.shape == (1, 5 + 2)
    assert {layer.keys.shape[-2] for layer in batch._cache.layers} <= {5 + 1, 5 + 2}
    sampler.abandon(1)
    sampler.advance()


def test_what_is_abandoned_is_computed_no_more(sampler):
    request = Sampling("one", _prompt(1, 5), max_tokens=50, seed=1, stop=[], prompt_logprobs=True)
    sampler.begin(0, request)
    sampler.begin(1, replace(request, prompt=_prompt(2, 5), max_tokens=4))
    sampler.advance()
    sampler.begin(2, request)
    sampler.abandon(0)
    sampler.abandon(2)
    sampler.abandon(99)
    answers = {}
    while not answers:
        answers |= sampler.advance()
    assert list(answers) == [1]
    assert sampler.advance() == {}
    assert not sampler._batches


def test_a_fault_forgets_what_had_begun_and_the_next_prompt_is_answered(sampler, monkeypatch):
    request = Sampling("one", _prompt(1, 5), max_tokens=5, seed=1, stop=[])
    sampler.begin(0, request)
    sampler.advance()
    sampler.begin(1, request)
    with monkeypatch.context() as broken:
        broken.setattr("muster.sessions.engines.growing.next_tokens", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sampler.advance()
    assert sampler.advance() == {}
    assert len(answered(sampler, [request])[0].sequences[0].tokens) == 5
