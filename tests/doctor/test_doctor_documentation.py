"""docs/operate.md names every check and need that there is, and no other; options are in the generated reference."""

from __future__ import annotations

import pytest

from muster.webhook.cli.commands import doctor
from muster.webhook.doctor import examination
from muster.webhook.doctor.live_installation import Options
from tests.operations import pages

PAGE = "docs/operate.md"
ROWS = {name.strip("`"): needs for name, _, needs in pages.rows(pages.section(PAGE, "Checks"))}


def test_every_check_is_described_in_order():
    assert list(ROWS) == ["api-server", *(check.name for check in examination.CHECKS)]


@pytest.mark.parametrize("check", examination.CHECKS, ids=lambda check: check.name)
def test_every_permission_is_named(check):
    row = ROWS[check.name]
    for need in check.needs(Options(guard=True)):
        if "webhookconfigurations" in need.resource and "webhook configurations" in row:
            continue
        assert need.resource in row
        assert need.verb in row


def test_the_schema_of_the_json_is_named():
    assert f"`{doctor.SCHEMA}`" in pages.section(PAGE, "JSON")
