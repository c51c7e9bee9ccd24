"""What a trainer computes: against peft and torch's own AdamW, alone and in batches, with others beside it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from muster.sessions.engines.adam import AdamW
from muster.sessions.engines.batches import dealt, packed
from muster.sessions.engines.passes import added
from muster.sessions.engines.trainer import TorchTrainer
from muster.sessions.losses.table import LOSSES
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam, Datum, Lora, Step
from muster.sessions.weights import tensors
from tests.sessions.engines import drawn

_LORA = Lora(rank=4, seed=7)
_ADAM = Adam(learning_rate=1e-2)


def _weights(trainer, model):
    return {name: each.detach().clone() for name, each in trainer._models[model].adapter.named().items()}


def _same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def _gradients(trainer, model):
    return torch.cat([each.ravel() for each in trainer._models[model].pending])


def _trained(trainer, model, steps=2, lora=_LORA):
    """Make a model whose matrices are all away from zero."""
    trainer.create(model, lora)
    for seed in range(steps):
        trainer.step(model, drawn.step(seed + 100))
        trainer.optim(model, _ADAM)
    return model


def _logprobs(model, datum):
    with torch.no_grad():
        logits = model(torch.from_numpy(datum.tokens)[None]).logits[0].double()
    return logits.log_softmax(-1).gather(1, torch.from_numpy(datum.inputs["target_tokens"])[:, None])[:, 0].numpy()


def test_a_fresh_model_computes_what_the_base_does(trainer, base):
    trainer.create("m", _LORA)
    step = drawn.step()
    plain = transformers.AutoModelForCausalLM.from_pretrained(base)
    for logprobs, datum in zip(trainer.step("m", step).logprobs, step.data, strict=True):
        np.testing.assert_allclose(logprobs, _logprobs(plain, datum), atol=2e-6)


def test_a_saved_model_computes_the_same_in_peft(trainer, theirs, tmp_path):
    trainer.save(_trained(trainer, "m"), tmp_path / "v", optimizer=False)
    model, step = theirs(tmp_path / "v"), drawn.step()
    for logprobs, datum in zip(trainer.step("m", step).logprobs, step.data, strict=True):
        np.testing.assert_allclose(logprobs, _logprobs(model, datum), atol=2e-6)


def test_the_gradient_is_the_one_that_peft_gives(trainer, theirs, tmp_path):
    trainer.save(_trained(trainer, "m"), tmp_path / "v", optimizer=False)
    model, step = theirs(tmp_path / "v"), drawn.step(lengths=(6,))
    for name, each in model.named_parameters():
        each.requires_grad_("lora_" in name)
    logits = model(torch.from_numpy(step.data[0].tokens)[None]).logits[0].log_softmax(-1)
    p = logits.gather(1, torch.from_numpy(step.data[0].inputs["target_tokens"])[:, None])[:, 0]
    (-p * torch.from_numpy(step.data[0].inputs["weights"])).sum().backward()
    trainer.step("m", step)
    names = [name.replace(".weight", ".default.weight") for name in trainer._models["m"].adapter.named()]
    expected = torch.cat([dict(model.named_parameters())[name].grad.ravel() for name in names])
    torch.testing.assert_close(_gradients(trainer, "m"), expected, atol=1e-6, rtol=1e-5)


def test_the_adapter_folder_is_the_one_that_vllm_and_peft_read(trainer, tmp_path):
    trainer.create("m", Lora(rank=2, train_unembed=False))
    trainer.save("m", tmp_path / "v", optimizer=True)
    config = json.loads((tmp_path / "v" / "adapter_config.json").read_text())
    assert {each.name for each in (tmp_path / "v").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "manifest.json",
        "optimizer.safetensors",
    }
    assert config["target_modules"] == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (2, 32, 0.0)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_batch_gives_what_its_sequences_give_one_by_one(trainer, loss):
    whole = drawn.step(3, (5, 9, 1, 12, 9), loss=loss)
    for model in ("batch", "alone"):
        _trained(trainer, model)
    together = trainer.step("batch", whole)
    apart = [trainer.step("alone", replace(whole, data=[each])) for each in whole.data]
    for one, other in zip(together.logprobs, apart, strict=True):
        np.testing.assert_allclose(one, other.logprobs[0], atol=1e-6, rtol=0)
    assert together.metrics["loss:sum"] == pytest.approx(sum(each.metrics["loss:sum"] for each in apart), abs=1e-5)
    one, other = _gradients(trainer, "batch"), _gradients(trainer, "alone")
    assert (one - other).abs().max() <= 1e-6 * max(1, float(other.abs().max()))


def test_a_step_over_the_budget_is_divided_and_gives_the_same(trainer, monkeypatch):
    step = drawn.step(5, (7, 20, 3, 11, 2, 16))
    for model in ("one", "many"):
        _trained(trainer, model)
    together = trainer.step("one", step)
    monkeypatch.setattr(trainer._passes, "budget", 16)
    divided = trainer.step("many", step)
    for one, other in zip(together.logprobs, divided.logprobs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)
    torch.testing.assert_close(_gradients(trainer, "one"), _gradients(trainer, "many"), atol=1e-5, rtol=1e-5)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 200))
def test_passes_hold_every_sequence_once_within_the_budget(lengths, budget):
    passes = packed(lengths, budget)
    assert sorted(place for each in passes for place in each) == list(range(len(lengths)))
    assert all(len(each) == 1 or len(each) * max(lengths[place] for place in each) <= budget for each in passes)


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=12), min_size=1, max_size=6), st.integers(1, 200))
def test_shared_passes_hold_every_sequence_of_every_model_once_within_the_budget(lengths, budget):
    passes = dealt(lengths, budget)
    assert sorted((owner, place) for each in passes for owner, places in each for place in places) == [
        (owner, place) for owner, each in enumerate(lengths) for place in range(len(each))
    ]
    for each in passes:
        rows = [lengths[owner][place] for owner, places in each for place in places]
        assert len(rows) == 1 or len(rows) * max(rows) <= budget


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 200))
def test_a_model_alone_has_the_passes_that_it_has_without_others(lengths, budget):
    assert [places for ((_, places),) in dealt([lengths], budget)] == packed(lengths, budget)


def test_models_of_one_size_share_their_passes_in_equal_parts():
    assert dealt([[5] * 4] * 3, 60) == [[(n, [0, 1, 2, 3]) for n in range(3)]]


def test_gradients_of_several_steps_add_up_until_the_optimizer_takes_them(trainer):
    for model in ("twice", "once"):
        _trained(trainer, model)
    trainer.step("once", drawn.step(1))
    single = _gradients(trainer, "once")
    for _ in range(2):
        trainer.step("twice", drawn.step(1))
    torch.testing.assert_close(_gradients(trainer, "twice"), 2 * single, rtol=0, atol=0)
    trainer.optim("twice", _ADAM)
    with pytest.raises(Refused, match="there is no gradient: send forward_backward first"):
        trainer.optim("twice", _ADAM)


def test_a_forward_pass_alone_leaves_gradients_as_they_are(trainer):
    trainer.create("m", _LORA)
    outputs = trainer.step("m", drawn.step(forward_only=True))
    assert trainer._models["m"].pending == []
    for one, other in zip(outputs.logprobs, trainer.step("m", drawn.step()).logprobs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_several_targets_a_token_are_each_scored(trainer):
    _trained(trainer, "m")
    rng = np.random.default_rng(1)
    wide = [rng.integers(4, drawn.VOCABULARY, (length, columns)) for length, columns in ((5, 3), (2, 1), (7, 2))]
    weights = [rng.normal(size=each.shape).astype(np.float32) for each in wide]
    tokens = [rng.integers(4, drawn.VOCABULARY, len(each)) for each in wide]
    data = [Datum(t, {"target_tokens": y, "weights": w}) for t, y, w in zip(tokens, wide, weights, strict=True)]
    outputs = trainer.step("m", Step("cross_entropy", {}, data))
    gradient = _gradients(trainer, "m")
    trainer._models["m"].pending = []
    for place, (y, w) in enumerate(zip(wide, weights, strict=True)):
        for column in range(y.shape[1]):
            inputs = {"target_tokens": y[:, column], "weights": w[:, column]}
            alone = trainer.step("m", Step("cross_entropy", {}, [Datum(tokens[place], inputs)]))
            np.testing.assert_allclose(outputs.logprobs[place][:, column], alone.logprobs[0], atol=1e-6)
    torch.testing.assert_close(gradient, _gradients(trainer, "m"), atol=1e-5, rtol=1e-5)
    total = sum(float((-w * p).sum()) for w, p in zip(weights, outputs.logprobs, strict=True))
    assert outputs.metrics["loss:sum"] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(
    "params",
    [
        _ADAM,
        Adam(learning_rate=3e-3, weight_decay=0.1, grad_clip_norm=0.5),
        Adam(learning_rate=1e-3, beta1=0.5, beta2=0.9, eps=1e-6, grad_clip_norm=1e6),
    ],
)
def test_steps_are_torchs_adamw_bit_for_bit(trainer, params):
    trainer.create("m", _LORA)
    mine = [[each.clone().requires_grad_() for each in _weights(trainer, "m").values()] for _ in range(2)]
    theirs = [torch.optim.AdamW(each, fused=fused) for each, fused in zip(mine, (True, False), strict=True)]
    for seed in range(4):
        trainer.step("m", drawn.step(seed))
        numbers = replace(params, learning_rate=params.learning_rate / (seed + 1))
        for some, adam in zip(mine, theirs, strict=True):
            for each, gradient in zip(some, trainer._models["m"].pending, strict=True):
                each.grad = gradient.clone(memory_format=torch.contiguous_format)
            norm = torch.nn.utils.clip_grad_norm_(some, params.grad_clip_norm if params.grad_clip_norm > 0 else 1e30)
            adam.param_groups[0].update(
                lr=numbers.learning_rate,
                betas=(params.beta1, params.beta2),
                eps=params.eps,
                weight_decay=params.weight_decay,
            )
            adam.step()
        assert trainer.optim("m", numbers)["grad_norm:mean"] == float(norm)
    fused, plain = mine
    for one, bits, each in zip(_weights(trainer, "m").values(), fused, plain, strict=True):
        assert torch.equal(one, bits)
        torch.testing.assert_close(one, each.detach(), atol=1e-6, rtol=0)


def test_first_values_depend_on_the_seed_and_not_on_what_was_made_before(trainer, base):
    trainer.create("other", Lora(rank=3))
    trainer.create("m", _LORA)
    alone = TorchTrainer(base)
    alone.create("m", _LORA)
    assert _same(_weights(trainer, "m"), _weights(alone, "m"))
    trainer.create("m2", replace(_LORA, seed=8))
    assert not _same(_weights(trainer, "m"), _weights(trainer, "m2"))


def test_models_without_a_seed_differ_and_come_out_the_same_when_repeated(trainer):
    for model in ("a", "b"):
        trainer.create(model, Lora(rank=2))
    first = _weights(trainer, "a")
    trainer.create("a", Lora(rank=2))
    assert _same(first, _weights(trainer, "a"))
    assert not _same(first, _weights(trainer, "b"))


def test_creating_a_model_leaves_the_generators_of_the_process_alone(trainer):
    before = torch.random.get_rng_state()
    trainer.create("m", Lora())
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("lora", [Lora(rank=4), Lora(rank=2, train_mlp=False, train_unembed=False)])
def test_models_do_not_touch_each_other(trainer, lora):
    _trained(trainer, "mine")
    trainer.step("mine", drawn.step(1))
    before, gradient = _weights(trainer, "mine"), _gradients(trainer, "mine")
    _trained(trainer, "theirs", lora=lora)
    trainer.step("theirs", drawn.step(2))
    trainer.create("third", lora)
    trainer.unload("theirs")
    assert _same(before, _weights(trainer, "mine"))
    assert torch.equal(gradient, _gradients(trainer, "mine"))


def test_a_model_beside_others_trains_to_the_bits_that_it_has_alone(trainer, base):
    alone = TorchTrainer(base)
    alone.create("m", _LORA)
    for name in ("m", "noise"):
        trainer.create(name, replace(_LORA, rank=4 if name == "m" else 2))
    for seed in range(3):
        trainer.step("noise", drawn.step(seed + 50))
        for each in (alone, trainer):
            each.step("m", drawn.step(seed))
        trainer.optim("noise", _ADAM)
        for each in (alone, trainer):
            each.optim("m", _ADAM)
    assert _same(_weights(alone, "m"), _weights(trainer, "m"))


def _continued(trainer, model):
    for seed in range(3):
        trainer.step(model, drawn.step(seed, loss="ppo"))
        trainer.optim(model, Adam(learning_rate=1e-3, weight_decay=0.01, grad_clip_norm=1.0))
    return _weights(trainer, model)


def test_training_goes_on_bit_for_bit_from_what_was_saved_with_the_optimizer(trainer, base, tmp_path):
    trainer.save(_trained(trainer, "m"), tmp_path / "v", optimizer=True)
    other = TorchTrainer(base)
    other.load("m", tmp_path / "v", optimizer=True)
    assert _same(_weights(trainer, "m"), _weights(other, "m"))
    assert _same(_continued(trainer, "m"), _continued(other, "m"))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_optimizer_that_was_restored_has_its_state_where_torch_has_it(device):
    with FakeTensorMode(allow_non_fake_inputs=True):  # of which no GPU is needed
        made = [torch.empty(3, 2, device=device, requires_grad=True) for _ in range(2)]
        stepped, restored = (AdamW({"w": each}) for each in made)
        made[0].grad = torch.empty(3, 2, device=device)
        stepped._torch.step()
        restored.restore({name: each.cpu() for name, each in stepped.state().items()}, "saved")
        places = [
            {part: (each.device, each.dtype, each.shape) for part, each in adam._torch.state[weight].items()}
            for adam, weight in zip((stepped, restored), made, strict=True)
        ]
    assert places[0] == places[1]


def test_without_the_optimizer_training_goes_on_with_a_new_one(trainer, tmp_path):
    trainer.save(_trained(trainer, "m"), tmp_path / "v", optimizer=True)
    trainer.load("fresh", tmp_path / "v", optimizer=False)
    assert _same(_weights(trainer, "m"), _weights(trainer, "fresh"))
    assert not _same(_continued(trainer, "m"), _continued(trainer, "fresh"))


def test_a_model_that_never_took_a_step_is_saved_with_its_optimizer_too(trainer, tmp_path):
    trainer.create("m", _LORA)
    trainer.save("m", tmp_path / "v", optimizer=True)
    trainer.load("copy", tmp_path / "v", optimizer=True)
    assert _same(_continued(trainer, "m"), _continued(trainer, "copy"))


def test_a_checkpoint_without_an_optimizer_is_not_loaded_with_one(trainer, tmp_path):
    trainer.save(_trained(trainer, "m"), tmp_path / "v", optimizer=False)
    with pytest.raises(Refused, match="holds no optimizer"):
        trainer.load("m", tmp_path / "v", optimizer=True)


def test_torn_weights_are_refused_and_the_model_stays(trainer, tmp_path):
    trainer.save(_trained(trainer, "m"), tmp_path / "v", optimizer=True)
    before = _weights(trainer, "m")
    for name in ("optimizer.safetensors", "adapter_model.safetensors"):
        path = tmp_path / "v" / name
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(Refused, match="is torn or was changed"):
            trainer.load("m", tmp_path / "v", optimizer=True)
    assert _same(before, _weights(trainer, "m"))


def test_weights_of_another_base_are_refused(trainer, tmp_path):
    about = {"lora": {"rank": 4, "seed": 1, "train_mlp": True, "train_attn": True, "train_unembed": True}}
    named = {
        name: torch.zeros(each.shape[0], each.shape[1] + 1)
        for name, each in trainer._layers.fresh(_LORA, 0).named().items()
    }
    tensors.publish(tmp_path / "v", {"adapter_model.safetensors": named}, {}, about)
    with pytest.raises(Refused, match="do not fit this base model"):
        trainer.load("m", tmp_path / "v", optimizer=False)


def test_a_folder_of_other_weights_is_refused(trainer, tmp_path):
    tensors.publish(tmp_path / "v", {"model.safetensors": {"a": torch.zeros(1)}}, {}, {"kind": "full"})
    with pytest.raises(Refused, match="is not an adapter"):
        trainer.load("m", tmp_path / "v", optimizer=False)


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        (Lora(rank=0), r"lora_config\.rank: 0: pass 1 to 512"),
        (Lora(rank=10**9), r"lora_config\.rank: 1000000000"),
        (Lora(train_mlp=False, train_attn=False, train_unembed=False), "nothing would be trained"),
    ],
)
def test_adapters_that_cannot_be_are_refused(trainer, lora, message):
    with pytest.raises(Refused, match=message):
        trainer.create("m", lora)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (Adam(learning_rate=-1), r"adam_params\.learning_rate: -1: pass a number from 0"),
        (Adam(learning_rate=float("nan")), "learning_rate: nan"),
        (Adam(beta1=1.0), r"adam_params\.beta1: 1\.0: pass a number from 0 to below 1"),
        (Adam(eps=float("inf")), "eps: inf"),
        (Adam(weight_decay=-0.1), "weight_decay"),
        (Adam(grad_clip_norm=float("nan")), "grad_clip_norm: nan"),
    ],
)
def test_numbers_that_no_step_can_use_are_refused_and_gradients_stay(trainer, params, message):
    trainer.create("m", _LORA)
    trainer.step("m", drawn.step())
    with pytest.raises(Refused, match=message):
        trainer.optim("m", params)
    assert trainer.optim("m", _ADAM)["grad_norm:mean"] > 0


def _datum(tokens, targets=None):
    tokens = np.asarray(tokens)
    targets = tokens if targets is None else np.asarray(targets)
    return Datum(tokens, {"target_tokens": targets, "weights": np.ones(len(targets), np.float32)})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "data: is empty"),
        ([_datum(np.zeros(0, np.int64))], "model_input: has 0 tokens"),
        ([_datum(np.zeros(1025, np.int64))], "model_input: has 1025 tokens: pass 1 to 1024"),
        ([_datum([5, -1])], "model_input: holds a token outside of 0 to"),
        ([_datum([5, 5], [5, 100_000])], "target_tokens: holds a token outside of 0 to"),
        ([_datum([5, 6]), _datum([5, 6], [5, 6, 7])], r"target_tokens: has shape \[3\]"),
    ],
)
def test_data_that_do_not_fit_are_refused_before_any_gradient(trainer, data, message):
    trainer.create("m", _LORA)
    with pytest.raises(Refused, match=message):
        trainer.step("m", Step("cross_entropy", {}, data))
    assert trainer._models["m"].pending == []


def test_gradients_that_overflow_are_refused_and_those_before_stay(trainer):
    _trained(trainer, "m")
    trainer.step("m", drawn.step())
    before = _gradients(trainer, "m")
    good = drawn.datum(np.random.default_rng(0), 3, loss="ppo")
    bad = replace(good, inputs=dict(good.inputs) | {"logprobs": np.full(3, -1e5, np.float32)})
    with pytest.raises(Refused, match="forward_backward: importance_sampling overflowed"):
        trainer.step("m", Step("importance_sampling", {}, [good, bad]))
    assert torch.equal(before, _gradients(trainer, "m"))


def test_a_refused_optimizer_step_changes_nothing_so_that_a_replay_without_it_gives_the_same(trainer):
    _trained(trainer, "m")
    trainer.step("m", drawn.step())
    trainer._models["m"].pending[0][0, 0] = float("inf")
    before, state = _weights(trainer, "m"), trainer._models["m"].optimizer.state()
    state = {name: each.clone() for name, each in state.items()}
    with pytest.raises(Refused, match="the gradients overflowed: load a checkpoint"):
        trainer.optim("m", _ADAM)
    assert _same(before, _weights(trainer, "m"))
    assert _same(state, trainer._models["m"].optimizer.state())
    assert len(trainer._models["m"].pending) > 0


@pytest.mark.parametrize(
    ("params", "steps"),
    [
        (Adam(learning_rate=1e39), 0),
        (Adam(learning_rate=1e39), 2),
        (Adam(learning_rate=1e30, weight_decay=1e30), 2),
        (Adam(learning_rate=1e300, eps=1e-300), 2),
        (Adam(eps=0), 0),  # one of the two matrices has no gradient yet
    ],
)
def test_a_step_after_which_weights_would_be_no_numbers_is_refused_and_changes_nothing(trainer, params, steps):
    for each in ("m", "beside"):
        _trained(trainer, each, steps)
        trainer.step(each, drawn.step())
    before, state = _weights(trainer, "m"), trainer._models["m"].optimizer.state()
    state = {name: each.clone() for name, each in state.items()}
    with pytest.raises(Refused, match="optim_step: the weights would overflow: pass a smaller learning_rate"):
        trainer.optim("m", params)
    assert _same(before, _weights(trainer, "m"))
    assert _same(state, trainer._models["m"].optimizer.state())
    for each in ("m", "beside"):
        trainer.optim(each, _ADAM)
    assert _same(_weights(trainer, "m"), _weights(trainer, "beside"))


@pytest.mark.parametrize("params", [Adam(learning_rate=1e30), Adam(eps=1e-35), Adam(learning_rate=0, eps=0)])
def test_a_step_that_is_odd_and_leaves_numbers_is_taken(trainer, params):
    _trained(trainer, "m")
    trainer.step("m", drawn.step(4))
    for each in trainer._models["m"].pending:
        each.add_(1e-3)  # where a gradient and its moments are 0, what is divided by an eps of 0 is not a number
    assert trainer.optim("m", params)["grad_norm:mean"] > 0
    assert all(bool(each.isfinite().all()) for each in _weights(trainer, "m").values())


def test_gradients_whose_sum_overflows_are_refused_and_those_before_stay(trainer):
    _trained(trainer, "m")
    trainer.step("m", drawn.step())
    before = _gradients(trainer, "m")
    trainer._models["m"].pending[0][0, 0] = 1.8e19
    large = drawn.step()
    for each in large.data:
        each.inputs["weights"][:] = 1e19
    with pytest.raises(Refused, match="cross_entropy overflowed"):
        trainer.step("m", large)
    after = _gradients(trainer, "m")
    after[0] = before[0]
    assert torch.equal(before, after)


def test_a_model_that_is_not_there_is_named(trainer):
    for call in (lambda: trainer.step("gone", drawn.step()), lambda: trainer.optim("gone", _ADAM)):
        with pytest.raises(Refused, match="model_id: gone: there is no such model"):
            call()


def test_forgetting_a_model_twice_is_nothing(trainer):
    trainer.create("m", _LORA)
    trainer.unload("m")
    trainer.unload("m")
    with pytest.raises(Refused, match="no such model"):
        trainer.optim("m", _ADAM)


def _mixed(trainer, prefix):
    """Three models of different shapes, and a step for each."""
    loras = (Lora(rank=4, seed=1), Lora(rank=2, seed=2, train_mlp=False), Lora(rank=3, seed=3, train_attn=False))
    models = [_trained(trainer, f"{prefix}{number}", lora=lora) for number, lora in enumerate(loras)]
    losses = ("cross_entropy", "ppo", "gspo")
    return [
        (model, drawn.step(n, (4 + n, 9, 2), loss=loss))
        for n, (model, loss) in enumerate(zip(models, losses, strict=True))
    ]


def _alike(trainer, prefix):
    """Four models of one shape, and a step of the same sizes for each."""
    models = [_trained(trainer, f"{prefix}{number}", lora=Lora(rank=4, seed=number)) for number in range(4)]
    return [(model, drawn.step(n, (4, 9, 2), loss="ppo")) for n, model in enumerate(models)]


@pytest.mark.parametrize("budget", [8192, 20])
@pytest.mark.parametrize("made", [_mixed, _alike], ids=["mixed", "alike"])
def test_steps_of_several_models_in_shared_passes_give_what_they_give_alone(trainer, monkeypatch, budget, made):
    monkeypatch.setattr(trainer._passes, "budget", budget)
    shared, alone = made(trainer, "shared"), made(trainer, "alone")
    answers = trainer.steps(shared)
    for (model, _), (other, step), (answer, _) in zip(shared, alone, answers, strict=True):
        expected = trainer.step(other, step)
        for one, two in zip(answer.logprobs, expected.logprobs, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-6, rtol=0)
        assert answer.metrics["loss:sum"] == pytest.approx(expected.metrics["loss:sum"], abs=1e-5)
        one, two = _gradients(trainer, model), _gradients(trainer, other)
        assert (one - two).abs().max() <= 1e-6 * max(1, float(two.abs().max()))


@pytest.mark.parametrize("made", [_mixed, _alike], ids=["mixed", "alike"])
def test_a_step_that_shared_passes_runs_again_to_the_same_bits_without_the_others(trainer, base, tmp_path, made):
    shared = made(trainer, "m")
    for model, _ in shared:
        trainer.save(model, tmp_path / model, optimizer=True)
    answers = trainer.steps(shared)
    other = TorchTrainer(base)
    for (model, step), (answer, layout) in zip(shared, answers, strict=True):
        other.load(model, tmp_path / model, optimizer=True)
        again = other.again(model, step, layout)
        assert again.metrics == answer.metrics
        assert all(np.array_equal(one, two) for one, two in zip(again.logprobs, answer.logprobs, strict=True))
        assert torch.equal(_gradients(other, model), _gradients(trainer, model))


def test_a_layout_of_another_step_is_a_fault(trainer):
    (_, layout), _ = trainer.steps(_alike(trainer, "m")[:2])
    with pytest.raises(ValueError, match="not one of this step"):
        trainer.again("m0", drawn.step(lengths=(3,)), layout)


def test_a_step_that_fails_among_others_spoils_none_of_them(trainer):
    work = _mixed(trainer, "m")
    bad = drawn.datum(np.random.default_rng(0), 3, loss="ppo")
    bad = replace(bad, inputs=dict(bad.inputs) | {"logprobs": np.full(3, -1e5, np.float32)})
    overflow = (work[1][0], Step("importance_sampling", {}, [bad]))
    only = (work[2][0], replace(work[2][1], forward_only=True))
    answers = trainer.steps([work[0], overflow, ("gone", drawn.step()), only])
    assert "overflowed" in str(answers[1])
    assert answers[3][1] is None  # it shared no pass, for it has no gradient
    assert "no such model" in str(answers[2])
    gradient = _gradients(trainer, work[0][0])
    assert trainer._models[work[1][0]].pending == trainer._models[work[2][0]].pending == []
    trainer._models[work[0][0]].pending = []
    trainer.step(*work[0])
    torch.testing.assert_close(gradient, _gradients(trainer, work[0][0]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_before_a_model_is_read(tmp_path, device):
    with pytest.raises(Refused, match=f"device: {device}: .*: pass cpu"):
        TorchTrainer(tmp_path, device=device)


def test_more_targets_for_a_token_than_there_are_tokens_are_refused(trainer):
    trainer.create("m", _LORA)
    inputs = {"target_tokens": np.full((2, 200), 5), "weights": np.ones((2, 200), np.float32)}
    with pytest.raises(Refused, match="target_tokens: has more columns than there are tokens"):
        trainer.step("m", Step("cross_entropy", {}, [Datum(np.array([4, 5]), inputs)]))


def test_a_fault_in_shared_passes_leaves_all_models_as_they_were(trainer, monkeypatch):
    work = [(_trained(trainer, f"m{number}"), drawn.step(number)) for number in range(3)]
    calls = []

    def short(one, other):
        calls.append(one)
        if len(calls) == 2:
            raise MemoryError
        return added(one, other)

    monkeypatch.setattr("muster.sessions.engines.trainer.added", short)
    with pytest.raises(MemoryError):
        trainer.steps(work)
    assert [trainer._models[model].pending for model, _ in work] == [[], [], []]
