"""What a sampler answers: against the trainer, alone and in batches, with seeds, stops and limits."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from muster.sessions.engines.choice import next_tokens
from muster.sessions.engines.sampler import TransformersSampler
from muster.sessions.engines.stops import Stops
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam, Datum, Lora, Sampling, Step
from tests.sessions.engines import drawn

_EOS = 3


@pytest.fixture(scope="module")
def sampler(base, shared, tmp_path_factory):
    """A sampler with two trained models, which are the trainer's too."""
    made = TransformersSampler(base)
    for number, model in enumerate(("one", "two")):
        shared.create(model, Lora(rank=4 + number, seed=number, train_mlp=not number))
        for seed in range(3):
            shared.step(model, drawn.step(seed + 10 * number))
            shared.optim(model, Adam(learning_rate=2e-2))
        folder = tmp_path_factory.mktemp("weights") / model
        shared.save(model, folder, optimizer=False)
        made.load(model, folder)
    return made


@pytest.fixture(scope="module")
def models(sampler, shared):
    """The trainer with the same two models, also after tests that forgot them."""
    return dict(shared._models)


def _prompt(seed, length):
    return np.random.default_rng(seed).integers(4, drawn.VOCABULARY, length)


def _trained_logprobs(shared, models, weights, tokens):
    shared._models = dict(models)
    inputs = {"target_tokens": tokens[1:], "weights": np.zeros(len(tokens) - 1, np.float32)}
    return shared.step(weights, Step("cross_entropy", {}, [Datum(tokens[:-1], inputs)], forward_only=True)).logprobs[0]


def _same(one, other):
    pairs = list(zip(one.sequences, other.sequences, strict=True))
    assert [a.tokens.tolist() for a, _ in pairs] == [b.tokens.tolist() for _, b in pairs]
    for a, b in pairs:
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)


@pytest.mark.parametrize("weights", ["one", "two"])
@pytest.mark.parametrize("choice", [{}, {"temperature": 0.3}, {"temperature": 0.0}, {"top_k": 3, "top_p": 0.7}])
def test_sampled_logprobs_are_those_of_the_untempered_trainer(sampler, shared, models, weights, choice):
    request = Sampling(weights, _prompt(1, 7), count=2, max_tokens=12, seed=5, stop=[], **choice)
    (answer,) = sampler.sample([request])
    for each in answer.sequences:
        tokens = np.concatenate([request.prompt, each.tokens])
        np.testing.assert_allclose(each.logprobs, _trained_logprobs(shared, models, weights, tokens)[6:], atol=1e-4)


def test_prompt_logprobs_are_those_of_the_trainer(sampler, shared, models):
    prompts = [_prompt(seed, length) for seed, length in enumerate((9, 2, 30))]
    answers = sampler.sample([Sampling("one", each, count=0, prompt_logprobs=True) for each in prompts])
    for prompt, answer in zip(prompts, answers, strict=True):
        assert np.isnan(answer.prompt_logprobs[0])
        assert answer.sequences == ()
        expected = _trained_logprobs(shared, models, "one", prompt)
        np.testing.assert_allclose(answer.prompt_logprobs[1:], expected, atol=1e-5)


def test_the_base_is_sampled_as_it_is_beside_models(sampler, base):
    prompt = _prompt(3, 6)
    requests = [Sampling(weights, prompt, max_tokens=5, temperature=0, stop=[]) for weights in ("one", None, "two")]
    answers = sampler.sample(requests)
    plain = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        text = torch.from_numpy(np.concatenate([prompt, answers[1].sequences[0].tokens]))[None]
        logits = plain(text).logits[0, 5:-1]
    assert logits.argmax(-1).tolist() == answers[1].sequences[0].tokens.tolist()
    assert len({tuple(each.sequences[0].tokens) for each in answers}) == 3


def test_a_seed_gives_the_same_sequences_whatever_else_is_in_the_batch(sampler):
    request = Sampling("one", _prompt(1, 8), count=3, max_tokens=10, seed=11, stop=[])
    others = [
        Sampling(w, _prompt(s, 3 + 5 * s), count=2, max_tokens=4 + s, stop=[])
        for s, w in enumerate(("one", "two", None, "one"))
    ]
    (alone,) = sampler.sample([request])
    crowd = sampler.sample([*others[:2], replace(request, top_k=2, seed=None), request, *others[2:]])
    _same(alone, crowd[3])
    _same(alone, sampler.sample([request])[0])


def test_a_larger_count_keeps_the_sequences_of_a_smaller_one_and_all_differ(sampler):
    request = Sampling("one", _prompt(1, 8), count=2, max_tokens=10, seed=11, stop=[])
    few, many = sampler.sample([request, replace(request, count=5)])
    _same(few, replace(many, sequences=many.sequences[:2]))
    assert len({tuple(each.tokens) for each in many.sequences}) == 5


def test_another_seed_and_no_seed_give_other_sequences(sampler):
    request = Sampling("one", _prompt(1, 8), max_tokens=12, seed=1, stop=[])
    seeds = (1, 2, -1, 2**70, None, None)
    answers = sampler.sample([replace(request, seed=seed) for seed in seeds])
    assert len({tuple(each.sequences[0].tokens) for each in answers}) == len(seeds)


def test_batches_over_the_budget_are_divided_and_give_the_same(sampler, monkeypatch):
    requests = [
        Sampling("one", _prompt(s, 4 + s), count=3, max_tokens=6, seed=s, stop=[], prompt_logprobs=True)
        for s in range(3)
    ]
    together = sampler.sample(requests)
    monkeypatch.setattr(sampler, "_budget", 25)
    for one, other in zip(together, sampler.sample(requests), strict=True):
        _same(one, other)
        np.testing.assert_allclose(one.prompt_logprobs, other.prompt_logprobs, atol=1e-5)


def test_a_sequence_ends_at_the_stop_token_which_it_holds(sampler):
    request = Sampling("one", _prompt(2, 8), count=4, max_tokens=40, seed=3, stop=[])
    (free,) = sampler.sample([request])
    token = int(free.sequences[0].tokens[5])
    (stopped,) = sampler.sample([replace(request, stop=[token])])
    for one, other in zip(free.sequences, stopped.sequences, strict=True):
        ends = np.flatnonzero(one.tokens == token)
        length = ends[0] + 1 if len(ends) else 40
        assert other.tokens.tolist() == one.tokens[:length].tolist()
        assert other.ended == ("stop" if len(ends) else "length")


def test_a_sequence_ends_at_a_stop_text_that_tokens_make_together(sampler, base):
    tokenizer = AutoTokenizer.from_pretrained(base)
    request = Sampling("one", _prompt(2, 8), max_tokens=30, seed=3, stop=[])
    (free,) = sampler.sample([request])
    text = tokenizer.decode(free.sequences[0].tokens[4:7])
    for stop in ([text], ["never there", text], text):
        (stopped,) = sampler.sample([replace(request, stop=stop)])
        assert tokenizer.decode(stopped.sequences[0].tokens).endswith(text)
        assert len(stopped.sequences[0].tokens) <= 7
        assert stopped.sequences[0].ended == "stop"


def test_without_stops_the_end_of_the_tokenizer_ends_and_with_none_nothing_does(base):
    tokenizer = AutoTokenizer.from_pretrained(base)
    assert Stops(None, frozenset({_EOS}), tokenizer).reached([7, _EOS])
    assert not Stops([], frozenset({_EOS}), tokenizer).reached([7, _EOS])
    assert not Stops(["x"], frozenset({_EOS}), tokenizer).reached([7, _EOS])


def test_the_ends_of_a_model_are_its_configs_and_its_tokenizers(sampler):
    assert sampler._ends == {_EOS}


def test_prompt_logprobs_are_kept_for_the_last_few_only_when_asked(sampler):
    request = Sampling("one", _prompt(4, 6), count=0, prompt_logprobs=True, topk_prompt=2)
    whole, part, all_ = sampler.sample([request, replace(request, last_n=2), replace(request, last_n=100)])
    np.testing.assert_array_equal(np.isnan(part.prompt_logprobs), [True] * 4 + [False] * 2)
    np.testing.assert_allclose(part.prompt_logprobs[4:], whole.prompt_logprobs[4:], atol=1e-6)
    np.testing.assert_allclose(all_.prompt_logprobs, whole.prompt_logprobs, atol=1e-6)
    assert (part.topk_prompt[1][:4] == -99999).all()
    assert (part.topk_prompt[0][:4] == 0).all()


def test_alternatives_and_targets_of_a_prompt_are_those_of_its_distribution(sampler, shared, models):
    prompt = _prompt(5, 5)
    targets = np.array([[7, -1], [8, 9], [-1, -1], [10, 11]])
    request = Sampling("one", prompt, count=0, prompt_logprobs=True, topk_prompt=drawn.VOCABULARY, targets=targets)
    (answer,) = sampler.sample([request])
    ids, values = answer.topk_prompt
    np.testing.assert_allclose(np.exp(values[1:].astype(np.float64)).sum(1), 1, atol=1e-5)
    assert (ids[0] == 0).all()
    assert (values[0] == -99999).all()
    for place in range(1, 5):
        table = dict(zip(ids[place].tolist(), values[place].tolist(), strict=True))
        assert answer.prompt_logprobs[place] == pytest.approx(table[int(prompt[place])], abs=1e-6)
        expected = [table[int(target)] if target >= 0 else 0 for target in targets[place - 1]]
        np.testing.assert_allclose(answer.targets[place - 1], expected, atol=1e-6)


def test_alternatives_of_sampled_tokens_are_the_likeliest_of_the_untempered_model(sampler):
    request = Sampling("one", _prompt(5, 5), max_tokens=6, temperature=0, stop=[], topk_sampled=3)
    answers = sampler.sample([request, replace(request, topk_sampled=1), replace(request, topk_sampled=0)])
    (sequence,) = answers[0].sequences
    assert sequence.topk[0].shape == sequence.topk[1].shape == (6, 3)
    assert sequence.topk[0][:, 0].tolist() == sequence.tokens.tolist()
    np.testing.assert_allclose(sequence.topk[1][:, 0], sequence.logprobs, atol=1e-6)
    assert answers[1].sequences[0].topk[0].shape == (6, 1)
    assert answers[2].sequences[0].topk is None


def test_no_limit_is_as_many_tokens_as_the_context_has_left(sampler):
    (answer,) = sampler.sample([Sampling("one", _prompt(1, 1020), seed=1, stop=[])])
    assert len(answer.sequences[0].tokens) == 4
    assert answer.sequences[0].ended == "length"


def test_a_prompt_that_fills_the_context_is_scored_but_gets_no_tokens(sampler):
    (answer,) = sampler.sample([Sampling("one", _prompt(1, 1024), prompt_logprobs=True, topk_sampled=2)])
    assert len(answer.sequences[0].tokens) == 0
    assert answer.sequences[0].topk[0].shape == (0, 2)
    assert len(answer.prompt_logprobs) == 1024


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": "gone"}, "model_path: gone: is not loaded"),
        ({"prompt": np.zeros(0, np.int64)}, "prompt: has 0 tokens"),
        ({"prompt": np.full(1025, 5)}, "prompt: has 1025 tokens: pass 1 to 1024"),
        ({"prompt": np.array([5, 100])}, "prompt: holds a token outside of 0 to"),
        ({"prompt": np.array([5, -1])}, "prompt: holds a token outside of 0 to"),
        ({"max_tokens": 1020}, "max_tokens: 1020: pass 0 to 1019, for the prompt has 5 of the 1024 tokens"),
        ({"max_tokens": -1}, "max_tokens: -1: pass 0 to"),
        ({"temperature": -0.1}, "temperature: -0.1: pass 0"),
        ({"temperature": float("nan")}, "temperature: nan"),
        ({"top_p": 0.0}, "top_p: 0.0: pass a number above 0"),
        ({"top_p": 1.5}, "top_p: 1.5"),
        ({"top_k": -2}, "top_k: pass a positive number"),
        ({"top_k": 10**400}, "top_k: pass a positive number"),
        ({"count": 4096, "max_tokens": 1000, "topk_sampled": 100}, "smaller num_samples"),
        ({"count": -1}, "num_samples: -1"),
        ({"last_n": 0}, "prompt_logprobs_last_n: 0"),
        ({"topk_prompt": 101}, "topk_prompt_logprobs: 101: pass 0 to 100"),
        ({"topk_sampled": -1}, "topk_sampled_logprobs: -1"),
        ({"targets": np.zeros((5, 2), np.int64)}, "target_prompt_logprobs: pass a row"),
        ({"targets": np.full((4, 2), 100)}, "target_prompt_logprobs: pass token ids below 100"),
        ({"stop": [""]}, "stop: pass at most 64 stops"),
        ({"stop": ["x"] * 65}, "stop: pass at most 64 stops"),
        ({"stop": ["x" * 1025]}, "of 1 to 1024 characters"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_its_place_and_the_rest_is_answered(sampler, change, message):
    good = Sampling("one", _prompt(1, 5), max_tokens=2, seed=1, stop=[])
    first, refused, last = sampler.sample([good, replace(good, **change), good])
    assert isinstance(refused, Refused)
    assert message in str(refused)
    _same(first, last)


@pytest.mark.parametrize("asks", [{}, {"count": 0, "prompt_logprobs": True}, {"count": 0, "targets": [[5]] * 4}])
def test_weights_whose_logits_overflow_are_refused_and_the_rest_is_answered(sampler, asks):
    large = sampler._weights["one"]
    pairs = {path: (a * 1e30, b * 1e30) for path, (a, b) in large.pairs.items()}
    sampler._weights["large"] = replace(large, pairs=pairs)
    if "targets" in asks:
        asks = asks | {"targets": np.array(asks["targets"])}
    good = Sampling("one", _prompt(1, 5), max_tokens=3, seed=1, stop=[], **asks)
    first, refused, last = sampler.sample([good, replace(good, weights="large"), good])
    assert isinstance(refused, Refused)
    assert "the logits of these weights are not numbers" in str(refused)
    _same(first, last)


def test_the_smallest_temperature_there_is_takes_the_likeliest_token(sampler):
    request = Sampling("one", _prompt(1, 5), max_tokens=6, seed=1, stop=[], temperature=5e-324)
    tiny, filtered, greedy = sampler.sample([request, replace(request, top_k=3), replace(request, temperature=0.0)])
    _same(tiny, greedy)
    _same(filtered, greedy)


def test_nothing_asked_is_nothing_answered(sampler):
    assert sampler.sample([]) == []


def test_new_weights_of_a_name_are_sampled_and_torn_ones_leave_the_old(sampler, shared, models, tmp_path):
    shared._models = dict(models)
    request = Sampling("moving", _prompt(1, 5), max_tokens=6, temperature=0, stop=[])
    answers = []
    for model in ("one", "two"):
        shared.save(model, tmp_path / model, optimizer=False)
        sampler.load("moving", tmp_path / model)
        answers.append(sampler.sample([request, replace(request, weights=model)]))
        _same(*answers[-1])
    path = tmp_path / "one" / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Refused, match="torn"):
        sampler.load("moving", tmp_path / "one")
    _same(sampler.sample([request])[0], answers[-1][0])
    sampler.unload("moving")
    sampler.unload("moving")
    assert isinstance(sampler.sample([request])[0], Refused)


_LOGITS = torch.tensor([[0.0, 2.0, 1.0, -1.0]])


def _drawn(**choice):
    """Count tokens over chances that cover the distribution evenly."""
    request = Sampling(None, np.array([1]), **choice)
    chances = [(number + 0.5) / 2000 for number in range(2000)]
    tokens = next_tokens(_LOGITS.repeat(2000, 1), [request] * 2000, chances)
    return {token: count / 2000 for token, count in Counter(tokens.tolist()).items()}


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        ({}, [0, 1, 2, 3]),
        ({"temperature": 2.0}, [0, 1, 2, 3]),
        ({"top_k": 2}, [1, 2]),
        ({"top_k": 100}, [0, 1, 2, 3]),
        ({"top_k": 0}, [0, 1, 2, 3]),
        ({"top_p": 0.7}, [1, 2]),
        ({"top_p": 0.64}, [1]),
        ({"top_p": 1e-9}, [1]),
        ({"top_k": 3, "top_p": 0.9, "temperature": 1.5}, [0, 1, 2]),
        ({"temperature": 0.0}, [1]),
        ({"temperature": 1e-30}, [1]),
    ],
)
def test_tokens_come_as_often_as_their_probability_among_those_that_are_kept(choice, kept):
    scale = choice.get("temperature", 1.0) or 1.0
    weights = {token: np.exp((float(_LOGITS[0, token]) - 2) / scale) for token in kept}
    expected = {token: weight / sum(weights.values()) for token, weight in weights.items()}
    assert _drawn(**choice) == {token: pytest.approx(share, abs=1e-3) for token, share in expected.items()}


def test_a_chance_at_the_very_end_takes_no_token_of_probability_zero():
    request = Sampling(None, np.array([1]), top_k=2)
    logits = torch.tensor([[1.0, 0.0, -5.0], [1.0, 0.0, -torch.inf]])
    plain = replace(request, top_k=-1)
    assert next_tokens(logits, [request, plain], [1 - 2**-53] * 2).tolist() == [1, 1]
