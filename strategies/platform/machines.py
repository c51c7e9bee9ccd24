"""Machines: how many GPUs of NVIDIA a node of an instance type has, as far as its name says it for sure.

Sources: Amazon EC2 instance types (accelerated computing), Compute Engine machine types (accelerator optimized), Azure
sizes for GPU-accelerated computing. Types that may have GPUs attached, as n1 of Compute Engine, are not known.
"""

from __future__ import annotations

import re

__all__ = ["TYPES", "gpus"]

TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_SIZES = {
    "p3": {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8},
    "p3dn": {"24xlarge": 8},
    "g4dn": {**dict.fromkeys(("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"), 1), "12xlarge": 4, "metal": 8},
    "g5": {**dict.fromkeys(("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"), 1), "12xlarge": 4, "24xlarge": 4}
    | {"48xlarge": 8},
    "g6": {**dict.fromkeys(("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"), 1), "12xlarge": 4, "24xlarge": 4}
    | {"48xlarge": 8},
    "g6e": {**dict.fromkeys(("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"), 1), "12xlarge": 4, "24xlarge": 4}
    | {"48xlarge": 8},
    "p4d": {"24xlarge": 8},
    "p4de": {"24xlarge": 8},
    "p5": {"4xlarge": 1, "48xlarge": 8},
    "p5e": {"48xlarge": 8},
    "p5en": {"48xlarge": 8},
}
_NONE = r"(?:[cmrtixz]\d[a-z]*(?:-[a-z0-9]+)?|inf\d|trn\d[a-z]*)\.|(?:e2|n2d?|c2d?|c3d?|c4a?|n4|t2[ad]|m[123])-"
_ENDING = r"(?:a2|a3)-[a-z]+-(\d{1,2})g"
_G2 = {"4": 1, "8": 1, "12": 1, "16": 1, "24": 2, "32": 1, "48": 4, "96": 8}
_AZURE = {
    **dict.fromkeys(("NC6s_v3", "NC24ads_A100_v4", "NC4as_T4_v3", "NC8as_T4_v3", "NC16as_T4_v3"), 1),
    **dict.fromkeys(("NC12s_v3", "NC48ads_A100_v4"), 2),
    **dict.fromkeys(("NC24s_v3", "NC24rs_v3", "NC96ads_A100_v4", "NC64as_T4_v3"), 4),
    **dict.fromkeys(("ND40rs_v2", "ND96asr_v4", "ND96amsr_A100_v4", "ND96isr_H100_v5", "ND96isr_H200_v5"), 8),
}
_AZURE_NONE = r"Standard_[ABDEFLM]\d"


def gpus(name: str) -> int | None:
    """Return the GPUs of a node of an instance type; None where its name does not say."""
    family, dot, size = name.partition(".")
    if dot and family in _SIZES:
        return _SIZES[family].get(size)
    ending = re.fullmatch(_ENDING, name)
    if ending is not None:
        return int(ending[1])
    if name.startswith("g2-standard-"):
        return _G2.get(name.removeprefix("g2-standard-"))
    if name.startswith("Standard_"):
        return 0 if re.match(_AZURE_NONE, name) else _AZURE.get(name.removeprefix("Standard_"))
    return 0 if re.match(_NONE, name) else None
