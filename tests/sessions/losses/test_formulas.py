"""The losses against float64 oracles, values and gradients, over drawn sequences."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from muster.sessions.losses.checks import config_of
from muster.sessions.losses.formulas import loss_sum
from muster.sessions.losses.table import LOSSES
from tests.sessions.losses import oracles

_STEP = 1e-6
_STOPPED = {"cispo", "gspo"}


def _floats(low, high):
    return st.floats(low, high, allow_nan=False, width=32)


@st.composite
def _sequence(draw, name):
    length = draw(st.integers(1, 6))
    values = {key: draw(st.lists(_floats(-2, 2), min_size=length, max_size=length)) for key in LOSSES[name].inputs}
    if "sequence_ratio_mask" in values:
        values["sequence_ratio_mask"] = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=length, max_size=length))
    p = draw(st.lists(_floats(-3, 0), min_size=length, max_size=length))
    return np.array(p, np.float64), {key: np.array(value, np.float64) for key, value in values.items()}


@st.composite
def _case(draw):
    name = draw(st.sampled_from(sorted(LOSSES)))
    given_ = {"beta": draw(_floats(0, 2))} if name == "dro" else {}
    return name, config_of(name, given_), draw(st.lists(_sequence(name), min_size=1, max_size=3))


def _torch(name, config, sequences):
    p = torch.tensor(np.concatenate([p for p, _ in sequences]), requires_grad=True)
    inputs = {key: torch.tensor(np.concatenate([i[key] for _, i in sequences])) for key in LOSSES[name].inputs}
    row = torch.tensor(np.repeat(np.arange(len(sequences)), [len(p) for p, _ in sequences]))
    loss = loss_sum(name, p, inputs, config, row)
    loss.backward()
    return loss.item(), p.grad.numpy()


@given(_case())
def test_each_loss_is_the_sum_that_its_formula_gives(case):
    name, config, sequences = case
    expected = sum(getattr(oracles, name)(p, inputs, config) for p, inputs in sequences)
    # Terms of some hundreds may cancel, and torch rounds their sum by how it lies in memory.
    assert _torch(name, config, sequences)[0] == pytest.approx(expected, rel=1e-12, abs=1e-10)


@given(_case())
def test_each_gradient_is_the_slope_of_its_formula(case):
    name, config, sequences = case
    assume(not _at_an_edge(config, sequences))
    expected = np.concatenate([_slopes(name, p, inputs, config) for p, inputs in sequences])
    assert _torch(name, config, sequences)[1] == pytest.approx(expected, rel=1e-5, abs=1e-5)


def _slopes(name, p, inputs, config):
    oracle = getattr(oracles, name)
    stopped = {"frozen": p} if name in _STOPPED else {}
    moves = _STEP * np.eye(len(p))
    return [
        (oracle(p + move, inputs, config, **stopped) - oracle(p - move, inputs, config, **stopped)) / (2 * _STEP)
        for move in moves
    ]


def _at_an_edge(config, sequences):
    """Whether a ratio is so near a threshold that the two sides of the slope differ."""
    edges = [value for key, value in config.items() if key.startswith("clip")]
    logs = [(p - inputs["logprobs"]) for p, inputs in sequences if "logprobs" in inputs]
    means = (
        [
            np.mean(each[inputs["sequence_ratio_mask"] != 0] if "sequence_ratio_mask" in inputs else each)
            for each, (_, inputs) in zip(logs, sequences, strict=True)
            if "sequence_ratio_mask" not in inputs or (inputs["sequence_ratio_mask"] != 0).any()
        ]
        if logs
        else []
    )
    ratios = np.exp(np.concatenate([*logs, means])) if logs else np.zeros(0)
    return any(np.abs(ratios - edge).min(initial=1) < 1e-4 for edge in edges)


@given(st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False))
def test_cross_entropy_of_several_targets_a_token_is_the_sum_over_all_of_them(length, wide, random):
    p, weights = (np.array([[random.uniform(-3, 0) for _ in range(wide)] for _ in range(length)]) for _ in range(2))
    flat = torch.tensor(p.ravel())
    row = torch.zeros(length * wide, dtype=torch.int64)
    loss = loss_sum("cross_entropy", flat, {"weights": torch.tensor(weights.ravel())}, {}, row)
    assert loss.item() == pytest.approx(oracles.cross_entropy(p, {"weights": weights}, {}))


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo", "gspo"])
def test_a_token_without_an_advantage_adds_nothing_even_where_its_ratio_overflows(name):
    p = torch.tensor([-1.0, -1.0], dtype=torch.float32, requires_grad=True)
    inputs = {
        "logprobs": torch.tensor([-900.0, -1.0]),
        "advantages": torch.tensor([0.0, 1.0]),
        "sequence_ratio_mask": torch.tensor([0.0, 1.0]),
    }
    loss = loss_sum(name, p, inputs, config_of(name, {}), torch.tensor([0, 0]))
    loss.backward()
    assert torch.isfinite(loss)
    assert p.grad[0].item() == 0
    assert p.grad[1].item() == pytest.approx(-1)


def test_a_sequence_whose_mask_is_empty_has_a_ratio_of_one():
    p = torch.tensor([-1.0, -2.0], requires_grad=True)
    inputs = {"logprobs": torch.zeros(2), "advantages": torch.ones(2), "sequence_ratio_mask": torch.zeros(2)}
    assert loss_sum("gspo", p, inputs, config_of("gspo", {}), torch.tensor([0, 0])).item() == -2
