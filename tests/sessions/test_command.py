"""`muster sessions` as it is typed."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.sessions.gateways import ROOT


def muster(*words, cwd=ROOT):
    code = f"import sys; from muster.webhook.cli.main import main; sys.exit(main({list(words)!r}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def test_the_command_becomes_the_program_with_its_output_and_exit_code(tmp_path):
    made = muster("sessions", "keys", "create", "team-a", "--root", str(tmp_path))
    assert (made.returncode, made.stderr) == (0, "")
    listed = muster("sessions", "keys", "ls", "--root", str(tmp_path))
    assert listed.stdout.startswith(f"{made.stdout[:12]}  team-a ")
    assert muster("sessions", "show", "none", "--root", str(tmp_path)).returncode == 1
    refused = muster("sessions", "sing")
    assert refused.returncode == 2
    assert refused.stderr.startswith("muster: argument COMMAND: invalid choice: 'sing' (choose from 'serve', ")


def test_a_folder_of_that_name_where_it_is_called_is_not_run(tmp_path):
    trap = tmp_path / "muster" / "sessions" / "cli"
    trap.mkdir(parents=True)
    for each in (*(folder / "__init__.py" for folder in (trap, *trap.parents[:2])), trap / "__main__.py"):
        each.write_text("print('trapped')")
    made = muster("sessions", "keys", "create", "a", "--root", str(tmp_path / "state"), cwd=tmp_path)
    assert (made.returncode, made.stdout[:4], made.stderr) == (0, "tml-", "")


def test_what_an_engine_does_not_take_is_said_in_one_sentence_and_ends_serve(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    words = ["--root", str(tmp_path / "state"), "--base", str(tmp_path), "--port", "0"]
    engines = ["--trainer", "tests.sessions.bigram:Trainer", "--sampler", "tests.sessions.bigram:Sampler"]
    served = muster("sessions", "serve", *words, *engines, "--sampler-option", "memroy=0.4")
    told = "the sampler cannot start: --sampler-option: memroy: Sampler does not take it: leave it out"
    assert (served.returncode, served.stderr) == (2, f"sessions: {told}\n")
