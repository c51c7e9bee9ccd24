"""The committed schemas are those of the pinned Trainer and JobSet, type for type."""

from __future__ import annotations

import json
from importlib import resources

from tests.contract.schemas import generate


def test_the_schemas_are_those_of_the_pinned_modules():
    committed = resources.files("muster.webhook.cli.schemas").joinpath("schemas.json").read_text(encoding="utf-8")
    generated = generate.text()
    ours, theirs = json.loads(committed), json.loads(generated)
    for part in ("kinds", "shapes"):
        names = ours[part].keys() | theirs[part].keys()
        moved = sorted(name for name in names if ours[part].get(name) != theirs[part].get(name))
        assert not moved, f"{part} {moved} differ from upstream: run generate.py again and read what changed"
    assert committed == generated, "same facts, other layout or versions: write the file with generate.py"
