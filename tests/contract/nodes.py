"""Several "nodes" of loopback, with the environment that Kubeflow Trainer gives to a pod; a folder stands for each."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

GUARD = Path(__file__).parents[2] / "images" / "guard"


@dataclass(frozen=True)
class Done:
    """How some processes ended, one for each node, and what Kubernetes would have been told."""

    codes: list[int]
    output: str
    messages: list[str]
    folders: list[Path]

    def reports(self) -> list[dict]:
        """What ranks reported."""
        return [json.loads(line) for line in self.output.splitlines() if line.startswith('{"schema"')]


class Nodes:
    """Runs commands by a Python that has torch and the guard, as in the training images."""

    def __init__(self, python, folder):
        self._python = python
        self._folder = folder
        self._started = []

    def run(self, *command, count=1, seconds=300, guarded=True, modules=(), **environment):
        """Run a command on all of them at once and wait for the last; each has its own /tmp and working folder."""
        port, begun = _free_port(), time.monotonic()
        paths = [*modules, *((GUARD,) if guarded else ())]
        folders = [self._folder / f"node-{len(self._started) + number}" for number in range(count)]
        for number, folder in enumerate(folders):
            folder.mkdir()
            (folder / "termination-log").touch()
            known = {
                "PATH": f"{self._python.parent}:{os.environ['PATH']}",
                "PYTHONPATH": ":".join(map(str, paths)),
                "MUSTER_GUARD": "enforce",  # as the guard inside an image of Muster has it
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "CUDA_VISIBLE_DEVICES": "",
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
                "MUSTER_TERMINATION_LOG": str(folder / "termination-log"),
                "PET_NODE_RANK": str(number),
                "PET_MASTER_ADDR": "127.0.0.1",
                "PET_MASTER_PORT": str(port),
                **environment,
            }
            with (folder / "log").open("w") as log:
                process = subprocess.Popen([*command], env=known, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
            self._started.append(process)
        codes = []
        for process in self._started[-count:]:
            try:
                codes.append(process.wait(max(0, begun + seconds - time.monotonic())))
            except subprocess.TimeoutExpired:
                pytest.fail(f"still running after {seconds} s:\n{_logs(folders)}")
        return Done(codes, _logs(folders), [(each / "termination-log").read_text() for each in folders], folders)

    def close(self):
        """End what is left of launchers and of their ranks, which have sessions of their own."""
        for place in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if place.readlink().is_relative_to(self._folder):
                    os.kill(int(place.parent.name), signal.SIGKILL)
        for process in self._started:
            process.wait(10)


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def _logs(folders):
    return "\n".join((folder / "log").read_text() for folder in folders)
