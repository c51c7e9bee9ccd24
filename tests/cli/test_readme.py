"""The README's commands do what it says: they are taken from its own text and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muster.audit import chain
from muster.webhook import kubeyaml
from tests.cli import jobs
from tests.cli.test_audit import record
from tests.cli.test_review import review
from tests.migrations import jobs as migrated
from tests.operations import pages

ROOT = Path(__file__).parents[2]
README = "README.md"
BASH = str(shutil.which("bash"))
OMITTED = {
    "make test": "is what runs this test",
    "muster check --cluster": "reads a cluster: tests/cli/test_check_cluster.py, with an API server in memory",
    "muster status JOB": "reads a cluster: tests/cli/status/test_status.py, with an API server in memory",
    "muster doctor": "reads a cluster: tests/doctor/test_command.py, with an API server in memory",
    "muster install": "changes a cluster: tests/packaging/test_wheel.py, with an API server in memory",
    "muster upgrade": "changes a cluster: tests/packaging/test_wheel.py, with an API server in memory",
    "muster uninstall": "changes a cluster: tests/packaging/test_wheel.py, with an API server in memory",
    "muster serve --self-signed": "serves until it is ended: tests/cli/test_entry_point.py, and every suite of e2e",
    "muster audit serve audit.log": "serves until it is ended: tests/cli/test_audit.py",
}
"""Commands that this test does not run, why, and where they are run."""


GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
OLD = migrated.pytorch(3, None, GPU, GPU, name="mnist")
"""The PyTorchJob that docs/check.md migrates."""


def blocks(*languages, page=README):
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", pages.read(page), re.MULTILINE | re.DOTALL):
        if language in languages:
            yield block


def commands():
    """Yield each command of the README as a line for a shell, without what its comment says; `a|b` is two commands."""
    for block in blocks("", "sh"):
        for line in block.splitlines():
            text = re.sub(r"\s+#.*", "", line.removeprefix("$ ")).strip()
            if text.startswith(("muster ", "make ")):
                words = text.split(" ")
                choices = next((word.split("|") for word in words if "|" in word), [""])
                either = "|".join(choices)
                yield from (text.replace(either, each, 1) if either else text for each in choices)


COMMANDS = list(commands())


@pytest.fixture
def folder(tmp_path, write):
    """A folder with everything that the README's commands name."""
    shutil.copytree(ROOT / "manifests" / "examples", tmp_path / "manifests" / "examples")
    shutil.copytree(ROOT / "examples" / "team-tests", tmp_path / "examples" / "team-tests")
    (text,) = (block for block in blocks("yaml") if "kind: TrainJob" in block)
    write("job.yaml", text)
    write("jobs/job.yaml", text)
    write("old/mnist.yaml", kubeyaml.dump(OLD))
    write("review.json", review(jobs.two_nodes()))
    link = chain.Chain()
    write("audit.log", b"".join(link.seal(record(number)) for number in range(3)))
    programs = write("bin/muster", f'#!/bin/sh\nexec "{sys.executable}" -m muster "$@"\n')
    programs.chmod(0o755)
    return tmp_path


@pytest.fixture
def shell(folder):
    def run(line):
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [BASH, "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    return run


def test_commands_are_found_and_each_omission_is_one_of_them_with_a_test_that_exists():
    assert len(COMMANDS) > 15
    assert set(OMITTED) <= set(COMMANDS)
    named = [path for reason in OMITTED.values() for path in re.findall(r"tests/[\w/]+\.py", reason)]
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("line", [each for each in COMMANDS if each not in OMITTED and each.startswith("muster ")])
def test_a_command_of_the_readme_runs_and_finds_nothing_wrong(shell, line):
    done = shell(line)
    assert (done.returncode, done.stdout + done.stderr != "") == (0, True), done.stderr


def test_the_migration_that_the_page_shows_is_the_one_that_is_made(shell):
    (shown,) = (block for block in blocks("console", page="docs/check.md") if block.startswith("$ muster migrate"))
    command, _, output = shown.partition("\n")
    assert shell(command.removeprefix("$ ")).stdout == output


def test_the_demo_is_made_and_its_next_commands_work_as_printed(shell, tmp_path):
    assert "make demo" in COMMANDS
    binaries = tmp_path / "venv" / "bin"
    shutil.copytree(tmp_path / "bin", binaries)
    made = ["make", "--no-print-directory", "-C", ROOT, "-o", f"{binaries}/muster", f"BIN={binaries}", "demo"]
    done = subprocess.run(
        made, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = re.findall(r"^    (\S.* first-sft\.yaml)$", done.stdout, re.MULTILINE)
    assert [words.split()[-2] for words in printed] == [">", "explain", "check", "diff"]
    for line in printed:
        assert shell(line).returncode == 0, line


@pytest.mark.parametrize(
    ("program", "on_path", "called"),
    [
        (".venv/bin/muster", False, ".venv/bin/muster"),
        ("{cwd}/.venv/bin/muster", False, ".venv/bin/muster"),
        ("{cwd}/bin/muster", True, "muster"),
        ("/elsewhere/my tools/muster", False, "'/elsewhere/my tools/muster'"),
        ("/usr/bin/kubectl-muster", False, "kubectl muster"),
    ],
)
def test_the_demo_calls_the_command_as_it_was_called(muster, folder, monkeypatch, program, on_path, called):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder / "bin") if on_path else "")
    monkeypatch.setattr(sys, "argv", [program.format(cwd=folder)])
    assert f"    {called} explain first-sft.yaml\n" in muster("demo").out


def test_the_job_of_the_readme_becomes_what_it_shows(shell):
    (diff,) = blocks("diff")
    shown = shell("muster render job.yaml -o diff").stdout
    changed = [line for line in diff.splitlines() if line[:1] in "+-"]
    assert [line.strip() for line in changed] == [
        line.strip() for line in shown.splitlines() if line.strip() in {each.strip() for each in changed}
    ]


def test_the_explanation_that_the_readme_shortens_ends_as_it_says(shell):
    (line,) = (each for each in COMMANDS if each.startswith("muster explain -f manifests/") or "01-trl" in each)
    ending = "right: launch, ranks and devices are right with the changes above; check --cluster asks about the pods"
    assert ending in pages.read(README)
    assert ending in shell(line).stdout
