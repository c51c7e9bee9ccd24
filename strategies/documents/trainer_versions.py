"""Versions of Kubeflow Trainer that clusters have, and in what each makes other JobSets of the same job.

`tests/golden` holds what the code of each version answers. Which members a version knows is in the schemas of
`muster.webhook.cli.schemas`; here is only what its controller does with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["NEWEST", "VERSIONS", "Version"]


@dataclass(frozen=True, slots=True)
class Version:
    """One minor release.

    Attributes:
        name: `2.3`, or `next` for what is merged upstream and not released.
        release: the one that was read, `v2.3.0`.
        patches: the member of a TrainJob's spec that changes the pods of its runtime.
        mark: a member of the TrainJob, from its spec, that this version has and the one before it has not.
        merges: whether `resourcesPerNode` is laid over the runtime's resources; else it takes their place.
        counts_runtime: whether processes are counted by the runtime's resources where a job has none of its own.
        counts_claims: whether `resourceClaimsPerNode` is there, and GPUs of claims are counted (KEP-2782).
        tunes: how the arguments of `tune run` say LoRA and QLoRA: by the values of items, by their names alone, or
            not at all.
    """

    name: str
    release: str
    patches: str
    mark: tuple[str, ...]
    merges: bool = True
    counts_runtime: bool = True
    counts_claims: bool = False
    tunes: Literal["values", "names", "nothing"] = "values"

    def __str__(self) -> str:
        """`Trainer 2.1`, as messages call it."""
        return "the next Trainer" if self.name == "next" else f"Trainer {self.name}"


_GRACE = ("terminationGracePeriodSeconds",)
_POD = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs", "template", "spec", "template", "spec")

VERSIONS: Mapping[str, Version] = {
    each.name: each
    for each in (
        Version(
            "2.0",
            "v2.0.1",
            "podSpecOverrides",
            ("podSpecOverrides",),
            merges=False,
            counts_runtime=False,
            tunes="nothing",
        ),
        Version("2.1", "v2.1.0", "podTemplateOverrides", ("podTemplateOverrides",), merges=False, tunes="names"),
        Version("2.2", "v2.2.0", "runtimePatches", ("runtimePatches",), merges=False, tunes="names"),
        Version("2.3", "v2.3.0", "runtimePatches", ("runtimePatches", *_POD, *_GRACE)),
        Version("next", "next", "runtimePatches", ("trainer", "resourceClaimsPerNode"), counts_claims=True),
    )
}
"""By name, the oldest first."""

NEWEST = VERSIONS["2.3"]
"""The newest release, which is meant where nothing says which one is."""
