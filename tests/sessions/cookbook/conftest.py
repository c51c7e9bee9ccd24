from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.sessions.gateways import Torch

HERE = Path(__file__).parent


class Wall:
    """Where programs of a test go when they want to leave this machine: it notes whom they want, and hangs up."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.wanted = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            with self._socket.accept()[0] as connection:
                line = connection.makefile("rb").readline().decode().strip()
                if line == "end":
                    return
                self.wanted.append(line)

    def close(self):
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"end\n")
        self._thread.join()
        self._socket.close()


@pytest.fixture
def wall():
    made = Wall()
    yield made
    made.close()


@pytest.fixture(scope="module")
def torch_gateway(tmp_path_factory):
    with Torch(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture
def recipe(torch_gateway, wall, tmp_path):
    """Run a program of the cookbook's environment; no network, no settings of the user."""
    python = shutil.which(os.environ.get("MUSTER_COOKBOOK_PYTHON", ""))
    if python is None:
        pytest.fail("MUSTER_COOKBOOK_PYTHON must name a python that has tinker-cookbook; `make sessions` does")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TINKER_API_KEY": torch_gateway.key,
        "TINKER_BASE_URL": torch_gateway.url,
        "https_proxy": f"http://127.0.0.1:{wall.port}",
    }

    def run(*arguments):
        done = subprocess.run(
            [python, *map(str, arguments)],
            cwd=HERE,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    return run
