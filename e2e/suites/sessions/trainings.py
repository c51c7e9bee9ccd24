"""A training of a person outside of the cluster, through a Gateway in it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.places import REPOSITORY
from e2e.suites.sessions.grounds import Ground, python

__all__ = ["Training", "through"]

_STEP = re.compile(r"step (\d+): ([0-9.]+)")


class Training:
    """A run of the client.

    Args:
        process: of it.
        log: where its errors are.

    Attributes:
        rewards: mean rewards of the steps until now, 0 to 1.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self.rewards: list[float] = []

    def until(self, steps: int) -> None:
        """Read until so many steps are over. Raises `AssertionError` where the client ends before."""
        assert self._process.stdout is not None
        while len(self.rewards) < steps:
            line = self._process.stdout.readline()
            assert line, f"the client ended with {self._process.wait()} after {self.rewards}: {self._log.read_text()}"
            if found := _STEP.match(line):
                self.rewards.append(float(found.group(2)))

    def told(self, words: str) -> str:
        """Return the last line in which the client told its user these words. Raises `AssertionError` without one."""
        log = self._log.read_text()
        said = [line for line in log.splitlines() if words in line]
        assert said, log
        return said[-1]

    def end(self) -> list[float]:
        """Read to the end, and return the mean reward of each step. Raises `AssertionError` where it fails."""
        self.until(10)
        assert self._process.wait() == 0, self._log.read_text()
        return self.rewards


@contextmanager
def through(url: str, key: str, ground: Ground, name: str) -> Iterator[Training]:
    """Train as a process of this machine; what still runs at the end is stopped.

    Args:
        url: of a Gateway.
        key: of its API.
        ground: of which it has the base model and the certificate.
        name: of the log.
    """
    own = {"TINKER_API_KEY": key, "TINKER_TELEMETRY": "0", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    own["SSL_CERT_FILE"] = str(ground.authority)
    program, log = Path(__file__).parent / "programs" / "laptop.py", ground.base.parent / f"{name}.laptop.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [python(), str(program), url, str(ground.base)],
            env={**os.environ, **own, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield Training(process, log)
        finally:
            process.kill()
