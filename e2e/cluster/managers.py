"""JobSet, Trainer and Muster as processes of this machine: the control plane tier's way to run them.

Their own manifests are applied without the Deployments and Services; each process has a token of the ServiceAccount
that its pod would have, so its RBAC is the real one. Only the webhook configurations must change: the API server
reaches the processes by URL instead of through a Service.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import commands, credentials, processes, upstream
from e2e.cluster.errors import ClusterError
from e2e.cluster.places import REPOSITORY, Places
from e2e.cluster.sites import Site
from muster.certs import material_sources

__all__ = ["Manager", "config_of", "prepare", "start", "webhooks"]

_DEPLOYED = {"Deployment", "Service", "Secret", "PodDisruptionBudget"}
_CONFIGURATIONS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


@dataclass(frozen=True, slots=True)
class Manager:
    """A controller or webhook as a process.

    Attributes:
        documents: its manifests, as for a cluster with nodes.
        command: the command line; `{config}` stands for its configuration file.
        account: namespace and name of its ServiceAccount.
        config: the content of its configuration file.
        port: TCP port of its webhooks.
        names: further names in its certificate.
    """

    name: str
    documents: list[upstream.Document]
    command: tuple[str, ...]
    account: tuple[str, str]
    config: Mapping[str, Any]
    port: int
    names: tuple[str, ...] = ()

    def certificates(self, places: Places) -> Path:
        """The folder of tls.crt, tls.key and ca.crt, made when it is first asked for."""
        # controller-runtime looks for this folder below TMPDIR.
        folder = places.credentials / self.name / "k8s-webhook-server" / "serving-certs"
        if not (folder / "tls.crt").exists():
            material_sources.SelfSignedSource(("127.0.0.1", "localhost", *self.names), directory=folder).current()
        return folder


def prepare(places: Places, kubectl: Path, managers: Iterable[Manager]) -> None:
    """Apply CRDs, RBAC and configuration of all managers and wait until the CRDs are served."""
    skipped = _DEPLOYED | _CONFIGURATIONS
    kept = [each for manager in managers for each in manager.documents if each["kind"] not in skipped]
    upstream.apply(kubectl, _namespaces_first(kept), places.kubeconfig)
    upstream.established(kubectl, places.kubeconfig)


def start(places: Places, site: Site, kubectl: Path, manager: Manager) -> None:
    """Start a manager without waiting for it; its webhooks are registered later, when it answers."""
    namespace, account = manager.account
    kubeconfig = places.credentials / manager.name / "kubeconfig"
    certificates = manager.certificates(places)
    token = _run(places, kubectl, "create", "token", account, "-n", namespace, "--duration=48h")
    credentials.kubeconfig(kubeconfig, places, site, token)
    config = places.configs / f"{manager.name}.yaml"
    config.write_text(yaml.safe_dump(dict(manager.config), sort_keys=False))
    environment = {"KUBECONFIG": str(kubeconfig), "TMPDIR": str(certificates.parents[1]), "PYTHONPATH": str(REPOSITORY)}
    command = [part.format(config=config) for part in manager.command]
    processes.start(places, manager.name, command, environment, listens=("127.0.0.1", manager.port))


def webhooks(places: Places, kubectl: Path, managers: Iterable[Manager]) -> None:
    """Apply the managers' webhook configurations, each by URL."""
    documents: list[upstream.Document] = []
    for manager in managers:
        trust = base64.b64encode((manager.certificates(places) / "ca.crt").read_bytes()).decode()
        configurations = (each for each in manager.documents if each["kind"] in _CONFIGURATIONS)
        documents += [_by_url(each, f"https://127.0.0.1:{manager.port}", trust) for each in configurations]
    upstream.apply(kubectl, documents, places.kubeconfig)


def config_of(documents: Iterable[upstream.Document], name: str, key: str) -> dict[str, Any]:
    """The YAML under `key` of ConfigMap `name`."""
    for document in documents:
        if document["kind"] == "ConfigMap" and document["metadata"]["name"] == name:
            loaded: dict[str, Any] = yaml.load(document["data"][key], yaml.CSafeLoader)
            return loaded
    raise ClusterError(f"the manifests contain no ConfigMap {name}")


def _by_url(document: upstream.Document, url: str, trust: str) -> upstream.Document:
    webhooks = []
    for webhook in document["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhooks.append({**webhook, "clientConfig": {"url": f"{url}{path}", "caBundle": trust}})
    return {**document, "webhooks": webhooks}


def _namespaces_first(documents: Iterable[upstream.Document]) -> list[upstream.Document]:
    return sorted(documents, key=lambda document: document["kind"] != "Namespace")


def _run(places: Places, kubectl: Path, *arguments: str) -> str:
    return commands.run([kubectl, "--kubeconfig", places.kubeconfig, *arguments], timeout=60).strip()
