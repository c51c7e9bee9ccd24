"""A count goes on where it was stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz import batches, journals


def batch_of(first, end, **faults):
    """A batch as the journal has it."""
    counts = {"cases": end - first, "requests": 2 * (end - first), "bytes": 1, "seconds": 0.5, "processor": 0.25}
    return {"first": first, "end": end, **counts, "faults": faults}


@pytest.mark.parametrize(
    ("done", "missing"),
    [
        ([], [(10, 14), (14, 18), (18, 20)]),
        ([(10, 14)], [(14, 18), (18, 20)]),
        ([(14, 18)], [(10, 14), (18, 20)]),
        ([(18, 20), (10, 14)], [(14, 18)]),
        ([(0, 11), (13, 15)], [(11, 13), (15, 19), (19, 20)]),
        ([(0, 15), (12, 13), (19, 90)], [(15, 19)]),
        ([(0, 20)], []),
        ([(20, 40), (0, 10)], [(10, 14), (14, 18), (18, 20)]),
    ],
    ids=str,
)
def test_each_case_that_was_not_run_is_missing_once(tmp_path, done, missing):
    journal = journals.Journal(tmp_path, "c", "1")
    for first, end in done:
        journal.note(batch_of(first, end))

    assert list(journal.missing(10, 20, 4)) == missing


def test_a_journal_that_is_read_again_has_what_was_noted(tmp_path):
    journal = journals.Journal(tmp_path, "c", "a seed/7")
    journal.note(batch_of(0, 4, slow={"fault": "x", "file": "f", "how": [], "cases": 2}))
    journal.note(batch_of(4, 8, slow={"fault": "y", "file": "g", "how": [], "cases": 1}))
    again = journals.Journal(tmp_path, "c", "a seed/7")

    assert again.batches == journal.batches
    assert again.counts() == {"cases": 8, "requests": 16, "bytes": 2, "seconds": 1.0, "processor": 0.5}
    assert again.faults() == {"slow": {"fault": "x", "file": "f", "how": [], "cases": 3}}
    assert not journals.Journal(tmp_path, "c", "another").batches
    assert not journals.Journal(tmp_path, "d", "a seed/7").batches


def test_the_cases_of_a_torn_line_are_run_again_and_the_next_line_is_whole(tmp_path):
    journal = journals.Journal(tmp_path, "c", "1")
    journal.note(batch_of(0, 4))
    journal.note(batch_of(4, 8))
    journal.path.write_text(journal.path.read_text()[:-9])

    again = journals.Journal(tmp_path, "c", "1")
    assert list(again.missing(0, 8, 4)) == [(4, 8)]
    again.note(batch_of(4, 8))
    assert not list(journals.Journal(tmp_path, "c", "1").missing(0, 8, 4))


def test_a_change_that_is_not_committed_is_another_version(tmp_path):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)  # noqa: S607 - as it is on the path

    assert journals.version_of(tmp_path) == "no-commit"
    git("init", "--quiet")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "--quiet", "--message=a")
    clean = journals.version_of(tmp_path)
    (tmp_path / "b").write_text("1")
    one = journals.version_of(tmp_path)
    (tmp_path / "b").write_text("2")
    another = journals.version_of(tmp_path)

    assert len({clean, one, another}) == 3
    assert one.startswith(clean)


@pytest.fixture
def build(tmp_path, monkeypatch):
    """The folder into which a count writes."""
    monkeypatch.setattr(batches, "BUILD", tmp_path)
    monkeypatch.setattr(fuzz, "BATCH", 4)
    return tmp_path


def run(*words):
    """Count on this process."""
    return fuzz.main(["--seed=t", "--processes=1", *words])


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_count_that_was_stopped_goes_on_where_it_was(build, monkeypatch, capsys, sent):
    asked, whole = [], batches.batch

    def stopped(part):
        asked.append(part)
        if len(asked) == 2:
            signal.raise_signal(sent)
        return whole(part)

    monkeypatch.setattr(batches, "batch", stopped)
    assert run("--count=10") == 130
    assert "the same command goes on" in capsys.readouterr().out
    assert run("--count=10") == 0

    assert asked == [("t", 0, 4), ("t", 4, 8), ("t", 8, 10)]
    told = capsys.readouterr().out
    assert "fuzz: 2 cases" in told
    assert "10 of 10 cases" in told
    summary = json.loads((build / "summary.json").read_text())
    assert (summary["cases"], summary["faults"]) == (10, {})
    assert run("--count=10") == 0
    assert len(asked) == 3


def test_two_processes_count_too():
    seed = f"two-{uuid.uuid4()}"  # what is through would not be run again
    words = [sys.executable, "-m", "tests.fuzz", "--seed", seed, "--count=2", "--processes=2"]
    done = subprocess.run(words, cwd=fuzz._ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert "2 of 2 cases" in done.stdout, done.stderr


def test_a_way_to_fail_is_told_with_the_command_that_runs_its_case_again(build, monkeypatch, capsys):
    def broken(story, _invariants):
        return [("a_rule", "is broken")] if story.case.how[0] in ("t/5", "t/6") else []

    monkeypatch.setattr(batches.invariants, "faults", broken)
    assert run("--count=8") == 1

    told = capsys.readouterr().out
    assert told.count("a_rule: is broken") == 1
    (command,) = [line for line in told.splitlines() if "python -m tests.fuzz" in line]
    assert command.strip().startswith("python -m tests.fuzz --case")
    assert run("--count=8") == 1, "what was found before the count was stopped is told again"
    faults = json.loads((build / "summary.json").read_text())["faults"]
    assert faults["a_rule: is broken"]["cases"] == 2


def test_a_case_runs_again_by_its_seed_and_number(build, capsys):
    assert run("--case=t/5") == 0
    assert "mutate: HTTP 200" in capsys.readouterr().out
