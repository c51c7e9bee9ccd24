"""Checks that Muster works with this version of Kubernetes, and that the kinds that it needs are served."""

from __future__ import annotations

from muster.kube import transports
from muster.webhook.doctor import diagnoses, tested
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Installation

__all__ = ["CHECK", "look"]

CHECK = "api-server"
_OLDEST = (1, 30)  # every API server from this version on has matchConditions in webhook entries


async def look(installation: Installation) -> list[Diagnosis]:
    """Read the version of the API server, and the kinds that it serves; this needs no permission.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    version = str((await installation.get("/version") or {}).get("gitVersion", ""))
    out = [_kubernetes(version)]
    for each in tested.CONTROLLERS:
        path, resource = each.served
        served = {str(found.get("name")) for found in ((await installation.get(path) or {}).get("resources") or ())}
        if resource not in served:
            what = f"the API server does not serve {resource} of {path.removeprefix('/apis/')}"
            out.append(
                diagnoses.error(
                    CHECK, what, f"install {each.name} {each.tested}; without it Muster does not become ready"
                )
            )
    if await _misses_claims(installation):
        what = "profiles are configured, and the API server does not serve resource.k8s.io/v1"
        out.append(diagnoses.error(CHECK, what, "use Kubernetes 1.34 or later, or remove the profiles"))
    return out


def _kubernetes(version: str) -> Diagnosis:
    minor = tested.minor(version)
    if minor is None:
        return diagnoses.warning(
            CHECK, f"its version {version!r} is not a version of Kubernetes", "check that this is an API server"
        )
    if minor < _OLDEST:
        what = f"Kubernetes is {version}; Muster's webhook entries need 1.30 (matchConditions)"
        return diagnoses.error(CHECK, what, f"upgrade it; Muster was tested with {tested.KUBERNETES}")
    if minor != tested.minor(tested.KUBERNETES):
        return diagnoses.warning(
            CHECK, f"Kubernetes is {version}; Muster was tested with {tested.KUBERNETES}", tested.SUITES
        )
    return diagnoses.ok(CHECK, f"Kubernetes is {version}; Muster was tested with {tested.KUBERNETES}")


async def _misses_claims(installation: Installation) -> bool:
    if not (await installation.configured()).profiles:
        return False
    try:
        return await installation.get("/apis/resource.k8s.io/v1") is None
    except transports.RefusedError:
        return False
