from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# They run in an environment of their own (`make sessions`), which has torch and the client.
if importlib.util.find_spec("tinker") is None:
    collect_ignore_glob = ["*"]
else:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TINKER_TELEMETRY": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

    import torch
    from hypothesis import HealthCheck, settings

    torch.set_num_threads(1)
    settings.register_profile(
        "sessions", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("sessions")


def pytest_collection_modifyitems(items):
    """The client closes the sockets of its pools when the collector finds them, and Python warns of each."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


class Gateway:
    """A Gateway as a process, with engines of `tests.sessions.bigram`; its journal outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = folder / "models" / "muster" / "bigram"
        self.base.mkdir(parents=True)
        (self.base / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self.key = self.run("keys", "create", "team-a").strip()

    def run(self, *args: str) -> str:
        command = [sys.executable, "-m", "sessions.cli.main", *args, "--root", str(self.folder)]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    def start(self) -> None:
        engines = ["--trainer", "tests.sessions.bigram:Trainer", "--sampler", "tests.sessions.bigram:Sampler"]
        command = [
            sys.executable,
            "-m",
            "sessions.cli.main",
            "serve",
            "--root",
            str(self.folder),
            "--base",
            str(self.base),
        ]
        with (self.folder / "gateway.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), *engines], stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT
            )
        line = self.process.stdout.readline()
        self.port = int(line.rsplit(":", 1)[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def engine(self, role: str) -> int:
        """Return the process of an engine, which is there now."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit() and self._is(folder, role):
                    return int(folder.name)
            time.sleep(0.02)
        raise AssertionError(f"there is no {role}")

    def _is(self, folder: Path, role: str) -> bool:
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return str(self.folder / "run" / f"{role}.sock").encode() in words

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
            self.process.stdout.close()


@pytest.fixture
def gateway(tmp_path):
    made = Gateway(tmp_path)
    made.start()
    yield made
    made.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One Gateway for tests that leave each other alone."""
    made = Gateway(tmp_path_factory.mktemp("gateway"))
    made.start()
    yield made
    made.end()


@pytest.fixture
def hand():
    """Make hands, each with a session of its own."""
    from tests.sessions.hand import Hand  # noqa: PLC0415  # the client is there only where these tests run

    made = []

    def make(gateway, key=None):
        made.append(Hand(gateway, key))
        return made[-1]

    yield make
    for each in made:
        each.http.close()
