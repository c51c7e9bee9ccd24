"""What `make pins` keeps of what the package index has."""

from __future__ import annotations

import os

import pytest

from tools import pins

FOUND = """
[[packages]]
name = "compiled"
version = "1.2"
sdist = { url = "compiled-1.2.tar.gz", hashes = { sha256 = "s" } }
wheels = [
    { url = "compiled-1.2-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", hashes = { sha256 = "d" } },
    { url = "compiled-1.2-cp314-cp314-macosx_11_0_arm64.whl", hashes = { sha256 = "a" } },
    { url = "compiled-1.2-cp39-abi3-manylinux_2_28_aarch64.whl", hashes = { sha256 = "b" } },
    { url = "compiled-1.2-cp310-cp310-manylinux_2_28_aarch64.whl", hashes = { sha256 = "older Python" } },
    { url = "compiled-1.2-cp314-cp314t-manylinux_2_28_x86_64.whl", hashes = { sha256 = "without its lock" } },
    { url = "compiled-1.2-cp311-cp311-musllinux_1_2_x86_64.whl", hashes = { sha256 = "no glibc" } },
    { url = "compiled-1.2-cp311-cp311-win_amd64.whl", hashes = { sha256 = "another system" } },
]
[[packages]]
name = "plain"
version = "3"
wheels = [{ url = "plain-3-py2.py3-none-any.whl", hashes = { sha256 = "c" } }]
[[packages]]
name = "by-version"
version = "5"
wheels = [{ url = "by_version-5-py37-none-any.whl", hashes = { sha256 = "f" } }]
[[packages]]
name = "source"
version = "4"
sdist = { url = "source-4.tar.gz", hashes = { sha256 = "e" } }
"""


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index that has what is in `FOUND`."""
    (tmp_path / "uv").write_text(f"#!/bin/sh\ncat <<'END'\n{FOUND}\nEND\n")
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.usefixtures("index")
def test_a_lock_has_the_hashes_of_the_wheels_that_can_be_installed_and_of_a_source_where_there_is_none(tmp_path):
    assert pins.locked(tmp_path / "run.txt").splitlines() == [
        "# Made of run.txt by `make pins`.",
        "compiled==1.2 --hash=sha256:a --hash=sha256:b --hash=sha256:d",
        "plain==3 --hash=sha256:c",
        "by-version==5 --hash=sha256:f",
        "source==4 --hash=sha256:e",
    ]
