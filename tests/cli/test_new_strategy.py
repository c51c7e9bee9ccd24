"""`muster strategies new` writes a package that is installed as it is, whose tests pass, and overwrites nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import yaml

from muster.webhook import cli
from muster.webhook.cli.commands import strategies

ROOT = Path(__file__).parents[2]
NAME = "deep-speech"
PACKAGE = "muster_strategy_deep_speech"
# What pip runs for such a package, short of the archive in between: that needs nothing but setuptools, of any age.
BUILD = ["-c", "import setuptools; setuptools.setup()", "--quiet", "build_py", "--build-lib"]


def ran(command, folder, *paths):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*paths, ROOT)))}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def package(muster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = muster("strategies", "new", NAME)
    assert (done.code, done.out) == (0, "")
    assert done.err == (f"muster: wrote muster-strategy-{NAME}; its README.md says how to test and to install it\n")
    return tmp_path / f"muster-strategy-{NAME}"


def test_it_is_installed_and_its_tests_pass_and_muster_finds_it(package, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    ran([sys.executable, *BUILD, site, "egg_info", "--egg-base", site], package)
    tested = tmp_path / "tests"
    shutil.copytree(package / "tests", tested)
    plain = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-W", "error", "-c", os.devnull]
    plain += ["-o", "asyncio_default_fixture_loop_scope=function"]
    assert "7 passed" in ran([sys.executable, "-m", "pytest", *plain, "--rootdir", tested, tested], tmp_path, site)
    listed = json.loads(ran([sys.executable, "-m", "muster", "strategies", "ls", "-o", "json"], tmp_path, site))
    (found,) = (each for each in listed if each["framework"] == NAME)
    assert found["schema"] == "muster.dev/strategies/v1"
    assert found["origin"] == f"muster-strategy-{NAME} 0.1.0"
    assert found["description"].startswith("The deep-speech strategy:")


def test_each_file_is_there_and_no_blank_is_left(package):
    texts = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*") if path.is_file()}
    assert set(texts) == {path.replace("$package", PACKAGE) for path in strategies.FILES.values()}
    for path, text in texts.items():
        assert not re.search(r"\$[a-z]", text), path
        assert max(map(len, text.splitlines())) <= 120, path
    project = tomllib.loads(texts["pyproject.toml"])
    assert project["project"]["entry-points"]["muster.strategies"] == {NAME: f"{PACKAGE}:DeepSpeechStrategy"}


def test_each_template_has_a_place():
    folder = resources.files(cli).joinpath("package_templates")
    assert {each.name for each in folder.iterdir()} == set(strategies.FILES)


def test_its_code_has_no_findings_of_the_linter(package):
    rules = ["--isolated", "--line-length", "120", "--target-version", "py311"]
    ran(
        [Path(sys.executable).parent / "ruff", "check", *rules, "--select", "E,F,W,I,B,UP,ANN,RET,SIM,PL", "."], package
    )
    ran([Path(sys.executable).parent / "ruff", "format", "--check", *rules[:3], "."], package)


def test_its_image_is_built_on_musters_where_muster_looks_for_packages(package):
    text = (package / "Dockerfile").read_text()
    ran([Path(sys.executable).parent / "hadolint", "Dockerfile"], package)
    muster_own = (ROOT / "images/webhook/Dockerfile").read_text()
    (version,) = re.findall(r"^ARG BASE=python:(\d+\.\d+)-", muster_own, re.MULTILINE)
    assert f"/opt/muster/lib/python{version}/site-packages" in text
    assert f"ARG BUILD=python:{version}-" in text
    assert "venv --without-pip /opt/muster" in muster_own


def test_its_values_are_taken_by_the_chart(package):
    values = yaml.safe_load((package / "values.yaml").read_text())
    schema = json.loads((ROOT / "manifests/chart/values.schema.json").read_text())
    defaults = yaml.safe_load((ROOT / "manifests/chart/values.yaml").read_text())
    jsonschema.validate({**defaults, **values, "image": {**defaults["image"], **values["image"]}}, schema)
    assert values["config"]["frameworks"] == {NAME: {"mode": "warn"}}


def test_what_exists_is_left_alone(muster, package):
    before = {path: path.read_bytes() for path in package.rglob("*") if path.is_file()}
    done = muster("strategies", "new", NAME)
    said = f"muster: muster-strategy-{NAME}: exists already and was not changed; give another one with --folder\n"
    assert (done.code, done.err) == (2, said)
    assert {path: path.read_bytes() for path in package.rglob("*") if path.is_file()} == before
    assert muster("strategies", "new", NAME, "--folder", "other/place").code == 0
    assert Path("other/place/pyproject.toml").is_file()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trl", "'trl' is served by trl 1 (in-tree) already; choose the name of another framework"),
        ("default", "'default' is served by default 1 (in-tree) already"),
        ("My_Framework", "argument NAME: 'My_Framework' is not a valid name"),
        ("1st", "argument NAME: '1st' is not a valid name"),
        ("../up", "argument NAME: '../up' is not a valid name"),
        ("a" * 64, "is not a valid name"),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_one_line(muster, tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    done = muster("strategies", "new", name)
    assert (done.code, done.out, list(tmp_path.iterdir())) == (2, "", [])
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_folder_that_cannot_be_made_ends_in_one_line(muster, tmp_path):
    (tmp_path / "file").write_text("")
    done = muster("strategies", "new", NAME, "--folder", tmp_path / "file" / "inside")
    assert (done.code, done.err) == (2, f"muster: {tmp_path}/file/inside: cannot be written: Not a directory\n")


def test_the_list_is_what_strategies_does_without_an_action(muster):
    assert muster("strategies").out == muster("strategies", "ls").out
    listed = muster("strategies", "-o", "json").out
    assert listed == muster("strategies", "ls", "-o", "json").out == muster("strategies", "-o", "json", "ls").out
