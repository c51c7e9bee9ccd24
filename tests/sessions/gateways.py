"""A Gateway as a process of its own."""

from __future__ import annotations

import copy
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

    LEASE = "5"

    def __init__(self, folder: Path, journal: str | None = None, replica: str = "one") -> None:
        self.folder, self.replica = folder, replica
        self.program: tuple[str, ...] = ("muster.sessions.cli",)
        self._journal = ["--journal", journal] if journal else []
        self._run = folder / "run" / replica if journal else folder / "run"
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

    def beside(self, replica: str, ahead: float = 0) -> Gateway:
        """Return another Gateway on the same journal, to be started, on a machine whose clock is ahead by seconds."""
        other = copy.copy(self)
        other.replica, other.port, other.process = replica, 0, None
        other.program = ("tests.sessions.skewed", str(ahead)) if ahead else self.program
        other._run = self.folder / "run" / replica
        return other

    def run(self, *args: str) -> str:
        command = [sys.executable, "-m", "muster.sessions.cli", *args, "--root", str(self.folder), *self._journal]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            *self.program,
            "serve",
            "--root",
            str(self.folder),
            "--base",
            str(self.base),
            *self._journal,
            *("--replica", self.replica, "--lease", self.LEASE),
        ]
        with (self.folder / f"gateway-{self.replica}.log").open("ab") as log:
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

    def engine(self, role: str, within: float = 60) -> int:
        """Return the process of an engine, which is there now."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if found := self._engines(role):
                return found[0]
            time.sleep(0.02)
        raise AssertionError(f"there is no {role}")

    def without(self, role: str) -> None:
        """Wait until there is no such engine."""
        deadline = time.monotonic() + 60
        while self._engines(role):
            assert time.monotonic() < deadline, f"there is a {role}"
            time.sleep(0.02)

    def _engines(self, role: str) -> list[int]:
        folders = (each for each in Path("/proc").iterdir() if each.name.isdigit())
        return [int(each.name) for each in folders if self._is(each, role)]

    def _is(self, folder: Path, role: str) -> bool:
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return str(self._run / f"{role}.sock").encode() in words

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
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
            from muster.sessions.demo import tiny  # noqa: PLC0415  # the other tests need no torch

            return tiny.make(folder / "tiny")
