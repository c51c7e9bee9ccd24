"""The documents of `manifests/base`, with the settings of one installation: image, configuration, replicas, CA.

The kustomize in kubectl renders the base; the settings are made on the documents in memory. The rights of what writes
are added where the configuration switches it on.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import yaml

from muster.webhook import configs, manifests
from muster.webhook.installer.errors import InstallError
from muster.webhook.installer.kubectl import Document, Kubectl

__all__ = ["CONFIG_KEY", "NAME", "NAMESPACE", "WRITERS", "is_on", "is_webhook", "of_writer", "render", "set_ca"]

NAME = "muster"
"""Name of the Deployment, the Service, the ConfigMap and the webhook configurations in the base."""
NAMESPACE = "muster-system"
CONFIG_KEY = "muster.yaml"

WRITERS: Mapping[str, Callable[[configs.Config], bool]] = {
    "controllers": lambda config: config.controllers.enabled,
    "trainings": lambda config: config.trainings.enabled,
    "dry-runs": lambda config: config.checks.dry_run,
}
"""What needs rights of its own, in `rbac-NAME.yaml`, and whether a configuration switches it on."""

_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def render(
    kubectl: Kubectl,
    *,
    image: str | None = None,
    config: str | None = None,
    ca: bytes | None = None,
    replicas: int | None = None,
) -> list[Document]:
    """Return every document of the base, in the order of kustomize; arguments that are None change nothing.

    Args:
        kubectl: renders the base; no cluster is needed.
        image: image of the container.
        config: text of a configuration file.
        ca: PEM of all CAs for `caBundle` of each webhook entry.
        replicas: number of replicas of the Deployment.

    Raises:
        InstallError: the base is not installed, kubectl cannot render it, or the configuration is not valid.
    """
    out = _parsed(kubectl.run("kustomize", _base()))
    if config is not None:
        _set_config(_only(out, "ConfigMap"), config)
    if ca is not None:
        set_ca(filter(is_webhook, out), ca)
    _set_deployment(_only(out, "Deployment"), image, replicas, _configuration(out))
    return [*out, *(document for each in WRITERS if is_on(out, each) for document in of_writer(out, each))]


def is_on(rendered: Iterable[Document], writer: str) -> bool:
    """Whether the configuration in the ConfigMap switches one of `WRITERS` on."""
    config = configs.parse(_configuration(rendered).encode(), "the configuration")
    return WRITERS[writer](config)


def of_writer(rendered: Iterable[Document], writer: str) -> list[Document]:
    """Return the documents of the rights of one of `WRITERS`, with the labels that all have.

    Raises:
        InstallError: they are not installed.
    """
    labels = _only(rendered, "ServiceAccount")["metadata"].get("labels", {})
    out = _parsed(_path(manifests.rights, f"rbac-{writer}.yaml").read_text())
    for document in out:
        document["metadata"]["labels"] = {**labels}
    return out


def is_webhook(document: Document) -> bool:
    """Whether the document makes the API server call Muster."""
    return document["kind"] in _WEBHOOKS


def set_ca(webhooks: Iterable[Document], ca: bytes) -> None:
    """Put the PEM of the CAs into every entry of webhook configurations."""
    bundle = base64.b64encode(ca).decode()
    for configuration in webhooks:
        for entry in configuration["webhooks"]:
            entry["clientConfig"]["caBundle"] = bundle


def _base() -> str:
    return str(_path(manifests.folder, "base"))


def _path(find: Callable[[str], Path], name: str) -> Path:
    try:
        return find(name)
    except manifests.ManifestsError as error:
        raise InstallError(str(error)) from error


def _configuration(rendered: Iterable[Document]) -> str:
    return str(_only(rendered, "ConfigMap")["data"][CONFIG_KEY])


def _parsed(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document]


def _only(rendered: Iterable[Document], kind: str) -> Document:
    found = [document for document in rendered if document["kind"] == kind]
    if len(found) != 1:
        raise InstallError(f"{_base()}: renders {len(found)} documents of kind {kind}; it must be one")
    return found[0]


def _set_config(configmap: Document, config: str) -> None:
    try:
        configs.parse(config.encode(), "the configuration")
    except configs.ConfigError as error:
        raise InstallError(str(error)) from error
    configmap["data"] = {CONFIG_KEY: config}


def _set_deployment(deployment: Document, image: str | None, replicas: int | None, config: str) -> None:
    spec = deployment["spec"]
    container = spec["template"]["spec"]["containers"][0]
    if image is not None:
        container["image"] = image
    if replicas is not None:
        spec["replicas"] = replicas
    # Most keys are only read at start, so another configuration must start new pods.
    digest = hashlib.sha256(config.encode()).hexdigest()[:16]
    spec["template"]["metadata"].setdefault("annotations", {})["muster.dev/config-digest"] = digest
