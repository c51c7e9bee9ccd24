"""What pages tell readers to open and to run exists: links, targets of make, and commands with their options."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import subprocess

import pytest

from e2e import run
from e2e.cluster import __main__ as cluster
from muster.webhook.cli import commandline
from tests.operations import pages

TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", pages.read("Makefile"), re.MULTILINE))
MODULES = {"e2e.cluster": cluster._parser()}
PYTHONS = ("python", ".venv/bin/python")
MAKE = r"`make ([a-z][a-z0-9-]*)"


def parsed(parser, words):
    """Let a parser read the words; a refusal is a failed test that names them."""
    try:
        return parser.parse_known_args(words)
    except SystemExit:
        pytest.fail(f"{parser.prog} refuses {shlex.join(words)}")


def test_the_pages_are_found():
    assert {"README.md", "docs/install.md", "images/trl/README.md", "manifests/README.md"} <= set(pages.NAMES)
    assert len(pages.NAMES) > 25


def test_links_lead_somewhere():
    links = [(page, path, anchor) for page in pages.NAMES for path, anchor in pages.links(page)]
    assert [each for each in links if not (pages.ROOT / each[1]).exists()] == []
    assert [each for each in links if each[2] and each[2] not in pages.anchors(each[1])] == []


def test_targets_of_make_exist():
    named = [(page, target) for page in pages.NAMES for target in re.findall(MAKE, pages.read(page))]
    named += [(page, words[0]) for page in pages.NAMES for words in pages.commands(page, ["make"])]
    assert [each for each in named if each[1] not in TARGETS] == []


@pytest.mark.parametrize(("words", "images"), [([], None), (["IMAGES=trl"], "--images trl")])
def test_a_cluster_has_the_images_that_are_asked_for_and_no_other(words, images):
    made = subprocess.run(
        [str(shutil.which("make")), "-n", "cluster", *words], cwd=pages.ROOT, capture_output=True, text=True, check=True
    )
    assert (images or "--tier") in made.stdout
    assert ("--images" in made.stdout) == bool(images)


def test_suites_are_started_as_their_runner_wants_it():
    for page in pages.NAMES:
        for given in re.findall(r'make e2e (?:OWN=1 )?ARGS="([^"]*)"', pages.read(page)):
            parsed(run._parser(), shlex.split(given))


def test_commands_of_muster_are_taken_by_its_parser():
    parser = commandline.parser()
    for page in pages.NAMES:
        for words in pages.commands(page, ["muster"]):
            _, unknown = parsed(parser, words)
            assert unknown == [], (page, words)


@pytest.mark.parametrize("module", MODULES)
def test_commands_of_python_are_taken_by_their_parsers(module):
    for page, python in itertools.product(pages.NAMES, PYTHONS):
        for words in pages.commands(page, [python, "-m", module]):
            _, unknown = parsed(MODULES[module], words)
            assert unknown == [], (page, words)


def test_commands_are_found_where_pages_have_them():
    found = [words for page in pages.NAMES for words in pages.commands(page, ["muster"])]
    assert len(found) > 15
    assert ["audit", "verify", "audit.log"] in found
    installation = pages.commands("docs/install.md", ["muster"])
    assert [words[0] for words in installation] == ["install", "doctor", "uninstall"]
