"""Devices: how many of them a pod gets. What Trainer counts instead is in `muster.strategies.trainer.resources`.

A pod can use only one of several MIG slices: CUDA shows a process one slice, whatever its container holds (NVIDIA MIG
user guide, device enumeration), so a second rank fails with an invalid device ordinal (pytorch/pytorch#130181).

An amount is not always a number of devices. The tables below say what the names of vendors and of schedulers that share
GPUs mean, as their own documentation or source has it:

* percent of one device: koordinator `pkg/scheduler/plugins/deviceshare/utils.go` (below 100, or a multiple of 100),
  tkestack/gpu-manager README (`tencent.com/vcuda-core`), TKE qGPU (`tke.cloud.tencent.com/qgpu-core`);
* replicas of a shared GPU: NVIDIA k8s-device-plugin README, "Shared Access to GPUs" (`nvidia.com/gpu.shared`): two
  replicas may be the same GPU, so only one is a known number;
* memory, cores and percentages beside a number of devices: HAMi (`nvidia.com/gpumem`), Volcano
  (`volcano.sh/vgpu-memory` beside `volcano.sh/vgpu-number`);
* one device that is several to a program: Neuron devices hold several cores (AWS Neuron, Kubernetes setup), a TPU host
  runs one process for all of its chips or one for each (PyTorch/XLA), so their number of processes is unknown.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from muster.strategies.documents import quantities
from muster.strategies.documents.model import PodClaim, Resources

__all__ = [
    "PERCENTAGES",
    "Devices",
    "accelerators",
    "gpus",
    "is_accelerator",
    "is_replica",
    "is_slice_class",
    "makers",
    "misspelt",
    "request_key",
    "seen",
    "sounds_like_one",
]

_ACCELERATOR = r"gpu|gaudi|ascend|tpu|npu|neuron|mlu|dcu|xpu|vcuda|gcu"
_BESIDE = (
    r"(?:^|[-./_])(?:dranet|netdev|m?rdma|roce|infiniband|ib|hca|efa|sriov|(?:multi)?nics?|(?:dra)?cpus?|imex"
    r"|compute-domain|nvme)(?:$|[-./_])|^dra\.net$"
)
"""Device classes of what stands beside accelerators: DRANET, dra-driver-cpu, the IMEX channels of compute domains."""
_IMPLICIT = "deviceclass.resource.kubernetes.io/"  # Kubernetes maps it to the class of this name (DRAExtendedResource)
_PERCENT = 100
_LONGEST = 317  # characters of the name of a resource
_GENERIC = frozenset({"gpu", "npu", "mlu", "dcu", "gcu"})
"""Names after the vendor's domain that are a number of devices, whoever the vendor is."""
_WHOLE = frozenset(
    {
        *("gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "aws.amazon.com/neuroncore"),
        *("hygon.com/dcunum", "cambricon.com/vmlu", "enflame.com/vgcu", "kunlunxin.com/xpu", "kunlunxin.com/vxpu"),
        *("iluvatar.ai/vgpu", "mthreads.com/vgpu", "metax-tech.com/sgpu"),
        *("volcano.sh/vgpu-number", "volcano.sh/gpu-number", "koordinator.sh/gpu.shared"),
    }
)
PERCENTAGES = frozenset(
    {"koordinator.sh/gpu", "koordinator.sh/gpu-memory-ratio", "tencent.com/vcuda-core"}
    | {"tke.cloud.tencent.com/qgpu-core"}
)
"""Resources whose amount is percent of one device: below 100, or a multiple of 100."""
_REPLICAS = frozenset({"nvidia.com/gpu.shared"})
_PATTERNS = r"huawei\.com/ascend\d+[a-z]?\d?(?:-\d+c(?:\.\w+)*)?|amd\.com/[a-z]{3}_nps\d|cambricon\.com/mlu\d+"
_TILED = frozenset({"gpu.intel.com/i915", "gpu.intel.com/xe"})
_SCHEDULERS = frozenset({"koordinator.sh", "volcano.sh", "tencent.com", "tke.cloud.tencent.com", _IMPLICIT[:-1]})
"""Domains whose resources are devices of any maker, asked for through a scheduler."""
_OFTEN = (
    *("nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"),
    *("habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"),
    *("aws.amazon.com/neurondevice", "huawei.com/Ascend910", "cambricon.com/mlu", "hygon.com/dcu"),
)
"""Names that are written often, and often wrong."""
_DOMAINS = {name.partition("/")[0] for name in _OFTEN} | {name.partition("/")[0].rpartition(".")[0] for name in _OFTEN}
_RESTS = {name.rpartition("/")[2].lower().removesuffix("s") for name in _OFTEN}


class Devices(Struct, frozen=True):
    """What one pod of the job gets.

    Attributes:
        count: devices for which a process can be started; None when it is unknown: for a claim, or for a resource whose
            amount is not a number of devices (`aliyun.com/gpu-mem`, replicas of a shared GPU, Neuron devices).
        kind: `gpu`, `mig`, `claim`, `other` or `none`. Trainer counts only `gpu`, by finding "gpu" in the name.
        idle: devices that no process can reach.
        exact: whether more processes than `count` are certainly too many; False for a device of several parts that a
            program may see as devices (the tiles of an Intel GPU, ZE_FLAT_DEVICE_HIERARCHY).
        maker: domain of the resource, such as amd.com; "" where it has none or several.
    """

    count: int | None
    kind: str
    idle: int = 0
    exact: bool = True
    maker: str = ""


def seen(resources: Resources, pod_claims: Iterable[PodClaim], known: Mapping[str, int | None]) -> Devices:
    """Count the devices of a container.

    Args:
        resources: resources of the container, after Trainer's merge.
        pod_claims: the pod's `resourceClaims`.
        known: devices by ResourceClaimTemplate or ResourceClaim name, and by `request_key` for one request of it.
    """
    named, unknown = _of_names(resources)
    if named is not None:
        return named
    claimed = _claimed(resources, pod_claims, known)
    return Devices(None, "other") if unknown and claimed.kind == "none" else claimed


def _of_names(resources: Resources) -> tuple[Devices | None, bool]:
    """Return the devices that the names of resources say, and whether there are some whose number none says."""
    requests, limits = resources.requests, resources.limits
    plain = _PLAIN.issuperset(map(type, (*requests.values(), *limits.values())))  # 1 and True would be one key
    amounts = tuple(requests.items()), tuple(limits.items())
    if plain and len(requests) + len(limits) <= _FEW and len(str(amounts)) <= _SHORT:
        return _remembered(*amounts)
    return _found(resources)


_FEW, _SHORT = 16, 2_048  # names, and characters with their amounts, of what is remembered
_PLAIN = frozenset({str, int})
_Pairs = tuple[tuple[str, int | float | str], ...]


@functools.lru_cache(maxsize=256)  # a decision asks some six times, and jobs are alike
def _remembered(requests: _Pairs, limits: _Pairs) -> tuple[Devices | None, bool]:
    return _found(Resources(limits=dict(limits), requests=dict(requests)))


def _found(resources: Resources) -> tuple[Devices | None, bool]:
    names = _names(resources)
    counted = _counted(resources, names)
    if len(set(map(_vendor, counted))) > 1:
        return Devices(None, "other"), False
    if counted:
        kind = "gpu" if any("gpu" in name.lower() for name in counted) else "other"
        maker = _vendor(next(iter(counted)))
        return Devices(_total(counted), kind, exact=not _TILED & counted.keys(), maker=maker), False
    slices = sum(_largest(resources, name) for name in names if _is_slice(name))
    if slices:
        return Devices(1, "mig", idle=slices - 1), False
    return None, any(re.search(_ACCELERATOR, name, flags=re.IGNORECASE) and _largest(resources, name) for name in names)


def gpus(resources: Resources) -> int:
    """Return the whole GPUs asked for, in the meaning of each name; of several vendors, those of the one with most."""
    found: dict[str, dict[str, int]] = {}
    for name, amount in _counted(resources, _names(resources)).items():
        if "gpu" in name.lower():
            found.setdefault(_vendor(name), {})[name] = amount
    return max(map(_total, found.values()), default=0)


def makers(resources: Resources) -> tuple[str, ...]:
    """Return the domains of the makers of the devices asked for, sorted: `("amd.com", "nvidia.com")`."""
    return tuple(sorted({_vendor(name) for name in _counted(resources, _names(resources))} - _SCHEDULERS))


def is_replica(name: str) -> bool:
    """Whether the resource is a replica of a shared GPU; two of them may be the same GPU."""
    return name in _REPLICAS


def misspelt(name: str) -> str:
    """Return the resource that is probably meant by a name that no device plugin offers, "" where none is near.

    Near are another case, a plural, two letters that changed places, a domain without its end, and one wrong letter in
    the domain. Vendors do put letters before a name of another vendor (`vgpu`, `pgpu`), so those are not near.
    """
    return _misspelt(name) if "/" in name and len(name) <= _LONGEST else ""


@functools.lru_cache(maxsize=1024)
def _misspelt(name: str) -> str:
    domain, _, rest = name.rpartition("/")
    far = domain not in _DOMAINS and rest.lower().removesuffix("s") not in _RESTS
    if far or name in _OFTEN or re.fullmatch(_PATTERNS, name, flags=re.IGNORECASE):
        return ""
    return next((known for known in _OFTEN if _is_near(name, known)), "")


def _is_near(name: str, known: str) -> bool:
    domain, _, rest = name.rpartition("/")
    known_domain, _, known_rest = known.rpartition("/")
    same_rest = rest.lower().removesuffix("s") == known_rest.lower().removesuffix("s")
    same_domain = domain == known_domain or domain == known_domain.rpartition(".")[0]
    if same_domain:
        return same_rest or _swapped(rest, known_rest)
    return same_rest and _one_edit(domain, known_domain)


def _swapped(word: str, known: str) -> bool:
    before, after = _differing(word, known)
    return len(before) == len(after) == len("ab") and before == after[::-1]


def _one_edit(word: str, known: str) -> bool:
    """Whether one letter is missing, doubled or wrong, or two have changed places."""
    before, after = _differing(word, known)
    return max(len(before), len(after)) == 1 or _swapped(word, known)


def _differing(word: str, known: str) -> tuple[str, str]:
    """Return what is left of two words without their common beginning and end."""
    start = _same(word, known)
    word, known = word[start:], known[start:]
    end = _same(word[::-1], known[::-1])
    return word[: len(word) - end], known[: len(known) - end]


def _same(word: str, known: str) -> int:
    """Return how many letters two words have in common at their beginning."""
    pairs = zip(word, known, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(word), len(known)))


def accelerators(resources: Resources) -> dict[str, int]:
    """Return the devices asked for as extended resources, by resource name: GPUs, MIG slices and the like."""
    found = {name: _largest(resources, name) for name in _names(resources) if "/" in name}
    return {name: amount for name, amount in found.items() if amount and sounds_like_one(name)}


def sounds_like_one(name: str) -> bool:
    """Whether the name of a resource or a device class is one of an accelerator, rather than of a network card."""
    return "mig" in re.split(r"[-./]", name) or re.search(_ACCELERATOR, name, flags=re.IGNORECASE) is not None


def is_accelerator(device_class: str) -> bool | None:
    """Whether devices of a class are accelerators, as far as its name says; None where it does not."""
    one, beside = sounds_like_one(device_class), re.search(_BESIDE, device_class, flags=re.IGNORECASE) is not None
    return one if one is not beside else None


def is_slice_class(device_class: str) -> bool:
    """Whether devices of a class are MIG slices, as its name says: `mig.nvidia.com` of NVIDIA's driver."""
    return "mig" in re.split(r"[-./]", device_class)


def request_key(claim: str, request: str) -> str:
    """Return the key of one request of a claim in a mapping by the name of claims, which hold no slash."""
    return f"{claim}/{request}"


def _counted(resources: Resources, names: Iterable[str]) -> dict[str, int]:
    """Return the number of devices behind each resource whose amount says it, without those of amount 0."""
    found = {}
    for name in names:
        amount = _largest(resources, name)
        devices = _count(name, amount) if amount > 0 else None
        if devices:
            found[name] = devices
    return found


def _total(counted: Mapping[str, int]) -> int:
    """Return the devices of one vendor; a percentage beside a number says how much of each device is wanted."""
    numbers = [amount for name, amount in counted.items() if name not in PERCENTAGES]
    return sum(numbers) if numbers else max(counted.values())


def _count(name: str, amount: int) -> int | None:
    """Return the devices that an amount of a resource is, None where it does not say."""
    domain, slash, rest = name.rpartition("/")
    if name in PERCENTAGES:
        return -(-amount // _PERCENT)
    if name in _REPLICAS:
        return 1 if amount == 1 else None
    if name.startswith(_IMPLICIT):
        return amount if sounds_like_one(rest) and not _is_slice(name) else None
    whole = rest.lower() in _GENERIC or name in _WHOLE or re.fullmatch(_PATTERNS, name, flags=re.IGNORECASE)
    return amount if slash and domain and whole else None


def _is_slice(name: str) -> bool:
    return "/mig-" in name or (name.startswith(_IMPLICIT) and "mig" in re.split(r"[-./]", name))


def _vendor(name: str) -> str:
    return name.partition("/")[0]


def _claimed(resources: Resources, pod_claims: Iterable[PodClaim], known: Mapping[str, int | None]) -> Devices:
    sources = {claim.name: claim.resource_claim_template_name or claim.resource_claim_name for claim in pod_claims}
    wanted = {(each.name, each.request) for each in resources.claims}
    counts = [
        known.get(request_key(sources[name], request) if request else sources[name])
        for name, request in wanted
        if name in sources
    ]
    if not counts:
        return Devices(0, "none")
    return Devices(None if None in counts else sum(count or 0 for count in counts), "claim")


def _names(resources: Resources) -> list[str]:
    return list({**resources.requests, **resources.limits})


def _largest(resources: Resources, name: str) -> int:
    return max(quantities.count(amounts.get(name)) for amounts in (resources.requests, resources.limits))
