"""What docs/sharing.md shows can be used as it is shown, and it names every rule."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from muster.strategies.claims import requests
from muster.strategies.frameworks import builtin
from muster.webhook import configs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "sharing.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def test_the_profiles_shown_are_a_configuration():
    (shown,) = (block for block in BLOCKS if "four-gpus:" in block)
    made = configs.parse(shown.encode(), "docs/sharing.md").policy(builtin.load(plugins=False))
    assert sorted(made.profiles) == ["four-gpus", "part", "sampler-seat"]


def test_the_annotations_shown_can_be_read():
    shown = [yaml.safe_load(block) for block in BLOCKS if "resource-claims" in block]
    for value in (value for each in shown for value in each.values()):
        claims, problems = requests.read(value, "annotation")
        assert claims
        assert problems == ()


def test_every_rule_is_listed_once_and_no_other():
    rooms = ((ROOT / "strategies" / "claims").glob("*.py"), [ROOT / "strategies" / "checks" / "claim_checks.py"])
    sources = "".join(file.read_text() for files in rooms for file in files)
    rules = set(re.findall(r'"(claims/[a-z-]+)"', sources))
    table = TEXT.partition("### Findings")[2].partition("\n##")[0]
    assert sorted(re.findall(r"`(claims/[a-z-]+)`", table)) == sorted(rules)
