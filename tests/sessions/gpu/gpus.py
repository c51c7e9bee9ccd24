"""The GPU of this machine, and who has memory there."""

from __future__ import annotations

import os
import subprocess
import threading

from muster.sessions.devices.memory import Nvidia


def first():
    """Return the UUID of the first GPU; empty where there is none, or these tests were not asked for."""
    if "MUSTER_GPU" not in os.environ:
        return ""
    try:
        asked = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        told = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.split("\n")[0].strip()


GPU = first()
WHY = "it needs a GPU of NVIDIA, for itself: make gpu"


class Watch:
    """Looks again and again at who has more memory than a context, as long as it is entered."""

    def __init__(self):
        self.seen = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self):
        gpu = Nvidia(GPU)
        while not self._over.is_set():
            self.seen.append(gpu.users({}))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    @property
    def most(self):
        """How many had memory at one look."""
        return max(map(len, self.seen))

    @property
    def all(self):
        """Who has had any."""
        return frozenset().union(*self.seen)
