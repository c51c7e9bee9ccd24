"""What pages tell readers to open and to run exists: links, targets of make, and commands with their options."""

from __future__ import annotations

import re
import shlex

import pytest

from e2e import run
from e2e.cluster import __main__ as cluster
from muster.webhook.cli import commandline
from tests.operations import pages

TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", pages.read("Makefile"), re.MULTILINE))
MODULES = {"e2e.cluster": cluster._parser()}
PYTHONS = ("python", ".venv/bin/python")

every_page = pytest.mark.parametrize("page", pages.NAMES)


def parsed(parser, words):
    """Let a parser read the words; a refusal is a failed test that names them."""
    try:
        return parser.parse_known_args(words)
    except SystemExit:
        pytest.fail(f"{parser.prog} refuses {shlex.join(words)}")


def test_the_pages_are_found():
    assert {"README.md", "docs/installation.md", "images/trl/README.md", "manifests/README.md"} <= set(pages.NAMES)
    assert len(pages.NAMES) > 25


@every_page
def test_links_lead_somewhere(page):
    for path, anchor in pages.links(page):
        assert (pages.ROOT / path).exists(), path
        if anchor:
            assert anchor in pages.anchors(path), f"{path}#{anchor}"


@every_page
def test_targets_of_make_exist(page):
    named = re.findall(r"`make ([a-z][a-z0-9-]*)", pages.read(page))
    named += [words[0] for words in pages.commands(page, ["make"])]
    assert set(named) <= TARGETS


@every_page
def test_suites_are_started_as_their_runner_wants_it(page):
    text = pages.read(page)
    for given in re.findall(r'make e2e (?:OWN=1 )?ARGS="([^"]*)"', text):
        parsed(run._parser(), shlex.split(given))


@every_page
def test_commands_of_muster_are_taken_by_its_parser(page):
    for words in pages.commands(page, ["muster"]):
        _, unknown = parsed(commandline.parser(), words)
        assert unknown == [], words


@every_page
@pytest.mark.parametrize("module", MODULES)
def test_commands_of_python_are_taken_by_their_parsers(page, module):
    for python in PYTHONS:
        for words in pages.commands(page, [python, "-m", module]):
            _, unknown = parsed(MODULES[module], words)
            assert unknown == [], words


def test_commands_are_found_where_pages_have_them():
    found = [words for page in pages.NAMES for words in pages.commands(page, ["muster"])]
    assert len(found) > 15
    assert ["audit", "verify", "audit.log"] in found
    assert [words[0] for words in pages.commands("docs/installation.md", ["muster"])] == ["install", "uninstall"]
