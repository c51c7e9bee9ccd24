"""Every member of the source kinds has a row in the table, so that none is dropped in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.webhook.cli.migrations import migration_notes
from tests.migrations import jobs

MEMBERS = json.loads(Path(__file__).with_name("members.json").read_text())
GENERAL = {"spec", "spec.runPolicy.schedulingPolicy"}


def fits(row, member):
    parts = member.split(".")
    return len(row) <= len(parts) and all(one in ("*", other) for one, other in zip(row, parts, strict=False))


@pytest.mark.parametrize(("kind", "member"), [(kind, each) for kind, found in MEMBERS.items() for each in found])
def test_a_member_of_a_source_kind_has_a_row(kind, member):
    specific = [row for row in migration_notes.rows(kind) if fits(row, member) and row != ("spec",)]
    assert specific, f"{kind} {member}: write a row in webhook/cli/migrations/members.toml"


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_row_is_about_a_member_that_exists(kind):
    inside = {"restartPolicy"}  # of a pod template, which is one member
    for row in migration_notes.rows(kind):
        if row[0] == "spec" and ".".join(row) not in GENERAL and row[-1] not in inside and kind != "TrainJob":
            assert any(fits(row, member) for member in MEMBERS[kind]), f"{kind}: no member is {'.'.join(row)}"


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_row_says_where_a_member_goes_or_why_it_does_not(kind):
    for row, found in migration_notes.rows(kind).items():
        for case in (found, *found.cases.values()):
            assert case.fate in ("written", "lost") or case.to, row
            assert case.fate not in ("changed", "lost", "code") or case.text.endswith("."), row


def test_a_member_without_a_row_is_reported(migrated):
    found = migrated(jobs.pytorch(spec={"newMember": {"inside": 1}}))
    assert found.lost["spec.newMember"].startswith("muster migrate does not know this member")


def test_a_member_that_is_empty_or_off_is_not_reported(migrated):
    empty = {"runPolicy": {"schedulingPolicy": {}}, "elasticPolicy": None}
    assert migrated(jobs.pytorch(spec=empty)).lost == {}
    assert "spec.runPolicy.schedulingPolicy" not in migrated(jobs.pytorch(spec=empty)).changed
    off = jobs.single("TFJob", {"Worker": 1})
    off["spec"]["enableDynamicWorker"] = False
    assert migrated(off).lost == {}


def test_a_number_of_0_is_reported(migrated):
    assert migrated(jobs.pytorch(spec={"runPolicy": {"ttlSecondsAfterFinished": 0}})).lost
