"""The examples of the old operators, read from Go's module cache, where the proxy puts them, and never copied."""

from __future__ import annotations

import functools
from pathlib import Path

from e2e.cluster import builds

__all__ = ["MPI_OPERATOR", "OPERATOR", "OTHERS", "REFUSED", "files", "folder"]

OPERATOR = "github.com/kubeflow/training-operator@v1.9.3"
MPI_OPERATOR = "github.com/kubeflow/mpi-operator@v0.6.0"
REFUSED = {
    "dist-mnist/tf_job_mnist": "no role Chief",
    "pi/pi-intel": "Trainer accepts Intel",
    "pi/pi-mpich": "Trainer accepts MPICH",
    "paddlepaddle/simple-cpu": "no policy for PaddlePaddle",
    "paddlepaddle/simple-gpu": "no policy for PaddlePaddle",
}
"""Examples that have no TrainJob, and words of the reason."""
OTHERS = frozenset(
    {"elastic/etcd", "distribution_strategy/pvc", "tfevent-volume/tfevent-pvc", "tfevent-volume/tfevent-pv"}
)
"""Files without a job."""


def folder(module: str) -> Path:
    """Return where Go keeps a module, which is fetched when it is not there.

    Raises:
        ClusterError: it is not there and cannot be fetched.
    """
    return builds.module_folder("kubernetes", module)


@functools.cache
def files() -> dict[str, Path]:
    """Return the files by folder and name: `pi/pi-mpich`.

    Raises:
        ClusterError: a module is not there and cannot be fetched.
    """
    found = [file for each in (OPERATOR, MPI_OPERATOR) for file in sorted((folder(each) / "examples").rglob("*.yaml"))]
    return {f"{each.parent.name}/{each.stem}": each for each in found}
