"""Services that a training speaks to, and what may give its pod a key for them."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import NEEDED, found, gpus, runtime, trainjob

TOKEN = {"valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}
SECRET = {"volumes": [{"name": "keys", "secret": {"secretName": "keys"}}]}


def told(*args, env=(), pod=None):
    job = trainjob({"command": ["trl", "sft"], "args": [*NEEDED, *args], "env": list(env)})
    governing = runtime("trl", resources=gpus(1), pod=pod)
    return [each.severity for each in found("trl", job, governing) if each.rule == "trl/credentials"]


def test_a_push_without_a_token_and_reports_without_a_key_are_told():
    assert told("--push_to_hub") == [Severity.NOTE]
    assert told("--report_to", "wandb") == [Severity.NOTE]


@pytest.mark.parametrize(
    "quiet",
    [
        {"args": ("--push_to_hub",), "env": [{"name": "HF_TOKEN", **TOKEN}]},
        {"args": ("--push_to_hub", "--hub_token", "$(T)")},
        {"args": ("--push_to_hub",), "pod": SECRET},
        {"args": ("--report_to", "wandb"), "env": [{"name": "WANDB_MODE", "value": "offline"}]},
        {"args": ("--report_to", "tensorboard")},
        {"args": ()},
    ],
)
def test_what_has_a_key_or_needs_none_is_passed_over(quiet):
    args = quiet.pop("args")
    assert told(*args, **quiet) == []
