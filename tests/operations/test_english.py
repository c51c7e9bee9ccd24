"""Pages and messages for users keep the patterns of plain English that a program can hold.

The 48 sentences that newcomers could not read had a few shapes in common: "what", "whoever", "others" and "told" stood
for a noun. A reader has to hold the rest; CONTRIBUTING.md says how to write.
"""

from __future__ import annotations

import re

import pytest

from tests.operations import pages

SHAPES = {
    "`what` stands for a noun: name the thing": r"(?:^|(?<=[.:;!] ))What [^?|.]*\.",
    "`whoever` stands for a noun: write user, caller, tenant": r"\b[Ww]ho(?:m)?ever\b",
    "`others` stands for a noun: write other pods, other users": (
        r"(?:^|(?<=[.:;!] ))Others\b|\b(?:of|by|for|from|with) others\b"
    ),
    "`is told` hides who says it: write reports, prints, warns": r"\b(?:is|are|was|were|be|been) told\b",
}
INTERNAL = {"docs/architecture.md"}
PAGES = [
    name
    for name in pages.NAMES
    if re.fullmatch(r"README\.md|docs/[\w-]+\.md|docs/reference/(?:findings|commands|configuration)\.md", name)
    or name == "manifests/chart/README.md"
]


def sentences(text):
    """The prose of a page, one paragraph a line; code is left out."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "CODE", prose)
    return [" ".join(each.split()) for each in re.split(r"\n\s*\n|\n(?=[|*#-])", prose)]


def broken(text):
    """The shapes that a text has, each with its words."""
    lines = sentences(text)
    return [(why, found[0]) for why, shape in SHAPES.items() for line in lines for found in re.finditer(shape, line)]


def test_there_are_pages_to_read():
    assert {"README.md", "docs/sessions.md", "docs/reference/findings.md"} <= set(PAGES)


@pytest.mark.parametrize("name", sorted(set(PAGES) - INTERNAL))
def test_a_page_has_none_of_the_shapes_that_readers_stumble_over(name):
    assert broken(pages.read(name)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "What somebody removes of a running process is written again at the next interval.",
        "Whoever has nothing waiting and comes is passed by one piece of work.",
        "A line that no record can be is told with file and line.",
        "Muster gives the recipes of others a page.",
    ],
)
def test_the_shapes_are_found(sentence):
    assert broken(f"First a sentence. {sentence}")


@pytest.mark.parametrize("sentence", ["What does a rank need?", "Muster reports what it changed.", "The others wait."])
def test_plain_sentences_pass(sentence):
    assert broken(sentence) == []
