"""Gateways whose engines take turns on one GPU, with the real client."""

import os
import re
import signal
import threading
import warnings
from contextlib import ExitStack, contextmanager, suppress

import pytest
import tinker

from tests.sessions import gateways
from tests.sessions.devices.houses import House
from tests.sessions.gpu.gpus import GPU, WHY, Watch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that transformers looks for
    from muster.sessions.demo import loop, tiny

pytestmark = pytest.mark.skipif(not GPU, reason=WHY)
_OPTIONS = ("--trainer-option", "device=cuda", "--sampler-option", "device=cuda")


class Gateway(gateways.Torch):
    """A Gateway on a GPU, with a model of 1.2 GB, which is more than an engine may keep there while it is away."""

    def made(self, folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tiny.make(folder / "tiny", hidden=4096)


@contextmanager
def _shared(folder, *names, more=()):
    """Yield a GPU, Gateways on it, and who has had memory there."""
    with ExitStack() as stack:
        house = stack.enter_context(House(folder, "--turn", "2", "--leaving", "20", "--freeing", "5", gpu=GPU))
        watch = stack.enter_context(Watch())
        made = [Gateway(folder / each) for each in names]
        for number, each in enumerate(made):
            each.ENGINES = ("--device-lease", str(house.socket), *_OPTIONS, *(more if number == 0 else ()))
            stack.enter_context(each)
        yield house, watch, made


def _learned(gateway, rewards):
    with tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service:
        loop.train(service, str(gateway.base), lambda step: rewards.append(step.reward))


@contextmanager
def _learning(made):
    """Have all learn at once, and yield their rewards as they come; at the end all have ended."""
    rewards = {each: [] for each in made}
    threads = [threading.Thread(target=_learned, args=pair) for pair in rewards.items()]
    for each in threads:
        each.start()
    yield rewards
    for each in threads:
        each.join()


def _is_whole(rewards):
    return len(rewards) == 10 and max(rewards) == 1.0 and rewards[-1] > 0.95  # as on CPUs, where it is 0.98 at times


def test_two_gateways_on_one_gpu_learn_to_a_mean_reward_of_one_and_never_two_engines_have_memory(tmp_path):
    with _shared(tmp_path, "a", "b") as (house, watch, made):
        with _learning(made) as rewards:
            pass
        status, log = house.status(), house.log()
    assert all(_is_whole(each) for each in rewards.values()), rewards
    assert status["turn"] >= 4
    assert "is ended" not in log
    assert watch.most == 1
    assert len(watch.all) == 4


def test_holders_and_the_agent_are_killed_and_both_learn_as_if_nothing_had_been(tmp_path):
    with _shared(tmp_path, "a", "b") as (house, watch, made):
        with _learning(made) as rewards:
            for how, step in ((signal.SIGKILL, 3), (signal.SIGSTOP, 5)):
                house.until(lambda _, step=step: any(len(each) >= step for each in rewards.values()), 240)
                holder = house.until(lambda status: status["holder"] is not None)["holder"]
                os.kill(int(holder.split(".")[1]), how)
            house.until(lambda _: any(len(each) >= 7 for each in rewards.values()), 240)
            house.agent.send(signal.SIGKILL)
            house.agent.ended()
            house.start()
        log = house.log()
    assert all(_is_whole(each) for each in rewards.values()), rewards
    assert re.search("is ended", log)
    assert watch.most == 1


def test_a_trainer_that_keeps_its_memory_is_ended_each_time_and_the_other_gateway_learns(tmp_path):
    lies = ("--trainer", "tests.sessions.devices.liars:Trainer")
    with _shared(tmp_path, "liar", "honest", more=lies) as (house, watch, (liar, honest)):
        thread = threading.Thread(target=lambda: _attempted(liar), daemon=True)
        thread.start()
        rewards = []
        _learned(honest, rewards)
        log = house.log()
    assert _is_whole(rewards), rewards
    assert "is ended" in log
    assert watch.most == 1


def _attempted(gateway):
    with suppress(Exception):  # its trainer is ended again and again
        _learned(gateway, [])
