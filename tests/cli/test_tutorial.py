"""The tutorial does what it says: its commands run in their order, and print what it shows."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.operations import pages

PAGE = "docs/start.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", pages.read(PAGE), re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]


@pytest.fixture
def shown(muster, tmp_path, monkeypatch):
    """What each command of the tutorial printed, by its words."""
    monkeypatch.chdir(tmp_path)
    results = {}
    for line in COMMANDS:
        program, *words = shlex.split(line)
        assert program == "muster"
        results[line] = muster(*words)
        assert results[line].code == 0, results[line].err
    return results


def test_each_command_succeeds_and_the_diff_is_the_one_on_the_page(shown):
    assert len(COMMANDS) == 4
    (diff,) = (block for language, block in BLOCKS if language == "diff")
    rendered = shown["muster render job.yaml -o diff"].out
    assert "\n".join(line.rstrip() for line in diff.splitlines()) in rendered
    assert "muster.dev/applied" in rendered


def test_the_explanation_ends_as_the_page_says(shown):
    text = shown["muster explain job.yaml"].out
    assert text.count("\n  right: ") == 2
    assert "PREDICTED" in text


def test_the_broken_job_is_refused_with_the_message_on_the_page(shown, muster, tmp_path):
    assert shown
    ((copied, checked, message),) = (
        block.splitlines() for language, block in BLOCKS if language == "" and "bad.yaml" in block
    )
    old, new = re.fullmatch(r"\$ sed s/(\w+)/(\w+)/ job\.yaml > bad\.yaml", copied).groups()
    text = (tmp_path / "job.yaml").read_text()
    lines = [line.replace(old, new, 1) for line in text.splitlines()]
    (tmp_path / "bad.yaml").write_text("\n".join(lines) + "\n")
    done = muster(*shlex.split(checked)[2:])
    assert (done.code, done.out.splitlines()[0]) == (1, message)
