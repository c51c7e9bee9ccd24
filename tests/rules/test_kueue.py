"""What a job says to Kueue where Kueue does not read it; what Kueue refuses, it says itself."""

from __future__ import annotations

import pytest

from muster.strategies.checks.job_checks import check_job
from tests.frameworks.builders import job_of, jobset, replicated_job

DOMAIN = "kueue.x-k8s.io/"


def told(labels=None, annotations=None):
    document = jobset(replicated_job("node", {"name": "node", "image": "i", "command": ["torchrun", "x.py"]}))
    document["metadata"]["labels"] |= labels or {}
    document["metadata"]["annotations"] = annotations or {}
    return [(each.severity.value, each.message) for each in check_job(job_of(document)) if each.rule == "core/kueue"]


@pytest.mark.parametrize(
    ("annotations", "said"),
    [({"podset-required-topology": "cloud/rack"}, "pod templates alone"), ({"queue-name": "team"}, "from a label")],
)
def test_what_stands_at_another_place_is_read_by_nobody(annotations, said):
    ((severity, message),) = told(annotations={f"{DOMAIN}{key}": value for key, value in annotations.items()})
    assert severity == "warning"
    assert said in message


def test_a_queue_in_a_label_is_silent():
    assert told({f"{DOMAIN}queue-name": "team"}, {f"{DOMAIN}queue-name": "team"}) == []
