"""The page about launchers: its table is held against the sources that are installed, and against what Muster sets."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from muster.webhook.cli import cases, commandline, explanations
from muster.webhook.cli.commands import explain
from tests.cli import jobs
from tests.operations import pages

PYTHON = os.environ.get("MUSTER_TRL_PYTHON", "")
PACKAGES = next(Path(PYTHON).parents[1].glob("lib/*/site-packages"), None) if PYTHON else None
INSTALLED = {"torch", "accelerate", "torchtune"}
MISSING = "the source is not installed here; make contract installs it"
ADDED = {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}


def rows(heading):
    """The rows of the table below a heading of the page, as lists of cells, without its head."""
    return pages.rows(pages.section("docs/jobs.md", heading))


READ = rows("Variables that launchers read")
SET = rows("Variables that Muster sets")
CHECKED = [row for row in READ if row[1].split()[0] in INSTALLED]


def test_every_launcher_of_the_table_has_a_version_and_a_source():
    assert len(READ) >= 14
    for _, version, _, source in READ:
        assert re.search(r"\d", version)
        assert re.search(r"`[\w/]+\.py(:\d+)?`", source) or source == "mpirun(1)"


@pytest.mark.skipif(PACKAGES is None or not PACKAGES.is_dir(), reason=MISSING)
@pytest.mark.parametrize("row", CHECKED, ids=lambda row: row[0])
def test_what_a_launcher_reads_stands_in_its_source(row):
    _, version, reads, source = row
    assert list(PACKAGES.glob(f"{version.replace(' ', '-')}*.dist-info")), f"{version} is not what is installed"
    files = [PACKAGES / name for name in re.findall(r"`([\w/]+\.py)", source)]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    through_torch = (PACKAGES / "torch/distributed/rendezvous.py").read_text(encoding="utf-8")
    for name in re.findall(r"`([A-Z][A-Z0-9_]+)`", reads):
        assert name in text + through_torch, name


@pytest.mark.skipif(PACKAGES is None or not PACKAGES.is_dir(), reason=MISSING)
@pytest.mark.parametrize("row", CHECKED, ids=lambda row: row[0])
def test_the_line_of_a_source_is_about_a_variable_or_a_parser(row):
    for name, number in re.findall(r"`([\w/]+\.py):(\d+)`", row[3]):
        line = (PACKAGES / name).read_text(encoding="utf-8").splitlines()[int(number) - 1]
        assert re.search(r"env|parser|machine_rank|WORLD_SIZE", line), (name, number, line)


@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize("row", SET, ids=lambda row: row[0])
def test_muster_sets_what_the_table_says(row, gpus, tmp_path):
    limits = {"limits": {"nvidia.com/gpu": gpus}}
    command = row[0].strip("`").split()
    job = jobs.trainjob("t", "torch-distributed", command=command, numNodes=2, resourcesPerNode=limits)
    path = tmp_path / "job.yaml"
    path.write_text(jobs.stream(job), encoding="utf-8")
    setup = cases.prepare(commandline.parser().parse_args(["explain", "-f", str(path)]))
    told = explanations.explain(list(explain.sections(setup, with_jobsets=True))[-1], setup)
    added = {change["path"].rpartition("env[")[2].rstrip("]") for change in told["changes"]} & ADDED
    assert ("refused" if told["refused"] else ", ".join(sorted(added))) == ", ".join(
        sorted(row[1 if gpus == 1 else 2].split(", "))
    )
