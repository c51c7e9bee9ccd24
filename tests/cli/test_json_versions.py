"""Every JSON that a command prints says which form it has."""

from __future__ import annotations

import argparse
import json

import pytest

from muster.webhook.cli import commandline
from tests.cli import jobs

ELSEWHERE = {
    "audit ls": "records have their own, muster.dev/audit/v1; test_audit",
    "audit show": "the same",
    "claims": "needs a cluster; test_claims",
    "status": "needs a cluster; stories/test_status",
    "test": "needs cases; test_team_tests",
    "doctor": "needs a cluster; tests/doctor/test_command",
    "migrate": "needs jobs of other kinds; tests/migrations/test_command",
}
"""Commands whose versions other tests look at."""
HERE = {
    "check": ["check", "-"],
    "explain": ["explain", "-"],
    "rule": ["rule", "trl/launch"],
    "rules": ["rule"],
    "strategies": ["strategies", "ls"],
}


def with_json(parser, name=""):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each, inner in action.choices.items():
                yield from with_json(inner, f"{name} {each}".strip())
        elif action.dest == "output" and "json" in action.choices:
            yield name


def test_no_command_is_forgotten():
    assert set(with_json(commandline.parser())) == {
        *ELSEWHERE,
        *(args[0] for args in HERE.values()),
        "strategies ls",
        "render",
    }


@pytest.mark.parametrize(("name", "args"), HERE.items())
def test_json_names_its_form_and_version(muster, name, args):
    shown = muster(*args, "-o", "json", stdin=jobs.stream(jobs.two_nodes())).json()
    shown = shown if isinstance(shown, list) else [shown]
    assert shown
    assert {each["schema"] for each in shown} == {f"muster.dev/{name}/v1"}


def test_each_line_of_patches_names_its_version(muster):
    lines = muster("render", "-o", "patch", "-", stdin=jobs.stream(jobs.two_nodes())).out.splitlines()
    assert [json.loads(line)["schema"] for line in lines] == ["muster.dev/patch/v1"]
