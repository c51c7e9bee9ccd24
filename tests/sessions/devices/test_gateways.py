"""Gateways whose engines take turns on one device, into which one of them fits, with the real client."""

import os
import signal
import threading
import warnings
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import tinker
from tinker import types

from tests.sessions import gateways
from tests.sessions.devices.houses import House, missing

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that transformers looks for
    from muster.sessions.demo import loop, tiny
    from muster.sessions.engines.trainer import ADAPTER, TorchTrainer
from muster.sessions.seam import Adam, Datum, Lora, Step

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no budget of memory can be enforced here: {missing()}")
_LIMIT = 224  # MiB; an engine has 72 of its base model and up to 50 for its passes
_TOKENS = [[5, 9, 12, 30 + number, 7, 41] for number in range(4)]
_RATE = 1e-3


class Gateway(gateways.Torch):
    """A Gateway with a larger model."""

    def made(self, folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tiny.make(folder / "tiny", hidden=1024)

    def sharing(self, socket, *engines):
        self.ENGINES = ("--device-lease", str(socket), *engines)
        return self


@contextmanager
def _shared(folder, *names, leaving="120", limit=_LIMIT):
    """Yield a device and Gateways on it."""
    with ExitStack() as stack:
        house = House(folder, "--turn", "5", "--leaving", leaving, "--freeing", "5")
        house.limit = limit
        stack.enter_context(house)
        yield house, [stack.enter_context(Gateway(folder / each).sharing(house.socket)) for each in names]


def _datum(tokens):
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)},
    )


def _trained(gateway, steps):
    """Train a model with a sample after each step, save it, and return its weights."""
    with tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service:
        client = service.create_lora_training_client(base_model=str(gateway.base), rank=8, seed=1).result()
        for _ in range(steps):
            passed = client.forward_backward([_datum(each) for each in _TOKENS], "cross_entropy")
            stepped = client.optim_step(types.AdamParams(learning_rate=_RATE))
            passed.result()
            stepped.result()
            sampler = client.save_weights_and_get_sampling_client().result()
            prompt = types.ModelInput.from_ints(_TOKENS[0][:3])
            assert sampler.sample(prompt, 2, types.SamplingParams(max_tokens=3, seed=1)).result().sequences
        client.save_state("end").result()
        (saved,) = {
            each.read_bytes() for each in gateway.folder.glob(f"weights/*/*/{ADAPTER}")
        }  # the last alone is kept
        return saved


def _undisturbed(folder, base, steps):
    """Return the weights of the same steps of a trainer that has a device of its own."""
    trainer = TorchTrainer(base)
    trainer.create("m", Lora(rank=8, seed=1))
    data = [
        Datum(
            np.array(each[:-1], np.int64),
            {"target_tokens": np.array(each[1:], np.int64), "weights": np.ones(len(each) - 1, np.float32)},
        )
        for each in _TOKENS
    ]
    for _ in range(steps):
        trainer.step("m", Step("cross_entropy", {}, data))
        trainer.optim("m", Adam(learning_rate=_RATE))
    trainer.save("m", folder / "undisturbed", optimizer=False)
    return (folder / "undisturbed" / ADAPTER).read_bytes()


def _at_once(does):
    """Run functions at the same time, and return what they give."""
    out = {}

    def run(name, do):
        try:
            out[name] = do()
        except Exception as error:  # noqa: BLE001  # the test looks at it
            out[name] = error

    threads = [threading.Thread(target=run, args=each) for each in does.items()]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return out


def test_two_gateways_on_one_device_train_to_the_bits_of_one_that_has_it_alone(tmp_path):
    with _shared(tmp_path, "a", "b") as (house, (a, b)):
        got = _at_once({"a": lambda: _trained(a, 2), "b": lambda: _trained(b, 2)})
        status, log = house.status(), house.log()
    assert got["a"] == got["b"] == _undisturbed(tmp_path, a.base, 2)
    assert status["turn"] >= 2
    assert "is ended" not in log


@pytest.mark.thorough
def test_both_learn_to_a_mean_reward_of_one(tmp_path):
    def learned(gateway):
        with tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service:
            return [step.reward for step in loop.train(service, str(gateway.base), lambda _: None)]

    with _shared(tmp_path, "a", "b", limit=384) as (house, (a, b)):  # one has up to 310
        got = _at_once({"a": lambda: learned(a), "b": lambda: learned(b)})
        status, log = house.status(), house.log()
    assert [rewards[-1] for rewards in got.values()] == [1.0, 1.0], got
    assert status["turn"] >= 3  # more where the machine is slower
    assert "is ended" not in log


@pytest.mark.thorough
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_holders_that_are_killed_or_stopped_lose_the_device_and_all_train_to_the_same_bits(tmp_path, how):
    """Which is a holder at a moment is chance; each time one is hit, whatever it does."""
    with _shared(tmp_path, "a", "b", leaving="10") as (house, (a, b)):
        over, hits = threading.Event(), []

        def hit():
            while len(hits) < 3 and not over.wait(4):
                holder = house.status()["holder"]
                if holder is not None:
                    os.kill(int(holder.split(".")[1]), how)
                    if house.status()["holder"] == holder or how is signal.SIGKILL:
                        hits.append(holder)
                    else:  # it had left meanwhile: an engine that hangs without the device is not the agent's to end
                        os.kill(int(holder.split(".")[1]), signal.SIGCONT)

        thread = threading.Thread(target=hit)
        thread.start()
        got = _at_once({"a": lambda: _trained(a, 6), "b": lambda: _trained(b, 6)})
        over.set()
        thread.join()
    assert hits
    assert got["a"] == got["b"] == _undisturbed(tmp_path, a.base, 6)


@contextmanager
def _with_liar(folder, *engines):
    """Yield a device, a Gateway one of whose engines lies, and an honest one."""
    with ExitStack() as stack:
        house = House(folder, "--turn", "5", "--leaving", "120", "--freeing", "3")
        house.limit = _LIMIT
        stack.enter_context(house)
        liar = stack.enter_context(Gateway(folder / "liar").sharing(house.socket, *engines))
        yield house, liar, stack.enter_context(Gateway(folder / "honest").sharing(house.socket))


@pytest.mark.thorough
def test_a_trainer_that_lies_fails_alone(tmp_path):
    with _with_liar(tmp_path, "--trainer", "tests.sessions.devices.liars:Trainer") as (house, liar, honest):
        got = _at_once({"liar": lambda: _trained(liar, 2), "honest": lambda: _trained(honest, 2)})
    assert got["honest"] == _undisturbed(tmp_path, honest.base, 2)
    assert "engine trainer" in house.log()


@pytest.mark.thorough
def test_a_sampler_that_answers_from_its_first_weights_ends_its_run_alone(tmp_path):
    def until_it_fails():
        with tinker.ServiceClient(base_url=liar.url, api_key=liar.key) as service:
            client = service.create_lora_training_client(base_model=str(liar.base), rank=8, seed=1).result()
            client.save_weights_and_get_sampling_client().result()
            while True:
                for _ in range(3):
                    client.forward_backward([_datum(each) for each in _TOKENS], "cross_entropy")
                    client.optim_step(types.AdamParams(learning_rate=0.5)).result()
                sampler = client.save_weights_and_get_sampling_client().result()
                asked = types.ModelInput.from_ints(_TOKENS[0][:3])
                for seed in range(4):
                    sampler.sample(asked, 2, types.SamplingParams(max_tokens=12, seed=seed)).result()

    with _with_liar(tmp_path, "--sampler", "tests.sessions.devices.liars:Sampler") as (_, liar, honest):
        got = _at_once({"liar": until_it_fails, "honest": lambda: _trained(honest, 2)})
    assert "the sampler answers from other weights than those it was asked for" in str(got["liar"])
    assert got["honest"] == _undisturbed(tmp_path, honest.base, 2)
