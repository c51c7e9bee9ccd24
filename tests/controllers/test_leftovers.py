from __future__ import annotations

import asyncio
import time

import pytest

from tests.controllers.documents import jobset, pod

CLAIM = "muster-sampler-0"
OF_A_JOB = {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}
TRACKED = {**OF_A_JOB, "finalizers": ["batch.kubernetes.io/job-tracking"]}


async def two_pods(cluster, **metadata):
    for name in ("a", "b"):
        cluster.server.put(jobset(name, (CLAIM, 1)))
        cluster.server.put(pod(f"{name}-0", CLAIM, job=name, **metadata))
    await cluster.until(lambda: cluster.open() == ["a-0", "b-0"])


def is_there(cluster, name="a-0"):
    return cluster.server.get("Pod", name, "team-a") is not None


async def test_an_ended_pod_of_a_job_goes_after_a_while_when_others_use_its_claim(cluster):
    cluster.start(ended_pods=0.2)
    await two_pods(cluster, **OF_A_JOB)
    since = time.monotonic()
    cluster.end("a-0")
    await cluster.until(lambda: not is_there(cluster))
    assert time.monotonic() - since >= 0.2
    await cluster.until(lambda: cluster.seats(CLAIM) == cluster.open() == ["b-0"])


@pytest.mark.parametrize("metadata", [{}, TRACKED], ids=["nobody's", "not counted yet"])
async def test_a_pod_that_its_job_has_not_counted_or_that_has_none_stays(cluster, metadata):
    cluster.start(ended_pods=0.05)
    await two_pods(cluster, **metadata)
    cluster.end("a-0")
    await cluster.until(lambda: cluster.seats(CLAIM) == ["b-0"])
    await asyncio.sleep(0.3)
    assert is_there(cluster)


async def test_the_last_pod_of_a_claim_stays_when_it_ends(cluster):
    cluster.start(ended_pods=0.05)
    await two_pods(cluster, **OF_A_JOB)
    cluster.end("a-0")
    await cluster.until(lambda: not is_there(cluster))
    cluster.end("b-0")
    await cluster.until(lambda: cluster.seats(CLAIM) == [])
    await asyncio.sleep(0.3)
    assert is_there(cluster, "b-0")


async def test_null_keeps_all_pods(cluster):
    cluster.start(ended_pods=None)
    await two_pods(cluster, **OF_A_JOB)
    cluster.end("a-0")
    await cluster.until(lambda: cluster.seats(CLAIM) == ["b-0"])
    await asyncio.sleep(0.3)
    assert is_there(cluster)
