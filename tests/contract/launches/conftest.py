"""A fork server with torch in it, and the nodes that launches run on."""

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

from tests.contract.forks import Forks

PROGRAMS = Path(__file__).parent / "programs"
MODULES = ("torchtune._cli.tune", "trl.cli.main", "trl.scripts.sft")
COORDINATOR = "train-node-0-0.train"
LONGEST = 180


@dataclass(frozen=True)
class Ran:
    """How a launch ended on its nodes, and the size of the world that each of its ranks has seen."""

    codes: list[int]
    sizes: list[int]
    log: str


class Place:
    """Where launches run: loopback, one process for each pod."""

    def __init__(self, python, folder):
        self.folder = folder
        self._forks = Forks(python, folder, *MODULES)
        self._count = 0

    def run(self, pods, *, patience=None):
        """Run the command line of each pod, wait for the last, and say what happened.

        Args:
            pods: of `tests.support.pods`.
            patience: seconds that torchrun waits for others; its own defaults without it.
        """
        self._count += 1
        folder = self.folder / f"launch-{self._count}"
        reports = folder / "reports"
        reports.mkdir(parents=True)
        port = _free_port()
        started = [self._start(pod, number, folder, port, patience) for number, pod in enumerate(pods)]
        end = time.monotonic() + LONGEST
        try:
            codes = [process.wait(max(0, end - time.monotonic())) for process in started]
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {LONGEST} s:\n{_log(folder)}")
        finally:
            for process in started:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        sizes = [json.loads(path.read_text())["world"] for path in reports.iterdir()]
        return Ran(codes, sizes, _log(folder))

    def _start(self, pod, number, folder, port, patience):
        def here(text):
            return text.replace(COORDINATOR, "127.0.0.1").replace("29500", str(port))

        env = {
            **self._forks.env, "HOME": str(folder), "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROGRAMS), "REPORTS": str(folder / "reports"),
            "FREE_PORT": str(port),
            "FAKE_GPUS": str(pod.devices), "TMPDIR": str(folder),
            **({"PET_RDZV_CONF": f"timeout={patience},join_timeout={patience}"} if patience else {}),
            **{name: here(value) for name, value in pod.env.items()},
        }  # fmt: skip
        with (folder / f"log-{number}").open("w") as log:
            return subprocess.Popen(
                [here(word) for word in pod.argv],
                env=env, cwd=PROGRAMS, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def close(self):
        """End the fork server, and what is left of its forks."""
        self._forks.close()


@pytest.fixture(scope="session")
def place(python, tmp_path_factory):
    found = Place(python, tmp_path_factory.mktemp("l"))  # a short name: a socket's path may have 107 bytes
    yield found
    found.close()


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def _log(folder):
    return "\n".join(path.read_text() for path in sorted(folder.glob("log-*")))
