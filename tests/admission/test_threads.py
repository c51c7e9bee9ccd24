"""Threads of plugins leave the interpreter as it was."""

from __future__ import annotations

import subprocess
import sys

TRACED = """
import sys
from tests.support import acmes
assert acmes.decide(acmes.acme(), "validate", plugin_budget=60.0).verdict == "allowed"
lines = []
def count(*_):
    lines.append(1)
    return count
sys.settrace(count)
sum(number for number in range(100))
sys.settrace(None)
print(len(lines))
"""


def test_a_debugger_goes_on_in_a_process_that_has_called_a_plugin():
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
