"""Trainer's and JobSet's own manifests, rendered from the Go module cache; none of them is kept in this repository.

JobSet ships a complete kustomization. Trainer's names JobSet's by an address on the network, so its parts are put
together here from the same folders. The definitions of reports and of cert-manager are read from there too.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from e2e.cluster import builds, commands, places
from e2e.cluster.errors import ClusterError

__all__ = [
    "JOBSET",
    "TRAINER",
    "Document",
    "apply",
    "cert_manager_definitions",
    "established",
    "jobset",
    "kustomize",
    "report_definitions",
    "runtimes",
    "trainer",
    "writers",
]

Document: TypeAlias = dict[str, Any]

JOBSET = "sigs.k8s.io/jobset"
TRAINER = "github.com/kubeflow/trainer/v2"

_REPORTS = {
    "openreports": ("github.com/openreports/reports-api", "config/crd/openreports.io_reports.yaml"),
    "policyreport": ("github.com/kyverno/kyverno", "config/crds/policyreport/wgpolicyk8s.io_policyreports.yaml"),
}
_CERT_MANAGER = "github.com/cert-manager/cert-manager"
_TRAINER_NAMESPACE = "kubeflow-system"
_PARTS = ("crds", "manager", "rbac", "webhook")


def jobset(kubectl: Path) -> list[Document]:
    """Everything that installs JobSet."""
    return kustomize(kubectl, builds.module_folder("kubernetes", JOBSET) / "config" / "default")


def trainer(kubectl: Path, work: Path) -> list[Document]:
    """Everything that installs Trainer, its namespace first; `work` is a folder to copy its manifests to."""
    source = builds.module_folder("kubernetes", TRAINER) / "manifests"
    folder = _copied(source, work)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": _TRAINER_NAMESPACE,
        "resources": ["../overlays/manager/namespace.yaml", *(f"../base/{part}" for part in _PARTS)],
        "images": [{"name": "ghcr.io/kubeflow/trainer/trainer-controller-manager", "newTag": _tag()}],
        "secretGenerator": [
            {"name": "kubeflow-trainer-webhook-cert", "options": {"disableNameSuffixHash": True}},
        ],
    }
    ours = folder / "muster"
    ours.mkdir()
    (ours / "kustomization.yaml").write_text(json.dumps(kustomization))
    return kustomize(kubectl, ours, "--load-restrictor=LoadRestrictionsNone")


def runtimes(kubectl: Path, work: Path) -> list[Document]:
    """Muster's ClusterTrainingRuntimes, and Trainer's built-in ones of other names; `work` as for `trainer`."""
    ours = kustomize(kubectl, places.REPOSITORY / "manifests" / "runtimes")
    taken = {document["metadata"]["name"] for document in ours}
    source = builds.module_folder("kubernetes", TRAINER) / "manifests"
    theirs = kustomize(kubectl, _copied(source, work) / "base" / "runtimes")
    return [*ours, *(document for document in theirs if document["metadata"]["name"] not in taken)]


def report_definitions() -> dict[str, Document]:
    """The CustomResourceDefinitions of reports, by the value of `audit.reports` that needs them."""
    return {
        format_: yaml.load((builds.module_folder("reports", module) / file).read_text(), yaml.CSafeLoader)
        for format_, (module, file) in _REPORTS.items()
    }


def cert_manager_definitions() -> list[Document]:
    """The CustomResourceDefinitions of cert-manager's own group; those of ACME are left out."""
    folder = builds.module_folder("certmanager", _CERT_MANAGER) / "deploy" / "crds"
    return [yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted(folder.glob("cert-manager.io_*.yaml"))]


def kustomize(kubectl: Path, folder: Path, *flags: str) -> list[Document]:
    """Render a kustomization.

    Raises:
        ClusterError: kustomize refuses it; the message quotes kustomize.
    """
    rendered = commands.run([kubectl, "kustomize", *flags, folder])
    return [document for document in yaml.load_all(rendered, yaml.CSafeLoader) if document]


def writers() -> list[Document]:
    """Return the rights of Muster's controllers, which the suites start where the installation has them off."""
    text = (places.REPOSITORY / "manifests" / "overlays" / "production" / "rbac-controllers.yaml").read_text()
    return list(yaml.load_all(text, yaml.CSafeLoader))


def apply(kubectl: Path, documents: Iterable[Mapping[str, Any]], kubeconfig: Path) -> None:
    """Apply documents server-side in their order.

    Raises:
        ClusterError: the API server refuses one; the message quotes the API server.
    """
    text = "\n---\n".join(json.dumps(document) for document in documents)
    words = (kubectl, "--kubeconfig", kubeconfig, "apply", "--server-side", "--force-conflicts", "-f", "-")
    commands.run(words, stdin=text, timeout=120)


def established(kubectl: Path, kubeconfig: Path, seconds: float = 60.0) -> None:
    """Wait until every CustomResourceDefinition is served.

    `kubectl wait` cannot be used: it fails for a definition whose conditions are still null (v1.36.3).

    Raises:
        ClusterError: one is not served in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        listed = commands.run((kubectl, "--kubeconfig", kubeconfig, "get", "crd", "-o", "json"), timeout=30)
        late = [each["metadata"]["name"] for each in json.loads(listed)["items"] if not _is_established(each)]
        if not late:
            return
        if time.monotonic() > deadline:
            raise ClusterError(
                f"the API server does not serve these definitions after {seconds:g} s: {', '.join(late)}"
            )
        time.sleep(0.2)


def _is_established(definition: Document) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)


def _copied(source: Path, work: Path) -> Path:
    # kustomize must write beside the bases, and the module cache is read-only.
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work, copy_function=shutil.copyfile)
    for folder in (work, *(each for each in work.rglob("*") if each.is_dir())):
        folder.chmod(0o755)
    return work


def _tag() -> str:
    return builds.version("kubernetes", TRAINER)
