from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from e2e.cluster import ports
from e2e.cluster.errors import ClusterError

CHOOSES = "import sys; from e2e.cluster import ports; print(*ports.choose(40), flush=True); sys.stdin.read()"


def test_no_port_is_given_away_twice():
    chosen = [*ports.choose(60), *ports.choose(60)]
    assert len(set(chosen)) == 120


def test_a_port_that_is_taken_is_not_chosen(monkeypatch):
    # Of this process alone: the same test may run beside it.
    address = f"127.7.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
    monkeypatch.setattr(ports, "_RANGE", range(20000, 20050))
    with socket.create_server((address, 20030)):
        assert 20030 not in ports.choose(48, address)


def test_processes_that_choose_before_anybody_listens_choose_differently():
    running = [
        subprocess.Popen([sys.executable, "-c", CHOOSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    chosen = [port for each in running for port in each.stdout.readline().split()]
    for each in running:
        each.communicate("", timeout=60)
    assert len(set(chosen)) == len(chosen) == 8 * 40


def test_more_than_there_are_is_an_error_that_names_address_and_range(monkeypatch):
    monkeypatch.setattr(ports, "_RANGE", range(20000, 20100))
    with pytest.raises(ClusterError, match=r"127\.0\.0\.9: found no 99 free ports between 20000 and 20100"):
        ports.choose(99, "127.0.0.9")
