"""`muster sessions` is a program of its own, which is there where its extra is installed."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from muster.webhook.cli import main as cli


@pytest.fixture
def installed(monkeypatch):
    """Have names found, and return how the program was called."""
    called = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(os, "execv", lambda *args: called.append(args))
    return called


def without(monkeypatch, name):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda each: None if each == name else real("json"))


@pytest.mark.parametrize("name", ["muster.sessions", "tinker", "zstandard"])
@pytest.mark.parametrize("words", [["ls"], ["--help"], []])
def test_without_its_extra_one_sentence_says_what_to_install(monkeypatch, capsys, name, words):
    without(monkeypatch, name)
    assert cli.main(["sessions", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "muster: `muster sessions` needs the extra `sessions`, which is not installed here: run"
        " pip install 'muster-admission[sessions]'\n"
    )


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["-v"], ["show", "abc", "--follow", "--root", "a b"], ["ls", "--", "x"], ["--no-such"]]
)
def test_every_word_reaches_the_program_as_it_is(installed, words):
    cli.main(["sessions", *words])
    assert installed == [(sys.executable, [sys.executable, "-P", "-m", "muster.sessions.cli", *words])]
