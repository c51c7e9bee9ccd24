"""Full names of pod 0: a pod's name ends with its namespace, and that of another namespace is another pod's."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import container, jobset, part
from tests.support import jobs

RULE = "core/other-coordinator"
POD = "set-job-0-0.set"
ENDS = ("", ".svc", ".svc.cluster.local", ".svc.example.org")
WORDS = {
    "static": ("torchrun", "--nnodes=2", "--node_rank=$(JOB_COMPLETION_INDEX)", "--master_addr={host}", "x.py"),
    "an endpoint": ("torchrun", "--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint={host}:29500", "x.py"),
    "a shell": ("sh", "-c", "torchrun --nnodes=2 --node_rank=$JOB_COMPLETION_INDEX --master_addr {host} x.py"),
}


def said(words, host):
    command = [word.format(host=host) for word in words]
    document = jobset(part("job", container(*command, gpus=8), pods=2))
    return [each.message for each in sets.decided(document)[1] if each.rule == RULE]


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("end", ENDS)
def test_the_name_in_another_namespace_is_warned_of(words, end):
    (message,) = said(words, f"{POD}.prod{end}")
    assert "namespace prod" in message
    assert jobs.NAMESPACE in message


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("host", [POD, *(f"{POD}.{jobs.NAMESPACE}{end}" for end in ENDS), f"{POD}.$(NAMESPACE).svc"])
def test_the_name_in_the_namespace_of_the_job_is_right(words, host):
    assert said(words, host) == []
