from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from e2e.cluster import ports, processes
from e2e.cluster.errors import ClusterError
from e2e.cluster.places import Places

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)",
]


def reaped(process):
    process.wait(timeout=10)


def test_a_started_component_is_found_by_its_marks_alone(where):
    process = processes.start(where, "sleeper", SLEEP)
    (where.state / "components" / "sleeper.json").unlink()

    assert processes.running(where) == {process.pid: "sleeper"}

    processes.end(where, "sleeper", kill=True)
    reaped(process)


def test_a_started_component_is_found_from_the_first_moment_on(where, monkeypatch):
    read, early = processes._marks, iter(range(3))

    def late(process):
        marks = read(process)
        return {} if marks and next(early, None) is not None else marks

    monkeypatch.setattr(processes, "_marks", late)

    process = processes.start(where, "sleeper", SLEEP)

    assert processes.running(where) == {process.pid: "sleeper"}
    processes.end(where, "sleeper", kill=True)
    reaped(process)


def test_ending_one_component_leaves_the_others(where):
    first, second = (processes.start(where, name, SLEEP) for name in ("first", "second"))

    processes.end(where, "first", kill=True)

    assert processes.running(where) == {second.pid: "second"}
    reaped(first)
    processes.end_all(where)
    reaped(second)


def test_another_clusters_processes_are_left_alone(where, tmp_path):
    other = Places(tmp_path / "other")
    other.make()
    process = processes.start(other, "sleeper", SLEEP)

    processes.end_all(where)

    assert processes.running(other) == {process.pid: "sleeper"}
    processes.end_all(other)
    reaped(process)


def test_what_a_component_started_ends_with_it(where):
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP[2]!r}])"
    process = processes.start(where, "parent", [sys.executable, "-c", nested])
    assert processes.running(where)

    processes.end_all(where)

    assert processes.running(where) == {}
    reaped(process)


def test_a_component_that_ignores_the_polite_signal_is_killed(where, monkeypatch):
    monkeypatch.setattr(processes, "_PATIENCE", 0.1)
    process = processes.start(where, "stubborn", STUBBORN)
    while "on" not in where.log("stubborn").read_text():
        assert process.poll() is None

    processes.end(where, "stubborn")

    assert processes.running(where) == {}
    reaped(process)


def test_a_component_starts_again_with_its_command_and_what_is_added(where):
    show = [sys.executable, "-c", "import os; print(os.environ['KEPT'], os.environ.get('ADDED'))"]
    reaped(processes.start(where, "shower", show, {"KEPT": "kept"}))

    reaped(processes.again(where, "shower", {"ADDED": "added"}))

    assert where.log("shower").read_text().splitlines() == ["kept None", "kept added"]
    assert "added" not in (where.state / "components" / "shower.json").read_text()


def test_starting_again_waits_until_it_takes_connections(where):
    port = ports.choose(1)[0]
    serve = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    process = processes.start(where, "server", serve, listens=("127.0.0.1", port))

    processes.again(where, "server")

    with socket.create_connection(("127.0.0.1", port)):
        pass
    processes.end_all(where)
    reaped(process)


def test_a_component_that_ends_at_its_start_is_an_error_that_names_its_log(where):
    reaped(processes.start(where, "brief", [sys.executable, "-c", ""], listens=("127.0.0.1", ports.choose(1)[0])))

    with pytest.raises(ClusterError, match=r"brief ended at its start; see .*brief\.log"):
        processes.wait(where, "brief")


def test_a_component_that_was_never_started_is_an_error_that_names_those_that_were(where):
    reaped(processes.start(where, "known", [sys.executable, "-c", ""]))

    with pytest.raises(ClusterError, match="unknown: is not a component of this cluster; it has known"):
        processes.Component.load(where, "unknown")


def test_the_command_line_says_what_is_wrong_in_one_line(tmp_path):
    command = [sys.executable, "-m", "e2e.cluster", "status", "--state", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [f"muster: {tmp_path}: holds no cluster; `python -m e2e.cluster up` makes one"]
