"""Every suppression of a checker has its reason beside it, as CONTRIBUTING.md wants."""

from __future__ import annotations

import io
import re
import tokenize

import pytest

from tests.operations import pages

ROOMS = ("audit", "bench", "certs", "e2e", "examples", "front", "images", "kube", "strategies", "tests", "webhook")
CODES = r"[A-Z]+\d+(?:, ?[A-Z]+\d+)*"
SUPPRESSION = re.compile(rf"#\s*(?:noqa(?::\s*{CODES})?|type:\s*ignore(?:\[[a-z, -]+\])?|nosec\S*)(?![\w\[])")
REASON = re.compile(r"\s*(?:-|#)\s*\w")


def unexplained(text):
    """The lines that suppress something and do not say why; the reason stands after the last of them."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        found = list(SUPPRESSION.finditer(token.string)) if token.type == tokenize.COMMENT else []
        if found and not REASON.match(token.string, found[-1].end()):
            yield token.start[0]


@pytest.mark.parametrize("room", ROOMS)
def test_each_says_why(room):
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((pages.ROOT / room).rglob("*.py"))}
    assert texts
    assert [f"{path}:{line}" for path, text in texts.items() for line in unexplained(text)] == []


@pytest.mark.parametrize(
    ("line", "explained"),
    [
        ("import a  # noqa: F401", False),
        ("import a  # noqa: F401  # importing registers", True),
        ("import a  # noqa: F401, E402 - importing registers", True),
        ("a = b  # type: ignore[misc]", False),
        ("a = b  # type: ignore[misc]  # noqa: SLF001", False),
        ("a = b  # type: ignore[misc]  # noqa: SLF001  # our own", True),
        ("a = '# noqa: F401'", True),
    ],
)
def test_a_reason_is_told_from_none(line, explained):
    assert list(unexplained(line)) == ([] if explained else [1])
