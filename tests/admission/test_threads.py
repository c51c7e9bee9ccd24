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
from webhook.admission import threads
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
