"""The program of the init container writes down the PYTHONPATH of an image, and never fails."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "images" / "guard" / "programs" / "env_of_image.c"
_LOADED, _INTERPRETER = 1, 3  # PT_LOAD and PT_INTERP of elf(5)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Built as images/webhook/Dockerfile does, with the compiler's warnings as errors."""
    path = tmp_path_factory.mktemp("program") / "env-of-image"
    compiler = shutil.which("gcc")
    assert compiler, "gcc builds Muster's image, and this test"
    options = ("-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *options, "-o", path, SOURCE], check=True)
    return path


def run(program, *arguments, **environment):
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("value", ["/app:/lib", "", "/with space:/ü", "/x" * 50_000])
def test_what_the_image_has_is_written_as_it_is(program, tmp_path, value):
    assert run(program, tmp_path / "node", PYTHONPATH=value, OTHER="1") == (0, b"", b"")
    assert (tmp_path / "node").read_text() == value


def test_an_image_without_one_leaves_no_file(program, tmp_path):
    assert run(program, tmp_path / "node", PYTHONPATHS="/no") == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_keeps_no_pod_from_its_start(program, tmp_path):
    assert run(program, tmp_path / "missing" / "node", PYTHONPATH="/app") == (0, b"", b"")
    assert run(program, PYTHONPATH="/app") == (0, b"", b"")


def test_it_needs_no_libc_of_the_image(program):
    elf = program.read_bytes()
    (start,), (size, count) = struct.unpack_from("<Q", elf, 32), struct.unpack_from("<HH", elf, 54)
    kinds = {struct.unpack_from("<I", elf, start + size * number)[0] for number in range(count)}
    assert _LOADED in kinds
    assert _INTERPRETER not in kinds
