"""The chart as people get it: linted, packed, and the same without this checkout around it."""

from __future__ import annotations

import tarfile

import pytest
import yaml

from tests.manifests import files
from tests.packaging import renders
from tests.packaging.choices import CHOICES


@pytest.fixture(scope="module")
def package(helm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    done = helm.run("package", renders.CHART, "--destination", folder)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.mark.parametrize("name", ["as it is", "certificates in files", "monitoring of files", "monitoring"])
def test_lint_finds_nothing(helm, tmp_path, name):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(CHOICES[name]))
    done = helm.run("lint", "--strict", renders.CHART, "--values", values)
    assert (done.returncode, "0 chart(s) failed" in done.stdout) == (0, True), done.stdout


def test_a_package_holds_the_files_that_are_links_in_the_checkout(package):
    with tarfile.open(package) as archive:
        members = {each.name: each for each in archive.getmembers()}
        assert all(each.isfile() for each in members.values())
        for path in files.RUNTIMES:
            packed = archive.extractfile(f"muster/files/runtimes/{path.name}")
            assert packed.read() == path.read_bytes()
    assert "muster/files/runtimes/kustomization.yaml" not in members
    assert "muster/files/monitoring/alerts.yaml" in members
    assert not [name for name in members if name.endswith("-test.yaml")]


def test_a_package_renders_what_the_folder_does(helm, package):
    for name in ("as it is", "all runtimes", "monitoring"):
        assert helm.template(CHOICES[name], chart=package) == helm.template(CHOICES[name])


def test_people_are_told_how_to_go_on(helm):
    def notes(values):
        given = yaml.safe_dump(values)
        done = helm.run(
            *("install", "muster", renders.CHART, "--namespace", "elsewhere", "--dry-run=client", "--values", "-"),
            given=given,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("NOTES:")[2]

    assert "kubectl -n elsewhere rollout status deployment/muster" in notes({})
    assert "creating one is refused" in notes({})
    assert "is not checked by Muster" in notes(CHOICES["it may fail open"])
    assert "--set webhooks.enabled=true" in notes(CHOICES["nothing calls it"])
    assert "delete mutatingwebhookconfiguration,validatingwebhookconfiguration muster" in notes({})
    assert "muster doctor --guard --namespace elsewhere" in notes({})
    assert "measured while they run (open)" in notes(CHOICES["trainings are measured"])
    assert "Secret ring" in notes(CHOICES["short certificates"])
    assert "Secret" not in notes(CHOICES["certificates in files"])
