"""Whether Muster was tested with what it stands on here: Trainer, JobSet, and its own image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata

from webhook.doctor import diagnoses, tested
from webhook.doctor.diagnoses import Diagnosis
from webhook.doctor.installations import Document, Installation, Options
from webhook.doctor.permissions import Need

__all__ = ["CHECK", "judge", "look", "needs"]

CHECK = "versions"
_OWN = "muster-webhook"
_LABEL = "app.kubernetes.io/name in (muster,trainer,kubeflow-trainer,jobset)"  # as their manifests and charts have it


def needs(_options: Options) -> tuple[Need, ...]:
    """To find the controllers, in whatever namespaces they are."""
    return (Need("list", "deployments", "apps"),)


async def look(installation: Installation) -> list[Diagnosis]:
    """Compare the images of Trainer and JobSet with what was tested, and Muster's with this command.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    deployments = await installation.list("/apis/apps/v1/deployments", labelSelector=_LABEL)
    return [*(judge(each, deployments) for each in tested.CONTROLLERS), *_own(deployments)]


def judge(controller: tested.Controller, deployments: Iterable[Document]) -> Diagnosis:
    """Say how a controller's version compares with the tested one."""
    images = list(_images(controller.image, deployments))
    if not images:
        what = f"no Deployment of {controller.name} was found, so its version is not known"
        return diagnoses.warning(CHECK, what, f"see that it runs, and that it is {controller.tested}")
    for image in images:
        tag = image.partition("@")[0].rpartition(":")[2]
        if tested.minor(tag) is None:
            what = f"the version of {controller.name} cannot be told from its image {image}"
            return diagnoses.warning(CHECK, what, f"see that it is {controller.tested}, the one Muster was tested with")
        if tested.minor(tag) != tested.minor(controller.tested):
            what = f"{controller.name} is {tag}; Muster was tested with {controller.tested}"
            return diagnoses.warning(CHECK, what, tested.SUITES)
    return diagnoses.ok(CHECK, f"{controller.name} is {tag}; Muster was tested with {controller.tested}")


def _own(deployments: Iterable[Document]) -> Iterator[Diagnosis]:
    """Say whether the entries and rights that are expected here are those of the version that runs."""
    try:
        version = metadata.version("muster")
    except metadata.PackageNotFoundError:  # of a checkout
        return
    for image in _images(_OWN, deployments):
        tag = image.partition("@")[0].rpartition(":")[2].removeprefix("v")
        if tested.minor(tag) is not None and tag != version:
            what = f"Muster is {tag} there, and this command compares it with what {version} wants"
            yield diagnoses.warning(CHECK, what, f"use `muster` {tag}, or upgrade the installation to {version}")


def _images(wanted: str, deployments: Iterable[Document]) -> Iterator[str]:
    for each in deployments:
        for container in each["spec"]["template"]["spec"]["containers"]:
            image = str(container.get("image", ""))
            if image.partition("@")[0].rpartition("/")[2].partition(":")[0] == wanted:
                yield image
