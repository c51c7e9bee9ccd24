"""A server that ends by itself has failed; one that was asked to end has not."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster_weights.sampler import deaths
from tests.support.waits import until

WEIGHTS = Path(__file__).parents[2] / "images" / "weights"


@pytest.fixture
def supervised(tmp_path):
    """Start a program under the supervisor; its end is the container's message."""
    (tmp_path / "message").touch()
    environment = {**os.environ, "PYTHONPATH": str(WEIGHTS), "MUSTER_TERMINATION_LOG": str(tmp_path / "message")}
    started = []

    def start(program):
        command = [sys.executable, "-m", "muster_weights.sampler.supervise", sys.executable, "-u", "-c", program]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def gone(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_server_whose_engine_is_dead_ends_while_a_request_still_waits(monkeypatch):
    monkeypatch.setattr(deaths, "_watched", [])
    engine, ended, said = SimpleNamespace(errored=False), threading.Event(), []
    deaths.watch(engine, end=lambda reason: said.append(reason) or ended.set(), pause=0.001, grace=0)
    deaths.watch(engine, end=said.append, pause=0.001, grace=0)
    engine.errored = True
    assert ended.wait(60)
    assert len(said) == 1
    assert "engine is dead" in said[0]


def test_a_server_that_ends_politely_by_itself_ends_with_1_and_a_reason(supervised, tmp_path):
    assert supervised("pass").wait(60) == 1
    assert "vLLM ended by itself" in (tmp_path / "message").read_text()


def test_the_code_of_a_server_that_fails_stays(supervised, tmp_path):
    assert supervised("raise SystemExit(7)").wait(60) == 7
    assert (tmp_path / "message").read_text() == ""


def test_a_server_that_a_signal_killed_ends_with_128_and_its_number(supervised):
    assert supervised("import os; os.kill(os.getpid(), 9)").wait(60) == 137


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_asked_to_end_ends_with_its_own_code(supervised, number):
    polite = f"import signal; signal.signal({int(number)}, lambda *_: exit(0)); print('ready'); signal.pause()"
    server = supervised(polite)
    assert server.stdout.readline() == "ready\n"
    server.send_signal(number)
    assert server.wait(60) == 0


async def test_a_server_does_not_outlive_its_supervisor(supervised):
    server = supervised("import os, signal; print(os.getpid()); signal.pause()")
    child = int(server.stdout.readline())
    server.kill()
    await until(lambda: gone(child))
