"""Pods of several containers: the one that trains gets the rendezvous, wherever it stands in the list."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import SERVE, TORCHRUN, container, jobset, part

SIDECARS = {
    "a proxy": container(name="istio-proxy", image="istio/proxyv2:1", args=["proxy", "sidecar"]),
    "a log shipper": container(name="fluent-bit", image="fluent/fluent-bit:4"),
    "a program that ships logs": container("python", "/ship.py", name="shipper", image="ship:1"),
    "a tail": container("tail", "-F", "/logs/train.log", name="view"),
    "an exporter": container("dcgm-exporter", name="metrics"),
    "one called node": container(name="node", image="prom/node-exporter:1"),
}
TRAINERS = {
    "torchrun on GPUs": container(*TORCHRUN, name="app", gpus=4),
    "torchrun on CPU": container(*TORCHRUN, name="app"),
    "an image on GPUs": container(name="app", gpus=4),
    "a script on GPUs": container("/run.sh", name="app", gpus=4),
}


@pytest.mark.parametrize("sidecar", SIDECARS.values(), ids=SIDECARS)
@pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS)
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_sidecar_is_not_the_training(sidecar, trainer, first):
    pod = (sidecar, trainer) if first else (trainer, sidecar)
    assert sets.touched(jobset(part("job", *pod, pods=2))) == [("job", "app")]


def test_a_server_in_the_pod_of_the_trainer_is_not_the_training():
    server, trainer = container(*SERVE, name="vllm", gpus=1), container(*TORCHRUN, name="app", gpus=7)
    document, _ = sets.decided(jobset(part("job", server, trainer, pods=2)))
    assert sets.env_of(document, "job", 1)["PET_NPROC_PER_NODE"] == "7"
    assert sets.env_of(document, "job", 0) == {}


def test_a_client_in_the_pod_of_a_server_is_not_the_server():
    client, server = container("python", "warm.py", name="client"), container(*SERVE, name="engine")
    assert sets.touched(jobset(part("job", client, server), framework="vllm")) == [("job", "engine")]


def test_a_native_sidecar_is_not_the_training():
    sidecar = container(*SERVE, name="vllm", gpus=1, restartPolicy="Always")
    job = part("job", container(*TORCHRUN, name="app", gpus=7), pods=2, pod={"initContainers": [sidecar]})
    document, _ = sets.decided(jobset(job))
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["initContainers"] == [sidecar]
    assert sets.env_of(document, "job")["PET_NPROC_PER_NODE"] == "7"


def test_a_claim_of_devices_counts_as_devices():
    plain = container("/run.sh", name="first")
    claiming = {**container("/run.sh", name="app"), "resources": {"claims": [{"name": "gpu"}]}}
    pod = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}
    assert sets.touched(jobset(part("job", plain, claiming, pods=2, pod=pod))) == [("job", "app")]
