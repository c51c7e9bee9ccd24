"""What the tests of the command line share: a way to run it in this process, and one in a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from muster.webhook.cli.main import main

ROOT = Path(__file__).parents[2]


class Result(NamedTuple):
    code: int
    out: str
    err: str

    def json(self):
        return json.loads(self.out)


@pytest.fixture
def muster(capsys, monkeypatch):
    """Run `muster ARGS` here; `stdin` is what it reads."""

    def run(*args, stdin=b""):
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        capsys.readouterr()
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as ended:
            code = ended.code
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def process(tmp_path):
    """Run `python -m muster ARGS`, or a program text, in a process of its own and in an empty folder."""

    def run(*args, stdin=b"", program=None, env=()):
        command = [sys.executable, "-c", program] if program else [sys.executable, "-m", "muster"]
        return subprocess.run(
            [*command, *map(str, args)],
            input=stdin,
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **dict(env)},
            timeout=60,
        )

    return run


@pytest.fixture
def write(tmp_path):
    """Write a file below the test's folder and return its path."""

    def at(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return at
