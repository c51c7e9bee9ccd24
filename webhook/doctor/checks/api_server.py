"""Whether this is a Kubernetes that Muster works with, and serves the kinds that Muster is about."""

from __future__ import annotations

from webhook.cluster import transports
from webhook.doctor import diagnoses, tested
from webhook.doctor.diagnoses import Diagnosis
from webhook.doctor.installations import Installation

__all__ = ["CHECK", "look"]

CHECK = "api-server"
_OLDEST = (1, 30)  # matchConditions of webhook entries are in every API server from then on


async def look(installation: Installation) -> list[Diagnosis]:
    """Ask for the API server's version, and for the kinds that Muster is about; anybody may.

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
            out.append(diagnoses.error(CHECK, what, f"install {each.name} {each.tested}; Muster is not ready without"))
    if await _misses_claims(installation):
        what = "profiles are configured, and the API server does not serve resource.k8s.io/v1"
        out.append(diagnoses.error(CHECK, what, "use Kubernetes 1.34 or later, or take the profiles out"))
    return out


def _kubernetes(version: str) -> Diagnosis:
    minor = tested.minor(version)
    if minor is None:
        return diagnoses.warning(
            CHECK, f"its version {version!r} is none of Kubernetes", "see that it is an API server"
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
