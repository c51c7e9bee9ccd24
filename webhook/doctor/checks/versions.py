"""Checks the versions of Trainer, JobSet and Muster's own image against those that were tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata

from muster.webhook.doctor import diagnoses, tested
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Document, Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECK", "judge", "look", "needs"]

CHECK = "versions"
_OWN = "muster-webhook"
_LABEL = (
    "app.kubernetes.io/name in (muster,trainer,kubeflow-trainer,jobset)"  # the values in their manifests and charts
)


def needs(_options: Options) -> tuple[Need, ...]:
    """Return the permissions to find the controllers in all namespaces."""
    return (Need("list", "deployments", "apps"),)


async def look(installation: Installation) -> list[Diagnosis]:
    """Compare the images of Trainer and JobSet with the tested versions, and Muster's with this command.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    deployments = await installation.list("/apis/apps/v1/deployments", labelSelector=_LABEL)
    return [*(judge(each, deployments) for each in tested.CONTROLLERS), *_own(deployments)]


def judge(controller: tested.Controller, deployments: Iterable[Document]) -> Diagnosis:
    """Compare the version of a controller with the tested one."""
    images = list(_images(controller.image, deployments))
    if not images:
        what = f"no Deployment of {controller.name} was found, so its version is not known"
        return diagnoses.warning(CHECK, what, f"check that it runs, and that it is {controller.tested}")
    for image in images:
        tag = image.partition("@")[0].rpartition(":")[2]
        if tested.minor(tag) is None:
            what = f"the image {image} of {controller.name} does not show its version"
            return diagnoses.warning(CHECK, what, f"check that it is {controller.tested}, which Muster was tested with")
        if tested.minor(tag) != tested.minor(controller.tested):
            what = f"{controller.name} is {tag}; Muster was tested with {controller.tested}"
            return diagnoses.warning(CHECK, what, tested.SUITES)
    return diagnoses.ok(CHECK, f"{controller.name} is {tag}; Muster was tested with {controller.tested}")


def _own(deployments: Iterable[Document]) -> Iterator[Diagnosis]:
    """Warn when the version that runs is not the one whose entries and permissions are expected."""
    try:
        version = metadata.version("muster-admission")
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return
    for image in _images(_OWN, deployments):
        tag = image.partition("@")[0].rpartition(":")[2].removeprefix("v")
        if tested.minor(tag) is not None and tag != version:
            what = f"the installed Muster is {tag}, but this command checks for {version}"
            yield diagnoses.warning(CHECK, what, f"use `muster` {tag}, or upgrade the installation to {version}")


def _images(wanted: str, deployments: Iterable[Document]) -> Iterator[str]:
    for each in deployments:
        for container in each["spec"]["template"]["spec"]["containers"]:
            image = str(container.get("image", ""))
            if image.partition("@")[0].rpartition("/")[2].partition(":")[0] == wanted:
                yield image
