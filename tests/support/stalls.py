"""Simulates a machine that stalls: a pytest plugin, loaded by hand, that finds tests which depend on time.

Use: `python -m pytest -p tests.support.stalls tests/controllers`. For up to `STALL` seconds at a time (0.5 by default)
no Python code of the process runs, as on a busy machine; what is due meanwhile comes all at once.
"""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time

_LONGEST = float(os.environ.get("STALL", "0.5"))


def pytest_configure():
    """Begin; the thread ends with the process."""
    threading.Thread(target=_stall, args=(random.Random(), ctypes.PyDLL(None)), daemon=True).start()  # noqa: S311 - no secret


def _stall(rng, library):
    while True:
        time.sleep(rng.expovariate(1 / _LONGEST))
        library.usleep(int(rng.uniform(0, _LONGEST) * 1e6))  # PyDLL keeps the interpreter's lock during the call
