"""A log that a Gateway of RL sessions wrote, as `muster audit` reads it."""

from __future__ import annotations

import pytest

from muster.audit import record_schema
from muster.sessions.runs import audits
from muster.strategies.changes import restores
from muster.webhook.cli.main import main

PATH = "tinker://s1:train:0/weights/step-1"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "sessions.log"
    writer = audits.writer(path)
    for event, details in (
        ("session_created", {"session_id": "s1"}),
        ("checkpoint_read", {"tinker_path": PATH, "purpose": "copy", "user": "tml:user:team-b"}),
    ):
        assert writer.submit(audits.record("team-a", event, 1_790_000_000.0, details))
    assert writer.close(60)
    return path


def test_its_chain_is_verified(log, capsys):
    assert main(["audit", "verify", str(log)]) == 0
    assert "the chain is intact" in capsys.readouterr().err
    log.write_text(log.read_text().replace("team-a", "team-c"))
    assert main(["audit", "verify", str(log)]) == 1
    assert "edited: record 1 does not match its hash" in capsys.readouterr().out


def test_its_events_are_listed_by_tenant_and_user(log, capsys):
    assert main(["audit", "ls", str(log), "--namespace", "team-a", "--user", "team-b"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"2026-09-21T14:13:20Z  #2  checkpoint_read  Checkpoint team-a/{PATH}  user=team-b  uid=")


def test_the_rule_that_records_write_out_is_that_of_the_domain():
    assert frozenset({restores.APPLIED_RULE}) == record_schema.BOOKKEEPING
