"""An agent with engines as processes, whose device is a budget of memory that the kernel enforces."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys

import pytest

from muster.sessions.devices import processes
from muster.sessions.devices.lines import LONGEST
from muster.sessions.engines.options import REFUSED
from tests.sessions.devices.houses import LIMIT, ROOT, House, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no budget of memory can be enforced here: {missing()}")


@pytest.fixture
def house(tmp_path):
    with House(tmp_path) as made:
        yield made


def test_engines_of_two_sessions_take_turns_on_memory_into_which_one_of_them_fits(house):
    one, other = house.engine("a"), house.engine("b")
    one.tell("hold")
    one.told("holds")
    other.tell("hold")
    for _ in range(2):
        one.told("away")
        other.told("holds")
        one.tell("hold")
        other.told("away")
        one.told("holds")
        other.tell("hold")
    assert house.status()["turn"] >= 4


def test_an_engine_keeps_its_memory_while_nobody_waits(house):
    one = house.engine("a")
    house.engine("b")
    for _ in range(3):
        one.tell("hold")
        one.told("holds")
        one.tell("done")
        house.until(lambda status: status["phase"] == "idle")
    assert not one.says("away")


@pytest.mark.parametrize("how", ["killed", "stopped", "lying"])
def test_a_holder_that_is_killed_hangs_or_lies_loses_the_device_and_the_next_one_gets_it(house, how):
    one, other = house.engine("a", *(["lies"] if how == "lying" else [])), house.engine("b")
    one.tell("hold")
    one.told("holds")
    if how != "lying":
        one.send(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    other.tell("hold")
    assert one.ended() == -signal.SIGKILL
    other.told("holds")
    status = house.status()
    assert status["session"] == "b"
    assert status["ending"] == []


def test_an_engine_that_needs_more_than_the_device_has_is_ended_by_the_kernel_and_the_others_go_on(house):
    one, other = house.engine("a", size=LIMIT + 40), house.engine("b")
    one.tell("hold")
    assert one.ended() == -signal.SIGKILL
    other.tell("hold")
    other.told("holds")


def test_an_engine_that_is_cut_off_while_it_holds_is_ended(house, tmp_path):
    other = house.engine("b")
    script = (
        "import json, os, socket, sys, time\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile('rb')\n"
        's.sendall(b\'{"join": {"session": "a", "role": "raw"}}\\n{"ask": true}\\n\')\n'
        "while b'grant' not in f.readline(): pass\n"
        "f.close(); s.close(); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(house.socket)]) as cut:
        other.tell("hold")
        assert cut.wait(60) == -signal.SIGKILL
    other.told("holds")


def test_an_agent_that_is_killed_is_followed_by_one_that_waits_for_each_engine_and_ends_those_that_hang(house):
    one, other, third = house.engine("a"), house.engine("b"), house.engine("c")
    one.tell("hold")
    one.told("holds")
    third.send(signal.SIGSTOP)
    house.agent.send(signal.SIGKILL)
    house.agent.ended()
    house.start()
    one.told("away")
    other.tell("hold")
    assert third.ended() == -signal.SIGKILL
    other.told("holds")
    assert set(house.status()["engines"].values()) == {"a", "b"}


def test_engines_that_have_nothing_to_do_join_the_next_agent_by_themselves_and_none_is_ended(house):
    one, other = house.engine("a"), house.engine("b")
    one.tell("hold")
    one.told("holds")
    one.tell("leave")
    one.told("away")
    house.agent.send(signal.SIGKILL)
    house.agent.ended()
    house.start()
    status = house.until(lambda status: status["phase"] == "free")
    assert set(status["engines"].values()) == {"a", "b"}
    assert one.process.poll() is other.process.poll() is None


def test_a_second_agent_at_a_socket_ends_with_a_sentence_and_changes_nothing(house):
    command = [
        "-m",
        "muster.sessions.devices.agent",
        "--device",
        f"budget:{house.name}:1",
        "--socket",
        str(house.socket),
    ]
    ended = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.endswith("another agent serves it: end that one first\n")
    one = house.engine("a")  # and the limit is still that of the first
    one.tell("hold")
    one.told("holds")


def test_a_socket_is_of_its_owner_alone(house):
    assert stat.S_IMODE(house.socket.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"no json\n", "is not JSON"),
        (b"[" * 3000 + b"\n", "is not JSON"),
        (b'{"ask": true}\n', "send join first"),
        (b'{"join": 7}\n', "is not an object"),
        (b'{"join": {"session": "a/b", "role": "x"}}\n', "join.session: 'a/b'"),
        (b'{"join": {"session": "a", "role": "x", "weight": 1e9}}\n', "join.weight: 1000000000.0"),
        (b'{"join": {"session": "a", "role": "x", "host": -1}}\n', "join.host: -1"),
        (b'{"join": {"session": "a", "role": "x"}}\n{"fly": true}\n', "'fly' is not a word"),
        (b"x" * (LONGEST + 1), "limit"),
    ],
)
def test_what_is_no_line_of_the_protocol_is_refused_and_the_others_go_on(house, sent, told):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(house.socket))
        connection.sendall(sent)
        with connection.makefile("rb") as file:
            assert told in json.loads(file.readlines()[-1])["refused"]
    house.until(lambda status: status["phase"] == "free")


def test_a_process_joins_once(house):
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        for each in (one, other):
            each.connect(str(house.socket))
            each.sendall(b'{"join": {"session": "a", "role": "x"}}\n')
            with each.makefile("rb") as file:
                word, value = next(iter(json.loads(file.readline()).items()))
            assert word == ("joined" if each is one else "refused"), value


def test_engines_keep_no_more_host_memory_than_there_is(tmp_path):
    with House(tmp_path, "--host", "1") as house, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(house.socket))
        connection.sendall(b'{"join": {"session": "a", "role": "x", "host": 1048577}}\n')
        with connection.makefile("rb") as file:
            assert "would keep 1048577 bytes" in json.loads(file.readline())["refused"]


def test_a_process_that_has_the_number_of_another_is_not_taken_for_it():
    start = processes.started(os.getpid())
    found = processes.opened(os.getpid(), start)
    assert (found.pid, found.start) == (os.getpid(), start)
    found.close()
    assert processes.opened(os.getpid(), start + 1) is None


def _served(house, folder, *options):
    """Return how `serve` ends with engines that are a table."""
    base = folder / "base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    where = ("--root", str(folder / "state"), "--base", str(base), "--port", "0", "--device-lease", str(house.socket))
    command = [sys.executable, "-m", "muster.sessions.cli", "serve", *where, *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)


def test_an_engine_that_cannot_leave_gets_no_device_to_share(house, tmp_path):
    pytest.importorskip("tinker")
    ended = _served(house, tmp_path, "--trainer", "tests.sessions.bigram:Trainer")
    assert ended.returncode == 2
    assert "--device-lease: this engine cannot give its memory up: give it a device of its own" in ended.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--full", "--ranks", "2"), "--ranks 2 need devices of their own"),
        (("--device-weight", "0"), "'0' is not a number from 0.01 to 100"),
    ],
)
def test_serve_refuses_what_cannot_take_turns(house, tmp_path, options, told):
    pytest.importorskip("tinker")
    ended = _served(house, tmp_path, *options)
    assert ended.returncode == 2
    assert told in ended.stderr


def test_an_engine_at_a_port_waits_for_the_device_although_nobody_writes_to_it(house, tmp_path):
    pytest.importorskip("torch")
    one = house.engine("a")
    one.tell("hold")
    one.told("holds")
    (tmp_path / "token").write_text("of an engine " * 4)
    where = ("--base", str(tmp_path), "--port", "0", "--token", str(tmp_path / "token"))
    command = ["-m", "muster.sessions.engines.process", *where, "--trainer", "tests.sessions.bigram:Trainer"]
    command += ["--device-lease", str(house.socket), "--device-session", "b"]
    ended = subprocess.run(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert "this engine cannot give its memory up" in ended.stderr
    assert ended.returncode == REFUSED
    one.told("away")  # for it, which then could not be made
