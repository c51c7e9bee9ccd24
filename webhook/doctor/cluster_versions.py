"""Checks of the versions: of Kubernetes and the kinds that it serves, of Trainer and JobSet, and of Muster."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from importlib import metadata
from typing import NamedTuple

from muster.kube import transports
from muster.strategies import upstream
from muster.strategies.documents import decoding, names
from muster.strategies.documents.decoding import items
from muster.webhook.doctor.diagnoses import Diagnosis, error, ok, warning
from muster.webhook.doctor.live_installation import Document, Installation

__all__ = ["TESTED", "api_server", "versions"]

_SUITES = "run the suites against a cluster like this one (docs/internals/testing.md) before you rely on it"
_NUMBER = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_OLDEST = (1, 30)  # every API server from this version on has matchConditions in webhook entries
_OWN = "muster-webhook"
_LABEL = "app.kubernetes.io/name in (muster,trainer,kubeflow-trainer,jobset)"  # as in their manifests and charts


class _Controller(NamedTuple):
    """A controller that Muster works with: its kind by API path and resource, and the end of its image's name."""

    name: str
    path: str
    resource: str
    image: str


_CONTROLLERS = (
    _Controller("Trainer", f"/apis/{names.TRAINER_API_VERSION}", "trainjobs", "trainer-controller-manager"),
    _Controller("JobSet", f"/apis/{names.JOBSET_API_VERSION}", "jobsets", "jobset"),
)
TESTED: Mapping[str, str] = {
    "Kubernetes": "v1.36.3",
    "Trainer": f"v{upstream.shipped('trainer')}",
    "JobSet": f"v{upstream.shipped('jobset')}",
}
"""The versions in the suites, as `e2e/binaries/kubernetes/go.mod` pins them."""


async def api_server(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Read the version of the API server, and the kinds that it serves; this needs no permission."""
    version = str(decoding.mapping(await installation.get("/version")).get("gitVersion", ""))
    found, tested = _minor(version), f"Muster was tested with {TESTED['Kubernetes']}"
    if found is None:
        yield warning(f"its version {version!r} is not a version of Kubernetes", "check that this is an API server")
    elif found < _OLDEST:
        what = f"Kubernetes is {version}; Muster's webhook entries need 1.30 (matchConditions)"
        yield error(what, f"upgrade it; {tested}")
    elif found != _minor(TESTED["Kubernetes"]):
        yield warning(f"Kubernetes is {version}; {tested}", _SUITES)
    else:
        yield ok(f"Kubernetes is {version}; {tested}")
    for each in _CONTROLLERS:
        served = items(await installation.get(each.path), "resources")
        if each.resource not in {str(kind.get("name")) for kind in served}:
            what = f"the API server does not serve {each.resource} of {each.path.removeprefix('/apis/')}"
            yield error(what, f"install {each.name} {TESTED[each.name]}; without it Muster does not become ready")
    if (await installation.configured()).profiles:
        try:
            claims = await installation.get("/apis/resource.k8s.io/v1")
        except transports.RefusedError:
            return
        if claims is None:
            what = "profiles are configured, and the API server does not serve resource.k8s.io/v1"
            yield error(what, "use Kubernetes 1.34 or later, or remove the profiles")


async def versions(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Compare the images of Trainer and JobSet with the tested versions, and Muster's with this command."""
    deployments = await installation.list("/apis/apps/v1/deployments", labelSelector=_LABEL)
    for each in _CONTROLLERS:
        yield _compared(each, deployments)
    try:
        version = metadata.version("muster-admission")
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return
    for image in _images(_OWN, deployments):
        tag = _tag(image).removeprefix("v")
        if _minor(tag) is not None and tag != version:  # other entries and permissions are expected then
            what = f"the installed Muster is {tag}, but this command checks for {version}"
            yield warning(what, f"use `muster` {tag}, or upgrade the installation to {version}")


def _compared(controller: _Controller, deployments: Iterable[Document]) -> Diagnosis:
    name, tested, tag = controller.name, TESTED[controller.name], ""
    for image in _images(controller.image, deployments):
        tag = _tag(image)
        if _minor(tag) is None:
            what = f"the image {image} of {name} does not show its version"
            return warning(what, f"check that it is {tested}, which Muster was tested with")
        if _minor(tag) != _minor(tested):
            return warning(f"{name} is {tag}; Muster was tested with {tested}", _SUITES)
    if not tag:
        what = f"no Deployment of {name} was found, so its version is not known"
        return warning(what, f"check that it runs, and that it is {tested}")
    return ok(f"{name} is {tag}; Muster was tested with {tested}")


def _images(wanted: str, deployments: Iterable[Document]) -> Iterator[str]:
    for each in deployments:
        for container in each["spec"]["template"]["spec"]["containers"]:
            image = str(container.get("image", ""))
            if image.partition("@")[0].rpartition("/")[2].partition(":")[0] == wanted:
                yield image


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition(":")[2]


def _minor(version: str) -> tuple[int, int] | None:
    """Return major and minor number of a version or tag, None when it is not a version."""
    found = _NUMBER.match(version)
    return (int(found[1]), int(found[2])) if found else None
