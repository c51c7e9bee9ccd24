"""An agent with engines as processes, whose device is a GPU that nothing but the lease shares."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from muster.sessions.devices.memory import DeviceError, Nvidia
from tests.sessions.devices.houses import House
from tests.sessions.gpu.gpus import GPU, WHY, Watch

pytestmark = pytest.mark.skipif(not GPU, reason=WHY)
_SIZE = 1536  # MiB of an engine, beside its context
_HAS = "import sys, torch; kept = torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device='cuda'); "
_HAS += "torch.cuda.synchronize(); print('has', flush=True); sys.stdin.readline()"


@pytest.fixture
def house(tmp_path):
    with House(tmp_path, "--leaving", "10", "--freeing", "3", gpu=GPU) as made:
        yield made


@contextmanager
def _process(size):
    """Yield a process that has memory on the GPU, in MiB."""
    command = [sys.executable, "-c", _HAS, str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout.readline() == "has\n"
        yield made
        made.kill()


def test_a_process_that_has_memory_is_a_user_and_one_that_has_a_context_alone_is_none():
    with _process(1) as small, _process(_SIZE) as large:
        assert Nvidia(GPU).users({small.pid: "small", large.pid: "large"}) == {"large"}
        assert Nvidia(GPU, floor=0).users({small.pid: "small", large.pid: "large"}) == {"small", "large"}
        assert Nvidia(GPU).users({os.getpid(): "parent"}) == {"parent"}
    assert Nvidia(GPU, floor=0).users({}) == frozenset()


def test_a_gpu_that_is_not_there_is_told():
    with pytest.raises(DeviceError, match="nvidia-smi cannot tell who has memory"):
        Nvidia("GPU-00000000-0000-0000-0000-000000000000").open()


def test_engines_of_two_sessions_take_turns_and_never_two_have_memory(house):
    one, other = house.engine("a", size=_SIZE), house.engine("b", size=_SIZE)
    with Watch() as watch:
        one.tell("hold")
        one.told("holds")
        other.tell("hold")
        for _ in range(3):
            one.told("away")
            other.told("holds")
            one.tell("hold")
            other.told("away")
            one.told("holds")
            other.tell("hold")
        assert house.status()["turn"] >= 6
    assert watch.most == 1
    assert watch.all == {f"pid {one.process.pid}", f"pid {other.process.pid}"}


@pytest.mark.parametrize("how", ["killed", "stopped", "lying"])
def test_a_holder_that_is_killed_hangs_or_lies_loses_the_gpu_and_the_next_one_gets_it(house, how):
    one = house.engine("a", *(["lies"] if how == "lying" else []), size=_SIZE)
    other = house.engine("b", size=_SIZE)
    with Watch() as watch:
        one.tell("hold")
        one.told("holds")
        if how != "lying":
            one.send(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        other.tell("hold")
        assert one.ended() == -signal.SIGKILL
        other.told("holds")
    assert watch.most == 1
    assert house.status()["session"] == "b"


def test_an_engine_that_takes_memory_without_the_lease_is_ended_and_the_holder_goes_on(house):
    one, thief = house.engine("a", size=_SIZE), house.engine("b", size=_SIZE)
    one.tell("hold")
    one.told("holds")
    thief.tell("steal")
    assert thief.ended() == -signal.SIGKILL
    assert house.status()["session"] == "a"
    assert one.process.poll() is None


def test_a_process_that_is_no_engine_is_left_alone_and_nobody_gets_the_gpu_until_it_has_gone(house):
    one = house.engine("a", size=_SIZE)
    one.tell("hold")
    one.told("holds")
    with _process(_SIZE) as stranger:
        one.tell("leave")
        one.told("away")
        house.until(lambda _: f"pid {stranger.pid} has memory on the device and is not an engine" in house.log())
        one.tell("hold")
        assert house.status()["phase"] == "verifying"
        assert stranger.poll() is None
    one.told("holds")


def test_an_agent_that_is_killed_is_followed_by_one_that_grants_nothing_before_the_memory_is_free(house):
    one, other = house.engine("a", size=_SIZE), house.engine("b", size=_SIZE)
    with Watch() as watch:
        one.tell("hold")
        one.told("holds")
        house.agent.send(signal.SIGKILL)
        house.agent.ended()
        house.start()
        one.told("away")
        other.tell("hold")
        other.told("holds")
    assert watch.most == 1
