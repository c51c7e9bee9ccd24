"""The objects that are applied: the manifests of this version with what was asked for, and a certificate and its CA."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from muster.certs import authorities, chains, errors, expiries, files, leaves, materials, pems, subject_names
from muster.strategies.documents import decoding
from muster.webhook import configs, manifests
from muster.webhook.installer.kubectl_apply import MANAGER, Document, InstallError, Kubectl

__all__ = [
    "CONFIG_KEY",
    "NAME",
    "NAMESPACE",
    "SECRET",
    "WRITERS",
    "is_on",
    "is_webhook",
    "issue",
    "kept",
    "of_writer",
    "render",
    "secret",
    "set_ca",
]

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


SECRET = "muster-tls"  # noqa: S105  # a name
_VALIDITY = timedelta(days=365)
_MAKER = "app.kubernetes.io/managed-by"
_KEYS = ("tls.crt", "tls.key", "ca.crt")


def issue(earlier: bytes = b"") -> materials.Material:
    """Make a CA, and a leaf signed by it for the names of the Service.

    Args:
        earlier: PEM of the CAs that are trusted so far; those that are still valid stay in the bundle.
    """
    now = expiries.utc_now()
    authority = authorities.create(now, validity=_VALIDITY, predecessors=_valid(earlier, now))
    leaf = leaves.issue(authority, subject_names.service_names(NAME, NAMESPACE), now, validity=_VALIDITY)
    return materials.from_authority(authority, leaf)


def kept(found: Document | None) -> materials.Material | None:
    """Return the certificate in a Secret; None when there is no Secret, or Muster's own is damaged or due for renewal.

    Args:
        found: the Secret as the API server gives it.

    Raises:
        InstallError: Muster did not make the Secret, and its certificate cannot be served. It is never overwritten.
    """
    if found is None:
        return None
    where = files.Locations.within(Path("Secret") / NAMESPACE / SECRET)
    wanted = subject_names.service_names(NAME, NAMESPACE)[:1]
    if decoding.member(found, "metadata", "labels").get(_MAKER) == MANAGER:
        return _lasting(where, _decoded(found), wanted)
    try:
        return materials.parse(where, _decoded(found), wanted, expiries.utc_now())
    except errors.CertificateError as error:
        raise InstallError(f"{error}; or delete the Secret, and Muster makes a new one") from error


def secret(material: materials.Material) -> Document:
    """Return the Secret that the Deployment mounts."""
    parts = (material.chain_pem, material.key_pem, material.authority_pem)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": SECRET,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": NAME, _MAKER: MANAGER},
        },
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(part).decode() for key, part in zip(_KEYS, parts, strict=True)},
    }


def _lasting(
    where: files.Locations, contents: tuple[bytes, bytes, bytes], wanted: Sequence[str]
) -> materials.Material | None:
    now = expiries.utc_now()
    try:
        material = materials.parse(where, contents, wanted, now)
    except errors.CertificateError:
        return None
    return None if material.leaf.due(now) or material.authority.due(now) else material


def _decoded(found: Document) -> tuple[bytes, bytes, bytes]:
    """Return the three files of a Secret; a missing one is empty, which is reported when it is read."""
    data = decoding.member(found, "data")
    chain, key, authority = (base64.b64decode(data.get(name) or "") for name in _KEYS)
    return chain, key, authority


def _valid(earlier: bytes, now: datetime) -> tuple[Any, ...]:  # Any: x509.Certificate, whose package only certs names
    try:
        found = pems.certificates(earlier, "the CA so far") if earlier else ()
    except errors.MaterialError:
        return ()
    return tuple(each for each in found if chains.window(each).covers(now))
