"""Whether Muster was tested with what it stands on here: Kubernetes, Trainer, JobSet, and its own image."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata

from strategies import names
from webhook.cluster import transports
from webhook.doctor import diagnoses
from webhook.doctor.diagnoses import Diagnosis
from webhook.doctor.installations import Document, Installation, Options
from webhook.doctor.permissions import Need

__all__ = ["API", "CHECK", "CONTROLLERS", "KUBERNETES", "TESTED", "Controller", "api_server", "judge", "look", "needs"]

API = "api-server"
CHECK = "versions"
KUBERNETES = "v1.36.3"
_OLDEST = (1, 30)  # matchConditions of webhook entries are in every API server from then on
_CLAIMS = (1, 34)  # resource.k8s.io/v1
_NUMBER = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_SUITES = "run the suites against a cluster like this one (docs/testing.md) before you rely on it"


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller that Muster works with.

    Attributes:
        name: for people.
        tested: the version that Muster was tested with, as `e2e/binaries/kubernetes/go.mod` pins it.
        served: path of the API version that Muster reads, and the resource there.
        image: what the last part of its image's name is.
    """

    name: str
    tested: str
    served: tuple[str, str]
    image: str


CONTROLLERS = (
    Controller("Trainer", "v2.3.0", (f"/apis/{names.TRAINER_API_VERSION}", "trainjobs"), "trainer-controller-manager"),
    Controller("JobSet", "v0.12.0", (f"/apis/{names.JOBSET_API_VERSION}", "jobsets"), "jobset"),
)
TESTED: Mapping[str, str] = {"Kubernetes": KUBERNETES, **{each.name: each.tested for each in CONTROLLERS}}
"""What `make test` runs with."""
_OWN = "muster-webhook"
_LABEL = "app.kubernetes.io/name in (muster,trainer,kubeflow-trainer,jobset)"  # as their manifests and charts have it


def needs(_options: Options) -> tuple[Need, ...]:
    """To find the controllers, in whatever namespaces they are."""
    return (Need("list", "deployments", "apps"),)


async def api_server(installation: Installation) -> list[Diagnosis]:
    """Ask for the API server's version, and for the kinds that Muster is about; anybody may.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    version = str((await installation.get("/version") or {}).get("gitVersion", ""))
    out = [_kubernetes(version)]
    for each in CONTROLLERS:
        path, resource = each.served
        served = {str(found.get("name")) for found in ((await installation.get(path) or {}).get("resources") or ())}
        if resource not in served:
            what = f"the API server does not serve {resource} of {path.removeprefix('/apis/')}"
            out.append(diagnoses.error(API, what, f"install {each.name} {each.tested}; Muster is not ready without"))
    if await _misses_claims(installation):
        what = "profiles are configured, and the API server does not serve resource.k8s.io/v1"
        out.append(diagnoses.error(API, what, "use Kubernetes 1.34 or later, or take the profiles out"))
    return out


async def look(installation: Installation) -> list[Diagnosis]:
    """Compare the images of Trainer and JobSet with what was tested, and Muster's with this command.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    deployments = await installation.list("/apis/apps/v1/deployments", labelSelector=_LABEL)
    return [*(judge(each, deployments) for each in CONTROLLERS), *_own(deployments)]


def judge(controller: Controller, deployments: Iterable[Document]) -> Diagnosis:
    """Say how a controller's version compares with the tested one."""
    images = list(_images(controller.image, deployments))
    if not images:
        what = f"no Deployment of {controller.name} was found, so its version is not known"
        return diagnoses.warning(CHECK, what, f"see that it runs, and that it is {controller.tested}")
    for image in images:
        tag = image.partition("@")[0].rpartition(":")[2]
        version = _NUMBER.match(tag)
        if version is None:
            what = f"the version of {controller.name} cannot be told from its image {image}"
            return diagnoses.warning(CHECK, what, f"see that it is {controller.tested}, the one Muster was tested with")
        if _minor(tag) != _minor(controller.tested):
            what = f"{controller.name} is {tag}; Muster was tested with {controller.tested}"
            return diagnoses.warning(CHECK, what, _SUITES)
    return diagnoses.ok(CHECK, f"{controller.name} is {tag}; Muster was tested with {controller.tested}")


def _own(deployments: Iterable[Document]) -> Iterator[Diagnosis]:
    """Say whether the entries and rights that are expected here are those of the version that runs."""
    try:
        version = metadata.version("muster")
    except metadata.PackageNotFoundError:  # of a checkout
        return
    for image in _images(_OWN, deployments):
        tag = image.partition("@")[0].rpartition(":")[2].removeprefix("v")
        if _NUMBER.match(tag) and tag != version:
            what = f"Muster is {tag} there, and this command compares it with what {version} wants"
            yield diagnoses.warning(CHECK, what, f"use `muster` {tag}, or upgrade the installation to {version}")


def _kubernetes(version: str) -> Diagnosis:
    minor = _minor(version)
    if minor is None:
        return diagnoses.warning(API, f"its version {version!r} is none of Kubernetes", "see that it is an API server")
    if minor < _OLDEST:
        what = f"Kubernetes is {version}; Muster's webhook entries need 1.30 (matchConditions)"
        return diagnoses.error(API, what, f"upgrade it; Muster was tested with {KUBERNETES}")
    if minor != _minor(KUBERNETES):
        return diagnoses.warning(API, f"Kubernetes is {version}; Muster was tested with {KUBERNETES}", _SUITES)
    return diagnoses.ok(API, f"Kubernetes is {version}; Muster was tested with {KUBERNETES}")


def _minor(version: str) -> tuple[int, int] | None:
    found = _NUMBER.match(version)
    return (int(found[1]), int(found[2])) if found else None


async def _misses_claims(installation: Installation) -> bool:
    if not (await installation.configured()).profiles:
        return False
    try:
        return await installation.get("/apis/resource.k8s.io/v1") is None
    except transports.RefusedError:
        return False


def _images(wanted: str, deployments: Iterable[Document]) -> Iterator[str]:
    for each in deployments:
        for container in each["spec"]["template"]["spec"]["containers"]:
            image = str(container.get("image", ""))
            if image.partition("@")[0].rpartition("/")[2].partition(":")[0] == wanted:
                yield image
