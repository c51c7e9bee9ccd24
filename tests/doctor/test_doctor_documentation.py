"""docs/operate.md names every check, need and option that there is, and no other."""

from __future__ import annotations

import re

import pytest

from muster.webhook.cli import commandline
from muster.webhook.cli.commands import doctor
from muster.webhook.doctor import examination
from muster.webhook.doctor.live_installation import Options
from tests.manifests import files

TEXT = (files.FOLDER.parent / "docs" / "operate.md").read_text()
CHECKS = ["api-server", *(check.name for check in examination.CHECKS)]


def section(title):
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_check_is_described_in_order():
    assert re.findall(r"^\| `([a-z-]+)` \|", section("Checks"), re.MULTILINE) == CHECKS


def test_every_option_is_described():
    actions = commandline.parser().parse_args(["doctor"])
    options = {f"--{name.replace('_', '-')}" for name in vars(actions)} - {"--command", "--version"}
    assert set(re.findall(r"--[a-z][a-z-]+", TEXT.partition("\n## ")[0])) == options


@pytest.mark.parametrize("check", examination.CHECKS, ids=lambda check: check.name)
def test_every_permission_is_named(check):
    needs = section("Permissions")
    (row,) = [line for line in needs.splitlines() if line.startswith("|") and f"`{check.name}`" in line.split("|")[1]]
    for need in check.needs(Options(guard=True)):
        if "webhookconfigurations" in need.resource and ("the same" in row or "webhook configurations" in row):
            continue
        assert need.resource in row
        assert need.verb in row


def test_the_schema_of_the_json_is_named():
    assert f"`{doctor.SCHEMA}`" in section("JSON")
