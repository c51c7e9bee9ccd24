"""Prints tests/migrations/members.json: the members of each kind that `muster migrate` reads, from upstream's CRDs.

A pod template is one member, and so is a list. Of the TrainJobs and runtimes of older Trainers only the members are
listed that the shipped Trainer does not have.

    .venv/bin/python -m tools.upstream.member_lists > tests/migrations/members.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any  # schemas as upstream writes them

import yaml

from e2e.suites.migrations.examples import MPI_OPERATOR, OPERATOR
from muster.strategies import upstream
from tools.upstream.go_modules import TRAINER, folder

__all__ = ["text"]

CRDS = {
    "PyTorchJob": ((OPERATOR, "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),),
    "TFJob": ((OPERATOR, "manifests/base/crds/kubeflow.org_tfjobs.yaml"),),
    "XGBoostJob": ((OPERATOR, "manifests/base/crds/kubeflow.org_xgboostjobs.yaml"),),
    "JAXJob": ((OPERATOR, "manifests/base/crds/kubeflow.org_jaxjobs.yaml"),),
    "MPIJob": (
        (OPERATOR, "manifests/base/crds/kubeflow.org_mpijobs.yaml"),
        (MPI_OPERATOR, "manifests/base/kubeflow.org_mpijobs.yaml"),
    ),
}
OWN = {"TrainJob": "trainjobs", "TrainingRuntime": "trainingruntimes"}
META = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers", "uid", "creationTimestamp")


def members(module: str, file: str) -> set[str]:
    """The members of a CustomResourceDefinition's served version."""
    crd = yaml.load((folder(module) / file).read_text(), yaml.CSafeLoader)
    (version,) = (each for each in crd["spec"]["versions"] if each["served"])
    return set(flat(version["schema"]["openAPIV3Schema"], ()))


def flat(schema: dict[str, Any], at: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths of the leaves of a schema."""
    inside = schema.get("properties") or {}
    values = schema.get("additionalProperties")
    if at and at[-1] in ("template", "status") and "replicatedJobs" not in at:
        yield ".".join(at)
    elif at == ("metadata",):
        yield from (f"metadata.{each}" for each in META)
    elif inside:
        for name, inner in inside.items():
            yield from flat(inner, (*at, name))
    elif isinstance(values, dict) and values.get("properties"):
        yield from flat(values, (*at, "*"))
    else:
        yield ".".join(at)


def text() -> str:
    """The file."""
    found = {kind: sorted(set().union(*(members(*each) for each in files))) for kind, files in CRDS.items()}
    for kind, plural in OWN.items():
        file = f"manifests/base/crds/trainer.kubeflow.org_{plural}.yaml"
        shipped = upstream.shipped("trainer")
        every = {version: members(f"{TRAINER.path}@v{version}", file) for version in upstream.versions("trainer")}
        older = [each for version, each in every.items() if upstream.order(version) < upstream.order(shipped)]
        gone = set[str]().union(*older) - every[shipped]
        # What had no members of its own and now has some is not gone.
        found[kind] = sorted(one for one in gone if not any(each.startswith(f"{one}.") for each in every[shipped]))
    return json.dumps(found, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
