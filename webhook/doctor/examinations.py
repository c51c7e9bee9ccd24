"""All checks in order: each runs when the user may do what it needs, and reports it otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from muster.kube import transports
from muster.webhook.doctor import diagnoses, permissions
from muster.webhook.doctor.checks import (
    api_server,
    ca_bundle,
    certificate,
    configuration,
    deployment,
    namespaces,
    probe,
    replicas,
    rights,
    service,
    versions,
    webhooks,
)
from muster.webhook.doctor.diagnoses import Diagnosis, Severity
from muster.webhook.doctor.installations import Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECKS", "Check", "examine", "verdict"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: the name in its diagnoses.
        look: runs the check and returns diagnoses; raises TransportError when the API server refuses a request.
        needs: the permissions that the user needs.
    """

    name: str
    look: Callable[[Installation], Awaitable[list[Diagnosis]]]
    needs: Callable[[Options], tuple[Need, ...]]


CHECKS = (
    Check(versions.CHECK, versions.look, versions.needs),
    Check(webhooks.CHECK, webhooks.look, webhooks.needs),
    Check(namespaces.CHECK, namespaces.look, namespaces.needs),
    Check(ca_bundle.CHECK, ca_bundle.look, webhooks.needs),
    Check(configuration.CHECK, configuration.look, configuration.needs),
    Check(deployment.CHECK, deployment.look, deployment.needs),
    Check(service.CHECK, service.look, service.needs),
    Check(replicas.CHECK, replicas.look, replicas.needs),
    Check(certificate.CHECK, certificate.look, webhooks.needs),
    Check(rights.CHECK, rights.look, rights.needs),
    Check(probe.CHECK, probe.look, probe.needs),
)
"""All checks but the first, `api_server.look`, which needs no permission and must succeed before the others."""


async def examine(installation: Installation, checks: Sequence[Check] = CHECKS) -> list[Diagnosis]:
    """Run checks, and return the diagnoses, worst first.

    Args:
        installation: what to examine.
        checks: the checks to run after that of the API server.

    Raises:
        TransportError: the version of the API server cannot be read.
    """
    out = await api_server.look(installation)
    denied = await permissions.lacking(
        installation, [need for check in checks for need in check.needs(installation.options)]
    )
    for check in checks:
        missing = [need for need in check.needs(installation.options) if need in denied]
        out += [_unasked(check, missing)] if missing else await _looked(check, installation)
    return diagnoses.worst_first(out)


def verdict(found: Iterable[Diagnosis]) -> Severity:
    """Return the worst severity of all."""
    order = list(Severity)
    return min((each.severity for each in found), key=order.index, default=Severity.OK)


async def _looked(check: Check, installation: Installation) -> list[Diagnosis]:
    try:
        return await check.look(installation)
    except transports.TransportError as error:
        return [diagnoses.unknown(check.name, f"could not be checked: {error}", "try again, or with more permissions")]


def _unasked(check: Check, missing: list[Need]) -> Diagnosis:
    what = f"was not checked: you may not {', '.join(map(str, missing))}"
    return diagnoses.unknown(check.name, what, "use an account that may (docs/doctor.md#permissions)")
