"""Versions of Kubeflow Trainer that clusters have, and in what each makes other JobSets of the same job.

`strategies/upstream/trainer` has a folder for each: which members it knows (`schemas.json`), and what its controller
does with them (`behaviour.json`). `tests/golden` holds what the code of each version answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict, cast

from msgspec import Struct

from muster.strategies import upstream

__all__ = ["NEWEST", "VERSIONS", "Version"]


class Version(Struct, frozen=True):
    """One minor release.

    Attributes:
        name: its minor version, or `next` for what is merged upstream and not released.
        release: the one that was read, with a v; `next` for that.
        patches: the member of a TrainJob's spec that changes the pods of its runtime.
        mark: a member of the TrainJob that this version has and the one before it has not: names from its spec, with
            dots between.
        merges: whether `resourcesPerNode` is laid over the runtime's resources; else it takes their place.
        counts_runtime: whether processes are counted by the runtime's resources where a job has none of its own.
        counts_claims: whether `resourceClaimsPerNode` is there, and GPUs of claims are counted (KEP-2782).
        tunes: how the arguments of `tune run` say LoRA and QLoRA: by the values of items, by their names alone, or
            not at all.
    """

    name: str
    release: str
    patches: str
    mark: str
    merges: bool
    counts_runtime: bool
    counts_claims: bool
    tunes: Literal["values", "names", "nothing"]

    def __str__(self) -> str:
        """As messages call it."""
        return "the next Trainer" if self.name == "next" else f"Trainer {self.name}"


class _Behaviour(TypedDict):
    patches: str
    mark: str
    merges: bool
    counts_runtime: bool
    counts_claims: bool
    tunes: Literal["values", "names", "nothing"]


def _version(name: str, folder: str) -> Version:
    behaviour = cast("_Behaviour", upstream.data("trainer", "behaviour", folder))
    return Version(name, folder if folder == name else f"v{folder}", **behaviour)


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


VERSIONS: Mapping[str, Version] = {
    _minor(folder): _version(_minor(folder), folder) for folder in (*upstream.versions("trainer"), "next")
}
"""By name, the oldest first."""

NEWEST = VERSIONS[_minor(upstream.shipped("trainer"))]
"""The newest release, which is meant where nothing says which one is."""
