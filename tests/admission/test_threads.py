"""Threads of plugins leave the interpreter as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

CALLED = """
from tests.support import acmes
assert acmes.decide(acmes.acme(), "validate", plugin_budget=60.0).verdict == "allowed"
"""
TOLD = """
from muster.webhook.admission import threads
def work():
    while True:
        pass
thread = threads.Ended(work, "endless")
thread.start()
while thread.tell():
    pass
thread._thread.join()
"""
TRACED = """
import sys
lines = []
def count(*_):
    lines.append(1)
    return count
sys.settrace(count)
sum(number for number in range(100))
sys.settrace(None)
print(len(lines))
"""


@pytest.mark.parametrize("before", [CALLED, TOLD], ids=["called a plugin", "told a thread to end"])
def test_a_debugger_goes_on_in_a_process_that_has(before):
    command = [sys.executable, "-c", before + TRACED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


HANGS = """
import sys, threading
from muster.webhook.admission import threads
gate = threading.Event()
thread = threads.Ended(gate.wait, "hanging")
thread.start()
set_ = getattr({module}, {function!r})
set_(lambda *_: None)
assert thread.tell()
gate.set()
thread._thread.join()
assert not thread.tell()
set_(None)
"""


@pytest.mark.parametrize("function", ["sys.settrace", "sys.setprofile", "threading.settrace", "threading.setprofile"])
def test_a_debugger_goes_on_beside_a_thread_that_hangs_in_c(function):
    module, _, name = function.partition(".")
    command = [sys.executable, "-c", HANGS.format(module=module, function=name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
