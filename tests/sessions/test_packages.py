"""A Gateway needs no torch: it is imported where only the packages of its image are."""

import subprocess
import sys
from importlib import metadata

import pytest

from tests.sessions.gateways import ROOT

PINS = ROOT / "images" / "gateway" / "requirements.txt"


@pytest.fixture
def packages(tmp_path):
    """A folder with the packages of the image and no others."""
    lines = (line.partition("#")[0].strip() for line in PINS.read_text().splitlines())
    for name in (line.partition("==")[0] for line in lines if line):
        tops = {file.parts[0] for file in metadata.files(name)} - {".."}
        for top in tops:
            if not (tmp_path / top).exists():
                (tmp_path / top).symlink_to(metadata.distribution(name).locate_file(top))
    return tmp_path


def run(packages, *words):
    """Run a Python that has these packages, and sees no environment."""
    return subprocess.run(
        [sys.executable, "-S", *words],
        env={"PYTHONPATH": f"{packages}:{ROOT}"},
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_gateway_and_its_command_line_are_imported_without_torch(packages):
    for module in ("torch", "transformers", "safetensors", "peft", "httpx"):
        assert f"No module named '{module}'" in run(packages, "-c", f"import {module}").stderr
    done = run(
        packages, "-c", "import muster.sessions.gateway.app, muster.sessions.engines.process, muster.sessions.cli.main"
    )
    assert done.returncode == 0, done.stderr
    assert run(packages, "-m", "muster.sessions.cli", "serve", "--help").returncode == 0


def test_a_key_is_made_where_only_the_gateway_is(packages, tmp_path):
    done = run(packages, "-m", "muster.sessions.cli", "keys", "create", "team-a", "--root", str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tml-")


@pytest.mark.parametrize(("words", "lacking"), [((), "trainer"), (("--trainer-python", sys.executable), "sampler")])
def test_a_gateway_that_could_start_no_engines_says_so_and_ends(packages, tmp_path, words, lacking):
    (tmp_path / "config.json").write_text("{}")
    serve = ("-m", "muster.sessions.cli", "serve", "--root", str(tmp_path / "state"), "--base", str(tmp_path))
    done = run(packages, *serve, *words)
    assert done.returncode == 2, done.stderr
    assert f"--{lacking}-python: the {lacking} needs torch, which this interpreter has not" in done.stderr
    assert not (tmp_path / "state").exists()
