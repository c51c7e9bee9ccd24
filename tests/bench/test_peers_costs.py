from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench.peers import costs

_STAT = "4711 (a (bad) name) S 1 2 3 0 -1 4194304 10 20 0 0 250 50 7 8 20 0 3 0 100 1000 200 0"


def test_the_seconds_of_a_process_are_those_of_user_and_system_whatever_its_name_is():
    assert costs.seconds_of(_STAT, 100) == 3.0


def test_memory_is_told_in_mebibytes():
    assert costs.memory_of("Name:\tx\nVmHWM:\t 9 kB\nVmRSS:\t  2048 kB\n") == 2.0


def test_a_process_that_has_ended_has_no_memory_to_tell():
    with pytest.raises(ValueError, match="has ended"):
        costs.memory_of("Name:\tx\nState:\tZ (zombie)\n")


def test_the_seconds_of_a_real_process_grow_while_it_works():
    work = "import time\nwhile time.process_time() < 0.2: pass\nprint(time.process_time(), flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        said = float(process.stdout.readline())
        tick = 1 / os.sysconf("SC_CLK_TCK")
        assert said - 2 * tick <= costs.cpu([process.pid]) <= said + 1
        assert 1 < costs.memory([process.pid]) < 500
        process.communicate(b"\n")
