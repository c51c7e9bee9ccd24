"""The manifests of `manifests/base` as kustomize would put them together, read from their files, without kubectl."""

from __future__ import annotations

import functools
from typing import Any

import yaml

from muster.webhook import configs
from tests.manifests import files

__all__ = ["FOLDER", "ROOT", "WEBHOOKS", "config", "container", "documents", "kustomization", "one", "pod", "webhooks"]

FOLDER = files.FOLDER / "base"
ROOT = files.FOLDER.parent
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def kustomization() -> Any:
    return yaml.safe_load((FOLDER / "kustomization.yaml").read_text())


def documents() -> list[Any]:
    """All documents: those of the files, and the generated ConfigMap."""
    read = [each for name in kustomization()["resources"] for each in files.documents(FOLDER / name)]
    (generated,) = kustomization()["configMapGenerator"]
    data = {name: (FOLDER / name).read_text() for name in generated["files"]}
    configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generated["name"]}, "data": data}
    return [*read, configmap]


def one(kind: str, name: str = "") -> Any:
    """The only document of a kind, or the only one of that name."""
    found = [document for document in documents() if document["kind"] == kind]
    (only,) = (document for document in found if not name or document["metadata"]["name"] == name)
    return only


def pod() -> Any:
    return one("Deployment")["spec"]["template"]


def container() -> Any:
    (only,) = pod()["spec"]["containers"]
    return only


def webhooks() -> list[tuple[str, Any]]:
    """Every entry, with "mutate" or "validate" before it."""
    phases = dict(zip(WEBHOOKS, ("mutate", "validate"), strict=True))
    return [(phase, entry) for kind, phase in phases.items() for entry in one(kind)["webhooks"]]


@functools.cache
def config() -> configs.Config:
    """The configuration in the ConfigMap, as `muster serve` would read it."""
    (text,) = one("ConfigMap")["data"].values()
    return configs.parse(text.encode(), "manifests/base/muster.yaml")
