"""Commands with a slip in them: each is told in one sentence, and nothing is made or served."""

from __future__ import annotations

import re
import sys

import pytest

from muster.sessions.cli.main import main
from tests.sessions.gateways import ROOT

SECRET = "passed"  # of nobody
PAGE = (
    (ROOT / "docs" / "sessions.md").read_text().partition("### When `serve` refuses to start")[2].partition("\n##")[0]
)
LISTED = re.findall(r"^\| `(--[^`]*)` \| `([^`]*)` \|$", PAGE, re.MULTILINE)
SERVE = ("serve", "--root", "state", "--base")
PODS = (*("--platform", "kubernetes", "--account", "/nowhere", "--namespace", "a", "--image", "b", "--volume", "c"),)


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """A folder with a model, a model that is none, and a journal that is none."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"model": "{}", "none": "3"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "journal.sqlite").write_bytes(b"x" * 4096)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*SERVE, "org/model"), "not the name of a model on a hub"),
        ((*SERVE, "none"), "has no config.json that can be read"),
        ((*SERVE, "model", "--port", "70000"), "from 0 to 65535"),
        ((*SERVE, "model", "--metrics", "-1"), "from 0 to 65535"),
        ((*SERVE, "model", "--context", "0"), "from 1 to"),
        ((*SERVE, "model", "--lease", "nan"), "from 1 to 3600"),
        ((*SERVE, "model", *PODS[:-2]), "--volume: is missing"),
        ((*SERVE, "model", *PODS), "this process is in no pod: set KUBERNETES_SERVICE_HOST"),
        ((*SERVE, "model", *PODS, "--device-lease", "a"), "--device-lease: a: pass the full path of a file"),
        ((*SERVE, "model", *PODS, "--device-lease", "/a"), "--device-lease: /a: pass the full path of a file"),
        ((*SERVE, "model", *PODS, "--device-lease", "/a/b"), "/a/b: engines have no device without --profile"),
        ((*SERVE, "model", *PODS, "--full", "--ranks", "2"), "--ranks: 2: engines in pods have one rank"),
        ((*SERVE, "model", *PODS, "--sampler-python", sys.executable), "--sampler-python: engines run in the image"),
        (("keys", "create", "", "--root", "state"), "is not a name"),
        (("keys", "create", "a b", "--root", "state"), "is not a name"),
        (("keys", "create", "a", "--expires", "0s", "--root", "state"), "leave it out for no end"),
        (("keys", "create", "a", "--expires", "30", "--root", "state"), "write a number with s, m, h or d"),
        (("keys", "rotate", "a", "--overlap", "1y", "--root", "state"), "write a number with s, m, h or d"),
        (("keys", "ls", "--root", "state"), "pass the --root of `serve`"),
        (("keys", "revoke", "a", "--root", "state"), "pass the --root of `serve`"),
        (("keys", "rotate", "a", "--root", "state"), "pass the --root of `serve`"),
        (("ls", "--root", "state", "--journal", f"postgresql://a:{SECRET}@127.0.0.1:1/b"), "Connection refused"),
        (
            ("ls", "--root", "state", "--journal", f"postgresql://a:{SECRET}@b/c?d=1"),
            "is not a URL that PostgreSQL reads",
        ),
        (("ls", "--root", "torn"), "is not the journal of a Gateway"),
    ],
)
def test_a_slip_is_told_in_one_sentence(tmp_path, capfd, words, told):
    try:
        code = main(words)
    except SystemExit as ended:  # as argparse ends
        code = ended.code
    said = capfd.readouterr().err
    assert code == 2
    assert told in " ".join(said.split())
    assert "Traceback" not in said
    assert SECRET not in said
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("words", [("keys", "create", "team-a"), ("keys", "ls"), ("ls",), ("serve", "--base", "model")])
def test_without_a_journal_given_it_is_that_of_the_environment_and_no_file_is_made_instead(
    tmp_path, monkeypatch, capfd, words
):
    monkeypatch.setenv("MUSTER_JOURNAL", f"mysql://a:{SECRET}@b/c")
    assert main((*words, "--root", "state")) == 2
    said = capfd.readouterr().err
    assert "--journal: is not a URL such as postgresql://" in said
    assert SECRET not in said
    assert not (tmp_path / "state" / "journal.sqlite").exists()


def test_an_empty_journal_in_the_environment_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSTER_JOURNAL", "")
    assert main(("keys", "create", "team-a", "--root", "state")) == 0
    assert (tmp_path / "state" / "journal.sqlite").exists()


def test_the_page_lists_refusals():
    assert len(LISTED) == 5


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        *LISTED,
        ("--metrics -1", "'-1' is not a whole number from 0 to 65535"),
        ("--context 0", "'0' is not a whole number from 1 to 2147483647"),
        ("--lease 0.5", "'0.5' is not a number of seconds from 1 to 3600"),
        ("--url example.org", "begins no link; write https://HOST"),
        ("--journal mysql://db", "--journal: is not a URL such as postgresql://USER@HOST/DATABASE"),
        ("--limits model/config.json", "is not TOML"),
        ("--audit nowhere/log", "its folder is missing, or it is one"),
        ("--sampler whole", "whole reads what --full trains, and the others read adapters"),
        ("--ranks 2", "all weights are trained on several, and nothing else: pass --full alone"),
        ("--full --ranks 65", "--ranks: 65: pass 1 to 64"),
        ("--sampler-option rank", "--sampler-option: rank: pass KEY=VALUE"),
        ("--trainer-python nowhere", "--trainer-python: nowhere: is not a program"),
        ("--namespace team-a", "--namespace: is for --platform kubernetes: pass that too, or leave it out"),
    ],
)
def test_a_wrong_option_of_serve_is_refused_in_the_words_of_the_page(capfd, typed, told):
    try:
        code = main((*SERVE, "model", *typed.split()))
    except SystemExit as ended:
        code = ended.code
    said = " ".join(capfd.readouterr().err.split())
    assert code == 2
    assert told in said
    assert "Traceback" not in said
