"""Generations: what the labels of nodes say about the compute capability of their GPUs."""

from __future__ import annotations

import pytest

from muster.strategies.documents import decoding, model
from muster.strategies.launches import capabilities

PRODUCT, MAJOR = "nvidia.com/gpu.product", "nvidia.com/gpu.compute.major"
GKE, TYPE = "cloud.google.com/gke-accelerator", "node.kubernetes.io/instance-type"
LABELLED = {
    "a T4": ({PRODUCT: "Tesla-T4"}, (7, 5)),
    "a shared T4": ({PRODUCT: "Tesla-T4-SHARED"}, (7, 5)),
    "a V100": ({PRODUCT: "Tesla-V100-SXM2-32GB"}, (7, 0)),
    "an A100": ({PRODUCT: "NVIDIA-A100-SXM4-80GB"}, (8, 0)),
    "a slice of an A100": ({PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, (8, 0)),
    "an A10G": ({PRODUCT: "NVIDIA-A10G"}, (8, 6)),
    "an L40S": ({PRODUCT: "NVIDIA-L40S"}, (8, 9)),
    "an H100": ({PRODUCT: "NVIDIA-H100-80GB-HBM3"}, (9, 0)),
    "a card of Turing": ({PRODUCT: "Quadro-RTX-6000"}, (7, 5)),
    "a card for games": ({PRODUCT: "NVIDIA-GeForce-RTX-3090"}, (8, 6)),
    "a family": ({"nvidia.com/gpu.family": "volta"}, (7, 2)),
    "a major number": ({MAJOR: "7"}, (7, 9)),
    "both numbers": ({MAJOR: "7", "nvidia.com/gpu.compute.minor": "0"}, (7, 0)),
    "GKE": ({GKE: "nvidia-tesla-p100"}, (6, 0)),
    "GKE, a newer name": ({GKE: "nvidia-h100-mega-80gb"}, (9, 0)),
    "EC2": ({TYPE: "g4dn.12xlarge"}, (7, 5)),
    "Azure": ({TYPE: "Standard_NC24s_v3"}, (7, 0)),
    "Azure, an A100": ({TYPE: "Standard_ND96asr_A100_v4"}, (8, 0)),
    "Karpenter": ({"karpenter.k8s.aws/instance-gpu-name": "t4"}, (7, 5)),
    "two labels": ({PRODUCT: "NVIDIA-A100-SXM4-80GB", TYPE: "g4dn.xlarge"}, (7, 5)),
}


@pytest.mark.parametrize(("selector", "capability"), LABELLED.values(), ids=LABELLED)
def test_a_label_bounds_the_capability(selector, capability):
    assert capabilities.find(decoding.read({"nodeSelector": selector}, model.PodSpec)).capability == capability


UNKNOWN = {
    "no label": {},
    "another label": {"pool": "tesla-t4"},
    "a product of the future": {PRODUCT: "NVIDIA-Z9000"},
    "an Ada of the name of a Turing": {PRODUCT: "NVIDIA-RTX-6000-Ada-Generation"},
    "a Blackwell of a family of several": {"nvidia.com/gpu.family": "blackwell"},
    "a machine with GPUs of choice": {TYPE: "n1-standard-8"},
    "a value that is no text": {PRODUCT: 4},
    "a number that is none": {MAJOR: "seven"},
}


@pytest.mark.parametrize("selector", UNKNOWN.values(), ids=UNKNOWN)
def test_what_a_label_does_not_say_is_not_known(selector):
    assert capabilities.find(decoding.read({"nodeSelector": selector}, model.PodSpec)) is None


def affinity(*terms):
    required = {"nodeSelectorTerms": [{"matchExpressions": list(each)} for each in terms]}
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return decoding.read({"affinity": wanted}, model.PodSpec)


def among(*values, key=PRODUCT, operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def test_the_newest_of_the_nodes_that_a_term_allows_is_the_bound():
    assert capabilities.find(affinity([among("Tesla-T4", "Tesla-V100-SXM2-32GB")])).capability == (7, 5)
    assert capabilities.find(affinity([among("Tesla-T4")], [among("NVIDIA-A10")])).capability == (8, 6)
    assert capabilities.find(affinity([among("8", key=MAJOR, operator="Lt")])).capability == (7, 9)


def test_a_term_without_a_bound_allows_every_node():
    assert capabilities.find(affinity([among("Tesla-T4")], [among("a", key="zone")])) is None
    assert capabilities.find(affinity([among("Tesla-T4", "NVIDIA-Z9000")])) is None
    assert capabilities.find(affinity([among("Tesla-T4", operator="NotIn")])) is None
