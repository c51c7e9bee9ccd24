"""What `hostPID` of the agent is for: from another process namespace the kernel names no engine and ends none."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys

import pytest

UNSHARE = (shutil.which("unshare") or "unshare", "--pid", "--fork")
AGENT = """
import errno, json, signal, socket, struct, sys
from muster.sessions.devices import processes
from muster.sessions.nodes import agent

server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("listens", flush=True)
connection, _ = server.accept()
found = {"caller": processes.caller(connection)}
try:
    agent._pod(found["caller"])
except agent.NoClaimError as error:
    found["told"] = str(error)
try:
    (peer,) = struct.unpack("i", connection.getsockopt(socket.SOL_SOCKET, 77, 4))  # SO_PEERPIDFD, Linux 6.5
    signal.pidfd_send_signal(peer, 0)
    found["ended"] = True
except OSError as error:
    found["ended"] = errno.errorcode[error.errno]
print(json.dumps(found))
"""


def met(path, *before):
    """Return what an agent finds out about this process, which connects to it."""
    command = [*before, sys.executable, "-c", AGENT, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        if program.stdout.readline() != "listens\n":
            pytest.skip("this machine lets nobody make a process namespace")
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(str(path))
            return json.loads(program.stdout.readline())


def test_from_another_process_namespace_no_engine_is_named_and_none_is_ended(tmp_path):
    found = met(tmp_path / "s", *UNSHARE)
    assert found["caller"] == 0
    assert found["told"] == "your process cannot be seen from here: the agent needs hostPID: true"
    assert found["ended"] in {"EINVAL", "ENOPROTOOPT"}  # the latter by kernels before SO_PEERPIDFD


def test_from_the_same_process_namespace_it_is(tmp_path):
    found = met(tmp_path / "s")
    assert found["caller"] > 1
    assert found["told"] == "your process is in no pod: only engines of pods take turns here"
    assert found["ended"] in {True, "ENOPROTOOPT"}
