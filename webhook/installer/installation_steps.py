"""The steps of an installation, in order. Installing again is an upgrade."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from muster.certs import materials
from muster.strategies.documents import decoding
from muster.webhook.installer import installed_objects
from muster.webhook.installer.installed_objects import NAME, NAMESPACE
from muster.webhook.installer.kubectl_apply import Document, InstallError, Kubectl

__all__ = ["Installation", "Say", "install", "uninstall", "upgrade"]

_ROLLOUT = 300
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Installation:
    """What to install. Without a configuration or replicas the settings in the cluster are kept.

    Attributes:
        image: image of the Deployment; None for the image of this version.
        config: text of a configuration file.
        replicas: number of replicas of the Deployment.
    """

    image: str | None = None
    config: str | None = None
    replicas: int | None = None


def install(kubectl: Kubectl, wanted: Installation, say: Say) -> None:
    """Install or upgrade, and wait until Muster serves.

    Args:
        kubectl: kubectl for the cluster.
        wanted: what to install.
        say: called with a line for people at each step.

    Raises:
        InstallError: a step failed. After a failed first installation nothing calls Muster; after a failed upgrade the
            old pods still serve.
    """
    _check_crds(kubectl)
    wanted = _completed(kubectl, wanted)
    found = kubectl.get("secret", installed_objects.SECRET, NAMESPACE)
    material = installed_objects.kept(found)
    renewed = material is None
    material = material or installed_objects.issue(_trusted(kubectl))
    rendered = installed_objects.render(
        kubectl, image=wanted.image, config=wanted.config, ca=material.authority_pem, replicas=wanted.replicas
    )
    say("certificate: made, valid for a year" if renewed else "certificate: kept")
    _apply(kubectl, rendered, material, say, renewed=renewed)
    for writer in installed_objects.WRITERS:
        if not installed_objects.is_on(rendered, writer):
            _disarm(kubectl, writer, installed_objects.of_writer(rendered, writer), say)


def upgrade(kubectl: Kubectl, wanted: Installation, say: Say) -> None:
    """Upgrade Muster as `install` does, and wait until it serves.

    Raises:
        InstallError: Muster is not installed, or a step failed.
    """
    if kubectl.get("deployment", NAME, NAMESPACE) is None:
        raise InstallError(f"there is no Deployment {NAME} in namespace {NAMESPACE} to upgrade; run `muster install`")
    install(kubectl, wanted, say)


def uninstall(kubectl: Kubectl, say: Say) -> None:
    """Remove Muster: first the webhook configurations, then all else; jobs stay as they are.

    Raises:
        InstallError: a step failed; the removal can be repeated.
    """
    rendered = installed_objects.render(kubectl)
    rights = [each for writer in installed_objects.WRITERS for each in installed_objects.of_writer(rendered, writer)]
    rest = [*_reversed_rest(rights), *_reversed_rest(rendered)]
    for document in (*filter(installed_objects.is_webhook, rendered), *rest):
        done = "deleted" if kubectl.delete(document) else "not found:"
        say(f"{done} {document['kind']} {document['metadata']['name']}")


def _apply(
    kubectl: Kubectl, rendered: list[Document], material: materials.Material, say: Say, *, renewed: bool
) -> None:
    webhooks = list(filter(installed_objects.is_webhook, rendered))
    # The CA must be trusted before it is used: each pod gets the new Secret when its kubelet updates the volume.
    if renewed and _trust(kubectl, webhooks, material.authority_pem):
        say("webhooks: the new CA is trusted in addition to the old one")
    kubectl.apply([document for document in rendered if document["kind"] == "Namespace"])
    if renewed:
        kubectl.apply([installed_objects.secret(material)])
    kubectl.apply([each for each in rendered if not installed_objects.is_webhook(each) and each["kind"] != "Namespace"])
    say("deployment: applied, waiting until Muster serves")
    _wait(kubectl)
    kubectl.apply(webhooks)
    say("webhooks: applied")


def _disarm(kubectl: Kubectl, writer: str, rights: Sequence[Document], say: Say) -> None:
    """Remove the rights of what was switched on before, or that an older version gave in any case."""
    for document in rights:
        metadata = document["metadata"]
        if kubectl.get(document["kind"].lower(), metadata["name"], metadata.get("namespace", "")) is not None:
            kubectl.delete(document)
            say(f"{writer} are off: deleted {document['kind']} {metadata['name']}")


def _check_crds(kubectl: Kubectl) -> None:
    """Check that the cluster serves the kinds of Trainer and JobSet, without which Muster is never ready."""
    for name in ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"):
        if kubectl.get("customresourcedefinition", name) is None:
            raise InstallError(f"the cluster does not serve {name}; install Kubeflow Trainer and JobSet first")


def _completed(kubectl: Kubectl, wanted: Installation) -> Installation:
    replicas = decoding.member(kubectl.get("deployment", NAME, NAMESPACE), "spec").get("replicas")
    config = decoding.member(kubectl.get("configmap", NAME, NAMESPACE), "data").get(installed_objects.CONFIG_KEY)
    # Without a replica Muster would not serve.
    return replace(wanted, config=wanted.config or config, replicas=wanted.replicas or replicas or None)


def _trusted(kubectl: Kubectl) -> bytes:
    """Return the CAs that the API server trusts for Muster so far."""
    entries = decoding.items(kubectl.get("mutatingwebhookconfiguration", NAME), "webhooks")
    bundles = {entry["clientConfig"].get("caBundle", "") for entry in entries}
    return b"\n".join(base64.b64decode(bundle) for bundle in sorted(bundles))


def _trust(kubectl: Kubectl, webhooks: Sequence[Document], ca: bytes) -> int:
    """Set only `caBundle` of the webhook configurations that exist; return their number."""
    live = [kubectl.get(each["kind"].lower(), each["metadata"]["name"]) for each in webhooks]
    kept = [{**each, "webhooks": found["webhooks"]} for each, found in zip(webhooks, live, strict=True) if found]
    installed_objects.set_ca(kept, ca)
    if kept:
        kubectl.apply(kept)
    return len(kept)


def _wait(kubectl: Kubectl) -> None:
    which = (f"deployment/{NAME}", "--namespace", NAMESPACE)
    try:
        kubectl.run("rollout", "status", *which, f"--timeout={_ROLLOUT}s", timeout=_ROLLOUT + 10.0)
    except InstallError as error:
        raise InstallError(f"Muster did not become ready: {error}\n{_evidence(kubectl)}") from error


def _evidence(kubectl: Kubectl) -> str:
    """Return what the cluster reports about the pods; parts that cannot be read are replaced by the error."""
    where = ("--namespace", NAMESPACE)
    selector = f"--selector=app.kubernetes.io/name={NAME}"
    questions: Mapping[str, tuple[str, ...]] = {
        "pods": ("get", "pods", *where, selector, "--output=wide"),
        "events": ("get", "events", *where, "--sort-by=.lastTimestamp"),
        "log": ("logs", *where, selector, "--tail=20"),
    }
    return "\n".join(f"--- {title}\n{_asked(kubectl, question)}" for title, question in questions.items())


def _asked(kubectl: Kubectl, question: tuple[str, ...]) -> str:
    try:
        return kubectl.run(*question, timeout=15.0).rstrip()
    except InstallError as error:
        return f"(cannot be read: {error})"


def _reversed_rest(rendered: list[Document]) -> list[Document]:
    return [document for document in reversed(rendered) if not installed_objects.is_webhook(document)]
