"""Generations: the highest compute capability of the GPUs of nodes that the labels a pod asks for allow.

Only what the labels say for sure counts. Sources: the labels of NVIDIA's GPU feature discovery (`docs/` of
k8s-device-plugin 0.18), `cloud.google.com/gke-accelerator` (GKE, GPUs), instance types of EC2, Compute Engine and
Azure, Karpenter's `karpenter.k8s.aws/instance-gpu-name`; NVIDIA's table of compute capabilities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from muster.strategies.documents.model import NodeTerm, PodSpec

__all__ = ["Generation", "find"]

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
_GEFORCE = re.compile(r"(?:QUADRO-)?RTX-([4568]000)(?:$|-(?!ADA|BLACKWELL|PRO))|GEFORCE-RTX-(20|30|40|50)\d\d")
_CARDS = {"20": (7, 5), "30": (8, 6), "40": (8, 9), "50": (12, 0)}
_INSTANCES = (
    (re.compile(r"p2\."), (3, 7)),
    (re.compile(r"g3s?\."), (5, 2)),
    (re.compile(r"p3(?:dn)?\."), (7, 0)),
    (re.compile(r"g4dn\.|g5g\."), (7, 5)),
    (re.compile(r"p4de?\.|a2-"), (8, 0)),
    (re.compile(r"g5\."), (8, 6)),
    (re.compile(r"gr?6e?\.|g2-"), (8, 9)),
    (re.compile(r"p5(?:e|en)?\.|a3-"), (9, 0)),
    (re.compile(r"Standard_N[CD]\d+r?s_v3$|Standard_ND40rs_v2$"), (7, 0)),
    (re.compile(r"Standard_NC\d+as_T4_v3$"), (7, 5)),
    (re.compile(r"Standard_N[CD][0-9a-z]+_A100_v4$"), (8, 0)),
    (re.compile(r"Standard_N[CD][0-9a-z]+_H[12]00_v5$"), (9, 0)),
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
    card = _GEFORCE.match(name)
    if card is not None:
        return _CARDS[card[2]] if card[2] else (7, 5)
    return _OF_GPUS.get(name.partition("-")[0])


def _gke(value: str) -> tuple[int, int] | None:
    return _OF_GPUS.get(value.removeprefix("nvidia-").removeprefix("tesla-").partition("-")[0].upper())


def _major(value: str) -> tuple[int, int] | None:
    return (int(value), _ANY_MINOR) if value.isascii() and value.isdecimal() and len(value) < 3 else None


def _instance(value: str) -> tuple[int, int] | None:
    return next((found for pattern, found in _INSTANCES if pattern.match(value)), None)


_READERS = {
    _PRODUCT: _product,
    _FAMILY: lambda value: _FAMILIES.get(value.lower()),
    _MAJOR: _major,
    _GKE: _gke,
    _KARPENTER: lambda value: _OF_GPUS.get(value.upper()),
    **dict.fromkeys(_TYPES, _instance),
}
