"""The examples of the old operators, read from their Go modules, become TrainJobs that `muster check` accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.suites.migrations import examples
from tests.cli.conftest import muster  # noqa: F401  # a fixture
from tools.upstream import member_lists


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        jobs = set(examples.files()) - examples.OTHERS
        wanted = {"name": jobs - set(examples.REFUSED), "refused": examples.REFUSED, "other": examples.OTHERS}
        (kind,) = {"refused", "other"} & set(metafunc.fixturenames) or {"name"}
        metafunc.parametrize("name", sorted(wanted[kind]))


@pytest.fixture
def refused():
    """Marks a test of the examples that are refused."""


@pytest.fixture
def other():
    """Marks a test of files without a job."""


def test_an_example_becomes_a_trainjob_that_muster_accepts(muster, name):  # noqa: F811  # the fixture
    found = muster("migrate", "-o", "json", examples.files()[name])
    (made,) = found.json()
    assert found.code in (0, 1)
    assert made["documents"][-1]["kind"] == "TrainJob"
    assert [each for each in made["findings"] if each["severity"] == "error"] == []


def test_an_example_keeps_its_pods_and_its_image(muster, name):  # noqa: F811  # the fixture
    file = examples.files()[name]
    (made,) = muster("migrate", "-o", "json", file).json()
    old = file.read_text()
    counts = [int(line.split(":")[1]) for line in old.splitlines() if line.strip().startswith("replicas:")]
    trainer = made["documents"][-1]["spec"]["trainer"]
    assert trainer["numNodes"] == sum(counts) - ("kind: MPIJob" in old)
    image = next(line.split("image:")[1].strip() for line in old.splitlines() if "image:" in line)
    assert image in json.dumps(made["documents"])


def test_an_example_without_a_trainjob_is_refused_with_its_reason(muster, name, refused):  # noqa: F811  # the fixture
    found = muster("migrate", examples.files()[name])
    assert found.code == 2
    assert examples.REFUSED[name] in found.err


def test_a_file_without_a_job_passes(muster, name, other):  # noqa: F811  # the fixture
    found = muster("migrate", examples.files()[name])
    assert found.code == 3
    assert found.out


def test_the_members_are_those_of_the_definitions_upstream():
    committed = (Path(__file__).parents[2] / "migrations" / "members.json").read_text()
    assert committed == member_lists.text(), "run tools.upstream.member_lists again, and write rows for what is new"
