"""A fork server that has imported what takes time, and programs on PATH that have it run a launcher or a Python."""

import os
import signal
import subprocess
from pathlib import Path

PROGRAMS = Path(__file__).parent / "launches" / "programs"
STARTED = ("torchrun", "accelerate", "tune", "trl", "python", "python3")


class Forks:
    """The server of `launches/programs/fork_server.py`.

    Args:
        python: has torch and accelerate.
        folder: for its socket; the path may have some 90 bytes.
        modules: what it imports besides.
        guard: folders of PYTHONPATH that bring the guard; each fork begins it anew.

    Attributes:
        env: environment of a program that has its launchers and Pythons run here.
    """

    def __init__(self, python, folder, *modules, guard=()):
        bin_, path = folder / "bin", os.environ["PATH"]
        bin_.mkdir()
        text = (PROGRAMS / "starter.py").read_text()
        for name in STARTED:
            (bin_ / name).write_text(f"#!{python} -IS\n{text}")
            (bin_ / name).chmod(0o755)
        self.env = {"PATH": f"{bin_}:{path}", "FORK_SERVER": str(folder / "socket"), "STARTERS": str(bin_)}
        self._server = subprocess.Popen(
            [python, PROGRAMS / "fork_server.py", folder / "socket", *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={"PATH": path, "HOME": str(folder), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
                 "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(folder), "PYTHONHASHSEED": "0",
                 "PYTHONPATH": ":".join(map(str, guard))},
            start_new_session=True,
        )  # fmt: skip
        assert self._server.stdout.readline() == b"ready\n"

    def close(self):
        """End the server, and what is left of its forks, which are all of its session."""
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait(30)
        self._server.stdin.close()
        self._server.stdout.close()
