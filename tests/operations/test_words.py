"""The documentation finds its readers: each page is linked, numbers that are cited exist, the picture has two faces."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Tree

import pytest

from tests.operations import pages

DECISIONS = sorted(path.name for path in (pages.ROOT / "docs/internals/decisions").glob("[0-9]*.md"))
RULES = [int(number) for number in re.findall(r"^\*\*Rule (\d+): ", pages.read("docs/strategies.md"), re.MULTILINE)]
SVG = "{http://www.w3.org/2000/svg}"


def test_every_page_of_docs_is_in_the_index():
    listed = {path for path, _ in pages.links("docs/README.md")}
    assert {name for name in pages.NAMES if re.fullmatch(r"docs/[\w-]+\.md", name)} - {"docs/README.md"} <= listed


def test_rules_of_mutation_are_numbered_without_a_gap():
    assert list(range(1, len(RULES) + 1)) == RULES
    assert len(RULES) >= 9


@pytest.mark.parametrize("folder", ["docs", "e2e", "strategies", "tests", "webhook"])
def test_a_rule_that_is_cited_exists(folder):
    texts = [path for ending in ("py", "md") for path in sorted((pages.ROOT / folder).rglob(f"*.{ending}"))]
    assert texts
    for path in texts:
        cited = {int(number) for number in re.findall(r"\b[Rr]ules? (\d+)\b", path.read_text(encoding="utf-8"))}
        assert cited <= set(RULES), path


@pytest.mark.parametrize(
    "folder", ["audit", "certs", "e2e", "front", "images", "kube", "manifests", "strategies", "tests", "webhook"]
)
def test_a_page_that_sources_point_to_exists_with_its_heading(folder):
    for path in sorted(path for path in (pages.ROOT / folder).rglob("*") if path.suffix in {".py", ".yaml"}):
        for page, _, anchor in re.findall(r"\b(docs/[\w-]+\.md)(#([\w-]+))?", path.read_text(encoding="utf-8")):
            assert (pages.ROOT / page).exists(), path
            assert not anchor or anchor in pages.anchors(page), path


def test_tests_that_are_named_beside_a_rule_exist():
    section = pages.section("docs/internals/testing.md", "Tests of the rules of mutation")
    named = re.findall(r"`((?:tests|e2e)/[\w/.]+)`", section)
    assert named
    assert [each for each in named if not (pages.ROOT / each).exists()] == []


def test_decisions_are_listed_in_order_with_their_title_and_date():
    rows = pages.rows(pages.section("docs/internals/decisions/README.md", "Decision records"))
    assert [f"{number[1:5]}-{number.partition('](')[2][5:-1]}" for number, *_ in rows] == DECISIONS
    for (number, _, date), name in zip(rows, DECISIONS, strict=True):
        text = pages.read(f"docs/internals/decisions/{name}")
        assert text.startswith(f"# {number[1:5]}: ")
        assert f"\n{date}, " in text


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_says_why_what_and_what_follows_on_one_page(name):
    text = pages.read(f"docs/internals/decisions/{name}")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert len(text.splitlines()) < 60


def test_the_picture_has_both_colour_schemes_a_description_and_no_script():
    text = pages.read("docs/images/architecture.svg")
    assert "@media (prefers-color-scheme: dark)" in text
    drawn = Tree.fromstring(text)  # noqa: S314 - a file of ours
    assert drawn.find(f"{SVG}title") is not None
    assert drawn.find(f"{SVG}desc") is not None
    assert not list(drawn.iter(f"{SVG}script"))
