"""Devices: what the amounts of resources mean, vendor by vendor."""

from __future__ import annotations

import pytest

from muster.strategies.documents.model import PodClaim, ResourceClaimUse, Resources
from muster.strategies.platform import devices

COUNTED = {
    "NVIDIA": ({"nvidia.com/gpu": 4}, 4, "gpu"),
    "AMD": ({"amd.com/gpu": "8"}, 8, "gpu"),
    "partitions of AMD": ({"amd.com/cpx_nps4": 8}, 8, "other"),
    "Intel, old driver": ({"gpu.intel.com/i915": 2}, 2, "gpu"),
    "Intel, new driver": ({"gpu.intel.com/xe": 2}, 2, "gpu"),
    "Gaudi": ({"habana.ai/gaudi": 8}, 8, "other"),
    "cores of Neuron": ({"aws.amazon.com/neuroncore": 32}, 32, "other"),
    "Ascend": ({"huawei.com/Ascend910": 8}, 8, "other"),
    "Ascend 910B3": ({"huawei.com/Ascend910B3": 8}, 8, "other"),
    "a virtual Ascend": ({"huawei.com/Ascend310P-2c.1cpu": 1}, 1, "other"),
    "memory beside an Ascend": ({"huawei.com/Ascend910B": 1, "huawei.com/Ascend910B-memory": 2000}, 1, "other"),
    "Cambricon": ({"cambricon.com/mlu": 4}, 4, "other"),
    "Hygon": ({"hygon.com/dcunum": 2, "hygon.com/dcumem": 2000, "hygon.com/dcucores": 60}, 2, "other"),
    "Moore Threads": ({"mthreads.com/vgpu": 2, "mthreads.com/sgpu-memory": 32}, 2, "gpu"),
    "MetaX": ({"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 60}, 1, "gpu"),
    "Enflame": ({"enflame.com/vgcu": 1, "enflame.com/vgcu-percentage": 22}, 1, "other"),
    "any vendor's gpu": ({"iluvatar.ai/gpu": 2}, 2, "gpu"),
    "HAMi": ({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}, 2, "gpu"),
    "Volcano": ({"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 3000}, 2, "gpu"),
    "koordinator, one": ({"koordinator.sh/gpu": 100}, 1, "gpu"),
    "koordinator, two": ({"koordinator.sh/gpu": "200"}, 2, "gpu"),
    "koordinator, half of one": ({"koordinator.sh/gpu": 50}, 1, "gpu"),
    "koordinator, core and memory": (
        {"koordinator.sh/gpu-core": 200, "koordinator.sh/gpu-memory-ratio": 200},
        2,
        "gpu",
    ),
    "koordinator, halves of two": (
        {"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100},
        2,
        "gpu",
    ),
    "Tencent, two": ({"tencent.com/vcuda-core": 200, "tencent.com/vcuda-memory": 60}, 2, "other"),
    "Tencent, a part": ({"tencent.com/vcuda-core": 30}, 1, "other"),
    "qGPU": ({"tke.cloud.tencent.com/qgpu-core": 100}, 1, "gpu"),
    "one replica of a shared GPU": ({"nvidia.com/gpu.shared": 1}, 1, "gpu"),
    "a device class by its implicit name": ({"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2}, 2, "gpu"),
    "a MIG slice": ({"nvidia.com/mig-1g.5gb": 1}, 1, "mig"),
    "a class of MIG slices": ({"deviceclass.resource.kubernetes.io/mig.nvidia.com": 1}, 1, "mig"),
    "none of them": ({"nvidia.com/gpu": 0, "cpu": 4}, 0, "none"),
    "a negative amount": ({"nvidia.com/gpu": -1}, 0, "none"),
    "a network card": ({"rdma/hca": 1}, 0, "none"),
}
UNKNOWN = {
    "memory of a GPU": {"aliyun.com/gpu-mem": 16},
    "memory of a koordinator GPU": {"koordinator.sh/gpu-memory": "16Gi"},
    "replicas that may be one GPU": {"nvidia.com/gpu.shared": 2},
    "Neuron devices of several cores": {"aws.amazon.com/neuron": 16},
    "the older name of Neuron devices": {"aws.amazon.com/neurondevice": 16},
    "TPU chips, one process for all or for each": {"google.com/tpu": 4},
    "GPUs of two vendors": {"nvidia.com/gpu": 2, "amd.com/gpu": 2},
    "a name that no vendor has": {"nvidia.com/gpus": 2},
}


def of(amounts):
    return devices.seen(Resources(limits=amounts), (), {})


@pytest.mark.parametrize(("amounts", "count", "kind"), COUNTED.values(), ids=COUNTED)
def test_amounts_are_counted_as_their_vendor_means_them(amounts, count, kind):
    found = of(amounts)
    assert (found.count, found.kind, found.idle) == (count, kind, 0)


@pytest.mark.parametrize("amounts", UNKNOWN.values(), ids=UNKNOWN)
def test_an_amount_that_is_no_number_of_devices_stays_unknown(amounts):
    assert (of(amounts).count, of(amounts).kind) == (None, "other")


def test_only_the_tiles_of_an_intel_gpu_allow_more_processes_than_devices():
    assert not of({"gpu.intel.com/i915": 2}).exact
    assert of({"nvidia.com/gpu": 2}).exact
    assert of({"rdma/hca": 2}).exact


def test_slices_beyond_the_first_are_idle_whatever_their_size():
    assert of({"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1}).idle == 2


def test_a_huge_amount_costs_nothing():
    assert of({"nvidia.com/gpu": "1e99"}).count == 2**63 - 1


@pytest.mark.parametrize(
    ("amounts", "gpus"),
    [
        ({"koordinator.sh/gpu": 200}, 2),
        ({"nvidia.com/gpu": 2, "amd.com/gpu": 3}, 3),
        ({"nvidia.com/gpumem": 3000}, 0),
        ({"habana.ai/gaudi": 8}, 0),
        ({}, 0),
    ],
)
def test_whole_gpus_are_those_of_one_vendor(amounts, gpus):
    assert devices.gpus(Resources(requests=amounts)) == gpus


def test_the_makers_of_the_devices_of_a_container_are_named():
    amounts = {"nvidia.com/gpu": 1, "amd.com/gpu": 1, "koordinator.sh/gpu": 100, "cpu": 1}
    assert devices.makers(Resources(limits=amounts)) == ("amd.com", "nvidia.com")


MEANT = {
    "nvidia.com/gpus": "nvidia.com/gpu",
    "nvidia.com/GPU": "nvidia.com/gpu",
    "nvidia.com/gup": "nvidia.com/gpu",
    "nvidia/gpu": "nvidia.com/gpu",
    "nvida.com/gpu": "nvidia.com/gpu",
    "nvidia.con/gpu": "nvidia.com/gpu",
    "nivdia.com/gpu": "nvidia.com/gpu",
    "google.com/TPU": "google.com/tpu",
    "huawei/Ascend910": "huawei.com/Ascend910",
    **{
        f"{name}s": name
        for name in (
            *("nvidia.com/gpu.shared", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"),
            *("google.com/tpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"),
            *("cambricon.com/mlu", "hygon.com/dcu"),
        )
    },
}
FINE = [
    *(
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/pgpu",
        "nvidia.com/a100",
        "amd.com/npu",
    ),
    *("aliyun.com/gpu-mem", "iluvatar.ai/gpu", "birentech.com/gpu", "huawei.com/Ascend910B", "koordinator.sh/gpu"),
    *("rdma/hca", "cpu", "volcano.sh/vgpu-number", "hygon.com/dcunum", "metax-tech.com/gpu", "google.com/gpu", ""),
]


@pytest.mark.parametrize(("written", "meant"), MEANT.items())
def test_a_misspelt_name_is_told_from_the_one_that_is_meant(written, meant):
    assert devices.misspelt(written) == meant


@pytest.mark.parametrize("name", FINE)
def test_a_name_that_some_vendor_may_have_is_not_misspelt(name):
    assert devices.misspelt(name) == ""


def test_a_container_that_uses_requests_of_a_claim_gets_those_alone():
    claims = [PodClaim("mine", resource_claim_template_name="two")]
    known = {"two": None, "two/gpu": 4, "two/more": 2, "two/nic": 8}
    used = (ResourceClaimUse("mine", "gpu"), ResourceClaimUse("mine", "more"))
    assert devices.seen(Resources(claims=used), claims, known) == devices.Devices(6, "claim")
    assert devices.seen(Resources(claims=(ResourceClaimUse("mine", "none"),)), claims, known).count is None


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("gpu.nvidia.com", True),
        ("mig.nvidia.com", True),
        ("gpu.example.net", True),
        ("dranet", False),
        ("dra.net", False),
        ("rdma-nics", False),
        ("efa.networking.k8s.aws", False),
        ("dra.cpu", False),
        ("gpu-nic.example.com", None),
        ("fast", None),
    ],
)
def test_the_name_of_a_device_class_says_whether_it_has_accelerators(name, one):
    assert devices.is_accelerator(name) is one
