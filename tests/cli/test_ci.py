"""What others run in their CI: the hook of pre-commit, and the action of GitHub."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from muster.webhook import kubeyaml
from tests.cli import jobs

ROOT = Path(__file__).parents[2]
WRONG = jobs.stream(jobs.trainjob("wrong", numNodes=0))
RIGHT = jobs.stream(jobs.two_nodes())
WARNED = jobs.stream(jobs.trainjob("script", command=["bash", "-c", "train \\ # two\n  --more"], numNodes=2))


@pytest.fixture(scope="module")
def hook():
    (only,) = kubeyaml.load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return only


@pytest.fixture(scope="module")
def action():
    return kubeyaml.load((ROOT / "actions" / "check" / "action.yml").read_text())


@pytest.fixture
def command(tmp_path):
    """A folder with a program `muster`, which runs this checkout."""
    program = tmp_path / "runner" / "muster" / "bin" / "muster"
    program.parent.mkdir(parents=True)
    python = f"PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m muster"
    program.write_text(f'#!/bin/sh\n{python} "$@"\n')
    program.chmod(0o755)
    return program.parent


def test_the_hook_is_one_that_pre_commit_takes(hook):
    assert {"id", "name", "entry", "language"} <= set(hook)  # pre-commit, clientlib.py, MANIFEST_HOOK_DICT
    assert (hook["language"], hook["types"], hook["require_serial"]) == ("python", ["yaml"], True)


@pytest.mark.parametrize(("text", "code"), [(RIGHT, 0), (WRONG, 1), (jobs.stream(jobs.configmap()), 0), ("a: [", 2)])
def test_the_hook_fails_for_errors_and_not_where_no_job_was_changed(hook, command, write, tmp_path, text, code):
    write("jobs/a.yaml", text)
    path = {**os.environ, "PATH": f"{command}:{os.environ['PATH']}"}
    words = [*shlex.split(hook["entry"]), "jobs/a.yaml"]
    done = subprocess.run(words, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr


@pytest.fixture
def checked(action, command, tmp_path):
    """Run the step of the action that checks, with inputs, as a runner does."""

    def run(**inputs):
        given = {name: each["default"] for name, each in action["inputs"].items()} | inputs
        (step,) = [each for each in action["runs"]["steps"] if each["name"] == "Check"]
        values = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda of: given[of[1]], text)
            for name, text in step["env"].items()
        }
        environment = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(command.parents[1]), **values}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]  # what `shell: bash` means
        return subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def test_the_action_runs_no_text_of_its_inputs(action):
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        assert all(re.fullmatch(r"\$\{\{ inputs\.\w+ \}\}", each) for each in step["env"].values())
    used = {
        name
        for step in action["runs"]["steps"]
        for each in step["env"].values()
        for name in re.findall(r"\.(\w+)", each)
    }
    assert used == set(action["inputs"])


def test_the_action_shows_findings_beside_lines_and_fails(checked, write):
    write("jobs/a.yaml", WRONG)
    done = checked(paths="jobs")
    assert done.returncode == 1
    assert "::error file=jobs/a.yaml,line=" in done.stdout


def test_the_action_passes_all_its_inputs_on(checked, write, tmp_path):
    write("one folder/a.yaml", WARNED)
    write("b.yaml", RIGHT)
    write("c.yaml", "mode: enforce\n")
    write("own.yaml", jobs.stream(jobs.runtime("trl-distributed", "trl")))
    paths = "one folder\nb.yaml\n"
    assert checked(paths=paths).returncode == 0
    assert checked(paths=paths, strict="true").returncode == 1
    assert checked(paths=paths, strict="true", ignore="trl,core").returncode == 0
    assert checked(paths=paths, strict="true", select="core/numbers", config="c.yaml").returncode == 0
    assert checked(paths=paths, runtimes="own.yaml\n").returncode == 0
    assert checked(paths=paths, runtimes="missing.yaml").returncode == 2
    assert checked(paths="$(touch injected)", select="x; touch injected").returncode == 2
    assert not (tmp_path / "injected").exists()


def test_the_action_writes_sarif_too_where_a_file_is_named(checked, write, tmp_path):
    write("a.yaml", WRONG)
    assert checked(paths="a.yaml", sarif="muster.sarif").returncode == 1
    log = json.loads((tmp_path / "muster.sarif").read_text())
    assert log["runs"][0]["results"]
