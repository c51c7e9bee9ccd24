"""The golden cases of tests/golden: documents, and what Trainer's own Go code made of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


@cache
def content(name):
    return json.loads((FOLDER / name / "cases.json").read_text())


def cases(name):
    """All cases of a file by name."""
    return {case["name"]: case for case in content(name)["cases"]}


def runtime(name, case):
    return content(name)["runtimes"][case["runtime"]]
