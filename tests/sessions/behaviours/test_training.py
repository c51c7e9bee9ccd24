"""What training by the real client promises, on torch engines, against formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tinker import RequestFailedError, types

from muster.sessions.losses.table import LOSSES
from tests.sessions.hand import datum
from tests.sessions.losses import oracles

_RNG = np.random.default_rng(0)
ROWS = [_RNG.integers(4, 100, length).tolist() for length in (6, 9, 5, 12)]
PROBE = types.ModelInput.from_ints(list(range(20, 29)))
# An epsilon of 1 makes a step nearly proportional to its gradient, so that a small difference of gradients shows.
STEP = types.AdamParams(learning_rate=0.1, eps=1.0)


def thought(client):
    """Return what a model thinks of the probe now, which tells its weights."""
    given = types.Datum(PROBE, {"target_tokens": list(range(21, 30)), "weights": [1.0] * 9})
    return np.array(client.forward([given], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data)


def learned(client, *calls, loss="cross_entropy", config=None):
    """Return the answers to passes, sent before any is read, and what the model thinks after their step."""
    promised = [client.forward_backward(each, loss, loss_fn_config=config) for each in calls]
    client.optim_step(STEP).result()
    return [each.result() for each in promised], thought(client)


def logprobs(client, rows):
    outputs = client.forward([datum(each) for each in rows], "cross_entropy").result().loss_fn_outputs
    return [np.array(each["logprobs"].data, np.float64) for each in outputs]


def test_a_batch_may_be_split_and_ordered_in_any_way(model):
    data = [datum(each) for each in ROWS]
    _, whole = learned(model(), data)
    for calls in ([[each] for each in data], [data[:1], data[1:]], [data[::-1]], [[data[2], data[0]], data[1::2]]):
        np.testing.assert_allclose(learned(model(), *calls)[1], whole, atol=1e-6)


def test_a_seed_gives_the_same_bits_and_another_seed_other_ones(model):
    first, again, other = (learned(model(seed), [datum(each) for each in ROWS])[1] for seed in (3, 3, 4))
    assert first.tolist() == again.tolist()
    assert np.abs(first - other).max() > 1e-6


def test_a_step_that_would_overflow_fails_and_training_goes_on_as_if_it_was_not_sent(model):
    disturbed, plain = model(), model()
    for each in (disturbed, plain):
        each.forward_backward([datum(ROWS[0])], "cross_entropy").result()
    before = thought(disturbed)
    wild = types.AdamParams(learning_rate=1e30, weight_decay=1e30)
    with pytest.raises(RequestFailedError, match="the weights would overflow: pass a smaller learning_rate") as failed:
        disturbed.optim_step(wild).result()
    assert failed.value.category == types.RequestErrorCategory.User
    assert thought(disturbed).tolist() == before.tolist()
    first, second = (learned(each, [datum(ROWS[1])])[1] for each in (disturbed, plain))
    assert first.tolist() == second.tolist()
    assert first.tolist() != before.tolist()


def test_it_makes_no_difference_when_answers_are_read(model):
    late, soon = model(), model()
    data = [[datum(each)] for each in ROWS]
    (promised, after) = learned(late, *data)
    read = [soon.forward_backward(each, "cross_entropy").result() for each in data]
    soon.optim_step(STEP).result()
    assert thought(soon).tolist() == after.tolist()
    assert [each.metrics["loss:sum"] for each in read] == [each.metrics["loss:sum"] for each in promised]


def test_models_beside_each_other_have_the_bits_that_they_have_alone(model):
    _, alone = learned(model(), [datum(each) for each in ROWS])
    left, right = model(), model(9)
    before = thought(right)
    promised = [left.forward_backward([datum(each) for each in ROWS], "cross_entropy")]
    promised += [right.forward_backward([datum(ROWS[0])], "cross_entropy") for _ in range(3)]
    left.optim_step(STEP).result()
    assert [each.result().metrics["loss:sum"] > 0 for each in promised] == [True] * 4
    assert thought(left).tolist() == alone.tolist()
    assert thought(right).tolist() == before.tolist()


def _policy_inputs(name, p, rng):
    inputs = {"logprobs": p + rng.uniform(-0.6, 0.6, len(p)), "advantages": rng.normal(size=len(p))}
    if name == "gspo":
        inputs["sequence_ratio_mask"] = rng.integers(0, 2, len(p)).astype(np.float64)
    return {key: each.astype(np.float32).astype(np.float64) for key, each in inputs.items()}


def _slope(name, p, inputs, config):
    """Return the derivative of the oracle by each log-probability, by central differences."""
    oracle, frozen = getattr(oracles, name), {"frozen": p} if name in {"cispo", "gspo"} else {}
    steps = np.eye(len(p)) * 1e-6
    return np.array(
        [(oracle(p + h, inputs, config, **frozen) - oracle(p - h, inputs, config, **frozen)) / 2e-6 for h in steps]
    )


@pytest.mark.parametrize("name", [each for each in LOSSES if each != "cross_entropy"])
def test_each_loss_has_the_sum_and_the_gradient_of_its_formula(model, name):
    by_loss, by_slope = model(), model()
    config, rng = dict(LOSSES[name].config), np.random.default_rng(7)
    now = logprobs(by_loss, ROWS)
    given = [_policy_inputs(name, p, rng) for p in now]
    data, weighted = [], []
    for row, p, inputs in zip(ROWS, now, given, strict=True):
        read, targets = types.ModelInput.from_ints(row[:-1]), row[1:]
        floats = {key: each.astype(np.float32) for key, each in inputs.items()}
        data.append(types.Datum(read, {"target_tokens": targets, **floats}))
        slope = -_slope(name, p, inputs, config)
        weighted.append(types.Datum(read, {"target_tokens": targets, "weights": slope.astype(np.float32)}))
    (told,), after = learned(by_loss, data, loss=name, config=config or None)
    expected = sum(getattr(oracles, name)(p, inputs, config) for p, inputs in zip(now, given, strict=True))
    np.testing.assert_allclose(told.metrics["loss:sum"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(after, learned(by_slope, weighted)[1], atol=2e-6)
    assert np.abs(after - thought(model())).max() > 1e-4


def test_several_targets_a_token_are_the_same_sparse_and_dense_and_the_sum_over_all(model):
    rng = np.random.default_rng(1)
    tokens = rng.integers(4, 100, 16)
    targets, weights = np.zeros((16, 40), np.int64), np.zeros((16, 40), np.float32)
    targets[:, :2], weights[:, :2] = rng.integers(4, 100, (16, 2)), rng.random((16, 2)) + 0.1
    inputs = {"target_tokens": targets, "weights": weights}
    read = types.ModelInput.from_ints(tokens.tolist())
    dense = types.Datum(read, {key: types.TensorData.from_numpy(each) for key, each in inputs.items()})
    sparse = types.Datum(read, {key: torch.from_numpy(each) for key, each in inputs.items()})
    assert sparse.loss_fn_inputs["weights"].sparse_crow_indices is not None
    client = model()
    columns = []
    for column in targets.T[:2]:
        given = types.Datum(read, {"target_tokens": column.tolist(), "weights": [1.0] * 16})
        (output,) = client.forward([given], "cross_entropy").result().loss_fn_outputs
        columns.append(np.array(output["logprobs"].data, np.float64))
    expected = -sum(float(weights[:, at].astype(np.float64) @ p) for at, p in enumerate(columns))
    after = []
    for each in (dense, sparse):
        (told,), thinks = learned(model(), [each])
        np.testing.assert_allclose(told.metrics["loss:sum"], expected, rtol=1e-6)
        after.append(thinks.tolist())
    assert after[0] == after[1]
