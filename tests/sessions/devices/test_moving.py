"""Engines that give their memory up between any two calls compute the same, to the bit."""

import warnings

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that transformers looks for
    from muster.sessions.demo import tiny
    from muster.sessions.engines.sampler import TransformersSampler
    from muster.sessions.engines.shelf import Shelf, weights_of
    from muster.sessions.engines.tickets import answered
    from muster.sessions.engines.trainer import TorchTrainer
    from muster.sessions.engines.whole import WholeSampler, WholeTrainer
from muster.sessions.seam import Adam, Lora, Movable, Sampling
from tests.sessions.engines import drawn


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("base") / "tiny")


class Restless:
    """An engine that is away after each of its calls."""

    def __init__(self, engine):
        self._engine = engine

    def __getattr__(self, name):
        def called(*args, **named):
            self._engine.back()
            try:
                return getattr(self._engine, name)(*args, **named)
            finally:
                self._engine.away()

        return called if callable(getattr(self._engine, name)) else getattr(self._engine, name)


def _bytes(model):
    return sum(each.untyped_storage().nbytes() for each in weights_of(model))


@pytest.mark.parametrize(("kind", "lora"), [(TorchTrainer, Lora(rank=4, seed=3)), (WholeTrainer, Lora(rank=0))])
def test_a_trainer_that_leaves_after_each_call_learns_the_same(base, tmp_path, kind, lora):
    saved = []
    for name, engine in (("still", kind(base)), ("restless", Restless(kind(base)))):
        engine.create("m", lora)
        for number in range(3):
            engine.step("m", drawn.step(number))
            engine.step("m", drawn.step(number + 10))
            engine.optim("m", Adam(learning_rate=1e-2))
        engine.save("m", tmp_path / name, optimizer=True)
        saved.append({each.name: each.read_bytes() for each in sorted((tmp_path / name).glob("*.safetensors"))})
    assert saved[0] == saved[1]
    assert len(saved[0]) == 2


def _said(answers):
    return [[(one.tokens.tolist(), one.logprobs.tolist()) for one in each.sequences] for each in answers]


_REQUESTS = [Sampling(None, drawn.step(1).data[0].tokens, max_tokens=12, seed=seed, count=2) for seed in range(3)]


def test_a_sampler_that_leaves_between_any_two_tokens_says_the_same(base):
    still, restless = TransformersSampler(base), Restless(TransformersSampler(base))
    assert _said(answered(still, _REQUESTS)) == _said(answered(restless, _REQUESTS))


def test_a_sampler_of_whole_models_that_leaves_says_the_same(base):
    still, restless = WholeSampler(base), Restless(WholeSampler(base))
    for _ in range(2):
        assert _said(still.sample(_REQUESTS)) == _said(restless.sample(_REQUESTS))


@pytest.mark.parametrize("kind", [TorchTrainer, WholeTrainer, TransformersSampler])
def test_an_engine_that_is_away_has_nothing_on_its_device(base, kind):
    engine = kind(base)
    assert isinstance(engine, Movable)
    engine.back()
    before = _bytes(engine._base.model)
    assert before > 100_000
    engine.away()
    assert _bytes(engine._base.model) == 0
    engine.back()
    assert _bytes(engine._base.model) == before


def test_views_of_a_tensor_are_views_of_it_when_it_is_back():
    shelf, whole = Shelf(), torch.arange(10.0)
    part = whole[4:]
    shelf.away([], [whole, part])
    shelf.back()
    whole[5] = -1
    assert part.tolist() == [4, -1, 6, 7, 8, 9]


def test_what_is_fixed_comes_back_as_it_was_first():
    shelf, fixed = Shelf(), torch.arange(4.0)
    for _ in range(3):
        shelf.away([fixed], [])
        shelf.back()
    assert fixed.tolist() == [0, 1, 2, 3]
