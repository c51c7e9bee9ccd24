"""Markdown pages, read as far as tests need it."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = sorted(
    str(path.relative_to(ROOT))
    for folder in (
        ".",
        "changelog",
        "docs",
        "docs/*",
        "docs/*/*",
        "examples/*",
        "images",
        "images/*",
        "manifests",
        "manifests/*",
        "tests/golden",
    )
    for path in ROOT.glob(f"{folder}/*.md")
)
"""Every page for readers, by its path relative to the repository."""
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ENDS = {"|", "&&", ";", "<", ">"}


def read(name):
    """The text of a page, its path relative to the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(name):
    """The anchors that a page's headings have."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", read(name)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


def section(name, heading):
    """The text below a heading, up to the next one of its level or above."""
    found = re.search(rf"^(#+) {re.escape(heading)}$\n(.*?)(?=^#{{1,9}} |\Z)", read(name), re.MULTILINE | re.DOTALL)
    assert found, f"{name} has no heading {heading!r}"
    return found[2]


def rows(text):
    """The cells of each row of the tables in a text, without the headings."""
    lines = [line.strip().strip("|") for line in text.splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines]
    breaks = {number for number, row in enumerate(table) if set("".join(row)) <= set("-: ")}
    return [row for number, row in enumerate(table) if number not in breaks and number + 1 not in breaks]


def links(name):
    """The targets of a page's links into the repository, as (path relative to the repository, anchor or "")."""
    folder = (ROOT / name).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", read(name))):
        if not target.startswith(("https:", "http:", "mailto:")):
            path, _, anchor = target.partition("#")
            yield str((folder / path).resolve().relative_to(ROOT)) if path else name, anchor


def commands(name, program):
    """The arguments of a page's calls of a program, as lists of words; `a|b` is two calls, `[...]` may be left out."""
    for language, block in _BLOCK.findall(read(name)):
        for line in block.replace("\\\n", " ").splitlines() if language in {"", "sh"} else ():
            words = _words(line)
            while words and ("=" in words[0] or words[0] in {"$", "export"}):
                words.pop(0)
            if words[: len(program)] == list(program):
                yield from map(list, itertools.product(*(word.split("|") for word in words[len(program) :])))


def _words(line):
    try:
        words = shlex.split(re.sub(r"\[[^]]*\]", "", line), comments=True)
    except ValueError:
        return []  # what a command prints
    return list(itertools.takewhile(lambda word: word not in _ENDS, words))
