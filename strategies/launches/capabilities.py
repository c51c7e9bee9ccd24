"""Capabilities: flags and images of a training that need newer GPUs than the labels of its nodes allow.

Sources: flash-attn 2 README (Ampere and later), transformers `modeling_flash_attention_utils.py`
(cuda_min_major_version) and `training_args.py` (--tf32), accelerate `state.py` (fp8 becomes fp16 below 8.9), the
compiler of triton (7.0 and later), CUDA 13.0 release notes (kernels from 7.5 on). bfloat16 is emulated on older GPUs,
and passes.

Generations: the highest compute capability of the GPUs of nodes that the labels a pod asks for allow.

Only what the labels say for sure counts. Sources: the labels of NVIDIA's GPU feature discovery (`docs/` of
k8s-device-plugin 0.18), `cloud.google.com/gke-accelerator` (GKE, GPUs), instance types of EC2, Compute Engine and
Azure, Karpenter's `karpenter.k8s.aws/instance-gpu-name`; NVIDIA's table of compute capabilities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from muster.strategies.documents import paths
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.documents.model import NodeTerm, PodSpec
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["Generation", "bound", "check", "find"]


_PRODUCT, _FAMILY = "nvidia.com/gpu.product", "nvidia.com/gpu.family"
_MAJOR, _MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"
_GKE, _KARPENTER = "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name"
_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ANY_MINOR = 9
_LONGEST = 63

_OF_GPUS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("K80",), (3, 7)),
    **dict.fromkeys(("M4", "M40", "M60"), (5, 2)),
    **dict.fromkeys(("P100",), (6, 0)),
    **dict.fromkeys(("P4", "P40"), (6, 1)),
    **dict.fromkeys(("V100", "V100S", "GV100"), (7, 0)),
    **dict.fromkeys(("T4", "T4G"), (7, 5)),
    **dict.fromkeys(("A100", "A800", "A30"), (8, 0)),
    **dict.fromkeys(("A10", "A10G", "A2", "A16", "A40"), (8, 6)),
    **dict.fromkeys(("L4", "L20", "L40", "L40S"), (8, 9)),
    **dict.fromkeys(("H20", "H100", "H200", "H800", "GH200"), (9, 0)),
    **dict.fromkeys(("B100", "B200", "GB200"), (10, 0)),
    **dict.fromkeys(("B300", "GB300"), (10, 3)),
}
_FAMILIES: Mapping[str, tuple[int, int]] = {
    "kepler": (3, 7),
    "maxwell": (5, 3),
    "pascal": (6, 2),
    "volta": (7, 2),
    "turing": (7, 5),
    "ampere": (8, 7),
    "ada-lovelace": (8, 9),
    "hopper": (9, 0),
}
_GEFORCE = r"(?:QUADRO-)?RTX-([4568]000)(?:$|-(?!ADA|BLACKWELL|PRO))|GEFORCE-RTX-(20|30|40|50)\d\d"
_CARDS = {"20": (7, 5), "30": (8, 6), "40": (8, 9), "50": (12, 0)}
_INSTANCES = (
    (r"p2\.", (3, 7)),
    (r"g3s?\.", (5, 2)),
    (r"p3(?:dn)?\.", (7, 0)),
    (r"g4dn\.|g5g\.", (7, 5)),
    (r"p4de?\.|a2-", (8, 0)),
    (r"g5\.", (8, 6)),
    (r"gr?6e?\.|g2-", (8, 9)),
    (r"p5(?:e|en)?\.|a3-", (9, 0)),
    (r"Standard_N[CD]\d+r?s_v3$|Standard_ND40rs_v2$", (7, 0)),
    (r"Standard_NC\d+as_T4_v3$", (7, 5)),
    (r"Standard_N[CD][0-9a-z]+_A100_v4$", (8, 0)),
    (r"Standard_N[CD][0-9a-z]+_H[12]00_v5$", (9, 0)),
)


class Generation(Struct, frozen=True):
    """An upper bound of the compute capability of a pod's GPUs, and what says so.

    Attributes:
        capability: major and minor number.
        told: the label and its value, `nvidia.com/gpu.product=Tesla-T4`.
    """

    capability: tuple[int, int]
    told: str

    @property
    def number(self) -> str:
        """`7.5`; `7.x` where the label does not tell the minor number."""
        major, minor = self.capability
        return f"{major}.{'x' if minor == _ANY_MINOR and major < 8 else minor}"


def find(pod: PodSpec) -> Generation | None:
    """Return the bound of the nodes on which a pod can run; None where its labels do not say one."""
    found = list(_bounds({key: (value,) for key, value in pod.node_selector.items()}))
    terms = pod.affinity.node_affinity.required.node_selector_terms
    if terms:
        each = [min(_of_term(term), key=_capability, default=None) for term in terms]
        known = [bound for bound in each if bound is not None]
        found += [max(known, key=_capability)] if len(known) == len(each) else []
    return min(found, key=_capability, default=None)


def _capability(bound: Generation) -> tuple[int, int]:
    return bound.capability


def _of_term(term: NodeTerm) -> Iterator[Generation]:
    for each in term.match_expressions:
        key, values = each.key, each.values
        if each.operator == "In" and values:
            yield from _bounds({key: values})
        elif each.operator == "Lt" and key == _MAJOR and values and values[0].isdecimal() and len(values[0]) < 4:
            yield Generation((int(values[0]) - 1, _ANY_MINOR), f"{key} below {values[0]}")


def _bounds(asked: Mapping[str, tuple[str, ...]]) -> Iterator[Generation]:
    """Yield the bound of each label that has one for all of its values."""
    for key, values in asked.items():
        read = _READERS.get(key)
        found = [read(value) if len(value) <= _LONGEST else None for value in values] if read else []
        known = [each for each in found if each is not None]
        if known and len(known) == len(found):
            capability, minors = max(known), asked.get(_MINOR, ())
            if key == _MAJOR and len(minors) == 1 and minors[0].isdecimal():
                capability = (capability[0], min(int(minors[0][:2]), _ANY_MINOR))
            yield Generation(capability, f"{key}={' or '.join(values[:3])}")


def _product(value: str) -> tuple[int, int] | None:
    name = value.upper().removesuffix("-SHARED").removeprefix("NVIDIA-").removeprefix("TESLA-")
    card = re.match(_GEFORCE, name)
    if card is not None:
        return _CARDS[card[2]] if card[2] else (7, 5)
    return _OF_GPUS.get(name.partition("-")[0])


def _gke(value: str) -> tuple[int, int] | None:
    return _OF_GPUS.get(value.removeprefix("nvidia-").removeprefix("tesla-").partition("-")[0].upper())


def _major(value: str) -> tuple[int, int] | None:
    return (int(value), _ANY_MINOR) if value.isascii() and value.isdecimal() and len(value) < 3 else None


def _instance(value: str) -> tuple[int, int] | None:
    return next((found for pattern, found in _INSTANCES if re.match(pattern, value)), None)


_READERS = {
    _PRODUCT: _product,
    _FAMILY: lambda value: _FAMILIES.get(value.lower()),
    _MAJOR: _major,
    _GKE: _gke,
    _KARPENTER: lambda value: _OF_GPUS.get(value.upper()),
    **dict.fromkeys(_TYPES, _instance),
}


_ATTENTION: Mapping[str, tuple[int, int]] = {
    "flash_attention_2": (8, 0),
    "kernels-community/flash-attn2": (8, 0),
    "flash_attention_3": (8, 0),
    "kernels-community/flash-attn3": (8, 0),
    "flash_attention_4": (9, 0),
}
_TRUE = frozenset({"true", "1", "yes", "y", "t"})
_TF32, _COMPILED, _FP8, _CUDA_13 = (8, 0), (7, 0), (8, 9), (7, 5)
_OF_CUDA_13 = r"(?:^|[-_.])cu(?:da)?13(?![0-9]{2,})"
_RULE = "core/generation"


def bound(job: Job) -> Generation | None:
    """Return the bound of the GPUs of the training's nodes; None where no label of them says one."""
    return find(job.container.pod) if job.container is not None else None


def check(job: Job) -> Iterator[Finding]:
    """Compare what a job that Trainer did not make asks of its GPUs with the labels of its nodes."""
    found = bound(job) if job.owner is None else None
    site = sites.find_site(job) if found is not None else None
    if site is None or found is None or topologies.read_topology(job).on_cpu:
        return
    for launch in site.reading.launches:
        yield from _flags(site, launch, found)
        precise = launch.launcher is Launcher.ACCELERATE and launch.values.get("mixed_precision") == "fp8"
        if precise and found.capability < _FP8:
            message = f"needs a capability of 8.9, and {_have(found)}, so Accelerate computes in fp16; use bf16 or fp16"
            yield warning(site.locate_option(launch, "mixed_precision"), "fp8", message, rule=_RULE)
    yield from _image(job, found)


def _flags(site: Site, launch: Launch, found: Generation) -> Iterator[Finding]:
    for name, value in _given(launch):
        least = None
        if name == "attn_implementation":
            least = _ATTENTION.get(value)
        elif name == "tf32" and value.lower() in _TRUE:
            least = _TF32
        elif name == "torch_compile" and value.lower() in _TRUE:
            least = _COMPILED
        if least is not None and found.capability < least:
            message = (
                f"needs a capability of {least[0]}.{least[1]}, and {_have(found)}, so the training stops; remove it"
            )
            yield warning(site.locate_option(launch, name), f"--{name} {value}", message, rule=_RULE)


_READ = frozenset({"attn_implementation", "tf32", "torch_compile"})


def _given(launch: Launch) -> Iterator[tuple[str, str]]:
    """Yield the flags of the program that are judged, with their values; a switch without one is true."""
    for index, word in enumerate(launch.rest):
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if word.startswith("--") and name in _READ:
            behind = launch.rest[index + 1] if index + 1 < len(launch.rest) else ""
            yield name, value if equals else "true" if not behind or behind.startswith("--") else behind


def _image(job: Job, found: Generation) -> Iterator[Finding]:
    """Report an image with CUDA 13, whose libraries have no kernels for GPUs before Turing."""
    own = job.trainer.image if job.kind == "TrainJob" else ""
    image = own or (job.container.container.image if job.container is not None else "")
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    if found.capability >= _CUDA_13 or not re.search(_OF_CUDA_13, tag):
        return
    message = (
        f"has CUDA 13, whose kernels are for a capability of 7.5 and above, and {_have(found)}; use one of CUDA 12"
    )
    if job.kind == "JobSet" and job.container is not None:
        yield warning(paths.field(job.document, (*job.container.path, "image")), image, message, rule=_RULE)
    else:
        yield warning("spec.trainer.image" if own else "spec.runtimeRef.name", image, message, rule=_RULE)


def _have(found: Generation) -> str:
    return f"the nodes of {found.told} have {found.number} at most"
