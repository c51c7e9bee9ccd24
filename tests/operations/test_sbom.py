"""The bill of materials: valid CycloneDX, complete, and the same each time."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.operations import pages

PROGRAM = pages.ROOT / "images" / "sbom.py"
BUILT_AND_GONE = {"setuptools"}  # the Dockerfile uninstalls it, see there


def made(*options, arguments=()):
    """The bill of the Python that runs this test, made as in the image: piped into its standard input."""
    command = [sys.executable, *options, "-", *arguments]
    return subprocess.run(command, input=PROGRAM.read_text(), capture_output=True, check=True, text=True).stdout


@pytest.fixture(scope="module")
def text():
    return made()


@pytest.fixture(scope="module")
def bill(text):
    return json.loads(text)


def purls(bill):
    return {each["purl"] for each in bill["components"]}


@pytest.mark.parametrize("arguments", [[], ["muster-trl:0.1.0"]])
def test_it_is_a_valid_cyclonedx_document(arguments):
    reason = "cyclonedx-python-lib and jsonschema are in requirements/dev.txt, and not in this environment"
    validation = pytest.importorskip("cyclonedx.validation.json", reason=reason)
    schema = pytest.importorskip("cyclonedx.schema", reason=reason)
    pytest.importorskip("jsonschema", reason=reason)
    text = made(arguments=arguments)
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"type": "library"', '"type": "book"')) is not None


def test_package_urls_are_read_as_they_were_meant(bill):
    reason = "packageurl-python comes with cyclonedx-python-lib, in requirements/dev.txt"
    packageurl = pytest.importorskip("packageurl", reason=reason)
    for each in bill["components"]:
        url = packageurl.PackageURL.from_string(each["purl"])
        assert url.version == each["version"]
        assert url.to_string() == each["purl"]


def test_it_lists_every_package_that_is_pinned_in_the_version_that_is_pinned(bill):
    lines = (line.partition("#")[0].strip() for line in pages.read("requirements/run.txt").splitlines())
    pins = {line for line in lines if line}
    wanted = {
        f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"
        for name, _, version in (pin.partition("==") for pin in pins)
        if name not in BUILT_AND_GONE
    }
    assert len(wanted) > 20
    assert wanted <= purls(bill)


def test_it_is_about_muster_and_says_what_it_needs(bill):
    subject = bill["metadata"]["component"]
    assert (subject["type"], subject["name"]) == ("application", "muster-admission")
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert any(each.startswith("pkg:pypi/aiohttp@") for each in needs[subject["bom-ref"]])
    assert not any(
        each.startswith("pkg:pypi/pytest@") for each in needs[subject["bom-ref"]]
    )  # one that an image has not
    assert {each for group in needs.values() for each in group} <= purls(bill) | {subject["bom-ref"]}


def test_given_the_name_of_an_image_it_is_about_that_image():
    bill = json.loads(made(arguments=["localhost/muster-trl:0.1.0"]))
    subject = bill["metadata"]["component"]
    assert (subject["type"], subject["name"], subject["version"]) == ("container", "muster-trl", "0.1.0")
    assert {"cpython", "muster-admission"} <= {each["name"] for each in bill["components"]}


def test_it_lists_the_debian_packages_of_the_machine_where_it_is_one(bill):
    listed = {(each["name"], each["version"]) for each in bill["components"] if each["purl"].startswith("pkg:deb/")}
    query = ["dpkg-query", "--show", "--showformat=${Status}\t${Package}\t${Version}\n"]
    try:
        known = subprocess.run(query, capture_output=True, check=True, text=True).stdout
    except FileNotFoundError:
        pytest.skip("this machine is no Debian: dpkg-query is missing")
    rows = (line.split("\t") for line in known.splitlines())
    assert listed == {(name, version) for status, name, version in rows if status.endswith(" installed")}


def test_components_have_licences_as_far_as_they_state_one(bill):
    python = [each for each in bill["components"] if each["purl"].startswith("pkg:pypi/")]
    stated = [each for each in python if each.get("licenses")]
    assert len(stated) > 0.9 * len(python)


def test_the_same_environment_gives_the_same_bytes(text):
    assert made() == text


def test_it_needs_nothing_but_the_standard_library():
    """As in the image, where it must not depend on what it lists."""
    alone = json.loads(made("-I", "-S"))
    assert alone["metadata"]["component"]["name"] == "cpython"
    assert not [each for each in purls(alone) if each.startswith("pkg:pypi/")]
