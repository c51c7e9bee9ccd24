"""A Gateway as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Gateway:
    """A Gateway as a process, with engines of `tests.sessions.bigram`; its journal outlives it."""

    ENGINES = ("--trainer", "tests.sessions.bigram:Trainer", "--sampler", "tests.sessions.bigram:Sampler")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = self.made(folder / "models" / "muster")
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self.key = self.run("keys", "create", "team-a").strip()

    def made(self, folder: Path) -> Path:
        """Make the base model."""
        base = folder / "bigram"
        base.mkdir(parents=True)
        (base / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
        return base

    def run(self, *args: str) -> str:
        command = [sys.executable, "-m", "sessions.cli", *args, "--root", str(self.folder)]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "sessions.cli",
            "serve",
            "--root",
            str(self.folder),
            "--base",
            str(self.base),
        ]
        with (self.folder / "gateway.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), *self.ENGINES],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
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

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end()


class Torch(Gateway):
    """The same with the engines that it has by default, and a language model of 100 thousand parameters."""

    ENGINES = ()

    def made(self, folder: Path) -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries that transformers looks for
            from sessions.demo import tiny  # noqa: PLC0415  # the other tests need no torch

            return tiny.make(folder / "tiny")
