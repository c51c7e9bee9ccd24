"""What sampling by the real client promises, on torch engines."""

from __future__ import annotations

import numpy as np
import pytest
from tinker import types

from tests.sessions.behaviours.test_training import STEP, learned
from tests.sessions.hand import datum

PROMPT = [20, 21, 22, 23]


@pytest.fixture(scope="module")
def trained(service, torch_gateway):
    client = service.create_lora_training_client(str(torch_gateway.base), rank=4, seed=3).result()
    learned(client, [datum([20, 21, 30, 31, 32])])
    return client


@pytest.fixture(scope="module")
def sampler(trained):
    return trained.save_weights_and_get_sampling_client().result()


def sampled(sampler, count=1, prompt=PROMPT, **params):
    given = types.SamplingParams(**{"max_tokens": 12, "seed": 5, "stop": [], **params})
    return sampler.sample(types.ModelInput.from_ints(prompt), count, given).result().sequences


def tokens(sequences):
    return [list(each.tokens) for each in sequences]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_what_is_sampled_what_is_scored_and_what_is_trained_have_the_same_logprobs(trained, sampler, temperature):
    (one,) = sampled(sampler, temperature=temperature)
    whole = [*PROMPT, *one.tokens]
    scored = sampler.compute_logprobs(types.ModelInput.from_ints(whole)).result()
    passed = trained.forward([datum(whole)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
    np.testing.assert_allclose(scored[1:], passed, atol=1e-4)
    np.testing.assert_allclose(one.logprobs, passed[len(PROMPT) - 1 :], atol=1e-4)


def test_a_seed_repeats_and_another_seed_differs_and_so_do_samples_of_one_seed(sampler):
    first, again, other = (tokens(sampled(sampler, 4, seed=seed)) for seed in (5, 5, 6))
    assert first == again != other
    assert len(set(map(tuple, first))) == 4


def test_a_sequence_ends_at_a_text_or_a_token_that_it_is_told_and_holds_it(trained, sampler):
    (whole,) = sampled(sampler)
    last = whole.tokens[3]
    until = list(whole.tokens[: list(whole.tokens).index(last) + 1])
    text = trained.get_tokenizer().decode([last])
    for stop in ([last], text, [text]):
        (ended,) = sampled(sampler, stop=stop)
        assert (list(ended.tokens), ended.stop_reason) == (until, "stop")


def test_without_stops_the_end_of_text_ends_and_with_an_empty_list_nothing_does(trained, sampler):
    end = trained.get_tokenizer().eos_token_id
    given = sampled(sampler, 64, max_tokens=32, stop=None), sampled(sampler, 64, max_tokens=32, stop=[])
    ended = [each for each in given[0] if end in each.tokens]
    assert ended
    assert all(list(each.tokens).index(end) == len(each.tokens) - 1 for each in ended)
    assert {each.stop_reason for each in ended} == {"stop"}
    assert {(len(each.tokens), each.stop_reason) for each in given[1]} == {(32, "length")}
    assert any(end in each.tokens for each in given[1])


def test_alternatives_and_the_last_logprobs_of_a_prompt_come_as_asked(sampler):
    prompt = types.ModelInput.from_ints(PROMPT)
    params = types.SamplingParams(max_tokens=3, seed=5, stop=[])
    whole = sampler.sample(
        prompt, 2, params, include_prompt_logprobs=True, topk_prompt_logprobs=100, topk_sample_logprobs=4
    ).result()
    part = sampler.sample(prompt, 1, params, include_prompt_logprobs=True, prompt_logprobs_last_n=2).result()
    assert [len(each.topk_logprobs) for each in whole.sequences] == [3, 3]
    assert all(len(each) == 4 for sequence in whole.sequences for each in sequence.topk_logprobs)
    assert part.prompt_logprobs == [None, None, *whole.prompt_logprobs[2:]]
    for at, token in enumerate(PROMPT[1:], 1):
        spread = dict(whole.topk_prompt_logprobs[at])
        assert spread[token] == pytest.approx(whole.prompt_logprobs[at], abs=1e-5)
        assert len(spread) == 100
        assert sum(np.exp(np.array(list(spread.values()), np.float64))) == pytest.approx(1, abs=1e-4)


def test_a_pinned_session_has_the_same_bits_while_training_moves_on(service, torch_gateway):
    client = service.create_lora_training_client(str(torch_gateway.base), rank=4, seed=3).result()
    pinned = client.save_weights_and_get_sampling_client().result()
    before, prompt = sampled(pinned, 4), types.ModelInput.from_ints([*PROMPT, 40])
    scored = pinned.compute_logprobs(prompt).result()
    for _ in range(3):
        client.forward_backward([datum([20, 21, 22, 23, 40])], "cross_entropy")
        client.optim_step(STEP).result()
        newer = client.save_weights_and_get_sampling_client().result()
        assert abs(newer.compute_logprobs(prompt).result()[4] - scored[4]) > 1e-3
        assert pinned.compute_logprobs(prompt).result() == scored
    after = sampled(pinned, 4)
    assert [(list(a.tokens), list(a.logprobs)) for a in after] == [(list(b.tokens), list(b.logprobs)) for b in before]


def test_the_base_beside_models_is_the_base(service, torch_gateway, sampler):
    base = service.create_sampling_client(base_model=str(torch_gateway.base)).result()
    fresh = service.create_lora_training_client(str(torch_gateway.base), rank=4).result()
    given = [*PROMPT, 30, 31]
    passed = fresh.forward([datum(given)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
    sampled(sampler)
    scored = base.compute_logprobs(types.ModelInput.from_ints(given)).result()
    np.testing.assert_allclose(scored[1:], passed, atol=1e-5)
