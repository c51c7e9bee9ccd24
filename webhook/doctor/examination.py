"""All checks in order: each runs when the user may do what it needs, and reports it otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from muster.kube import transports
from muster.webhook.doctor import cluster_versions, dry_run_probe, replicas, webhook_entries, workload
from muster.webhook.doctor.diagnoses import Diagnosis, Severity, unknown
from muster.webhook.doctor.live_installation import Installation, Need, Options, lacking

__all__ = ["CHECKS", "Check", "examine", "verdict"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: the name in its diagnoses.
        look: yields diagnoses; raises TransportError when the API server refuses a request.
        needs: the permissions that the user needs.
    """

    name: str
    look: Callable[[Installation], AsyncIterator[Diagnosis]]
    needs: Callable[[Options], tuple[Need, ...]]


CHECKS = (
    Check("versions", cluster_versions.versions, lambda _: (Need("list", "deployments", "apps"),)),
    Check("webhooks", webhook_entries.webhooks, webhook_entries.needs),
    Check(
        "namespaces",
        webhook_entries.namespaces,
        lambda options: (*webhook_entries.needs(options), Need("list", "namespaces")),
    ),
    Check("ca-bundle", webhook_entries.ca_bundle, webhook_entries.needs),
    Check("configuration", workload.configuration, workload.configuration_needs),
    Check("deployment", workload.deployment, workload.deployment_needs),
    Check("service", workload.service, workload.service_needs),
    Check("replicas", replicas.replicas, replicas.needs),
    Check("certificate", webhook_entries.certificate, webhook_entries.needs),
    Check("rights", workload.rights, lambda _: (Need("create", "subjectaccessreviews", "authorization.k8s.io"),)),
    Check("probe", dry_run_probe.probe, dry_run_probe.needs),
)
"""All checks but the first, `api-server`, which needs no permission and must succeed before the others."""


async def examine(installation: Installation, checks: Sequence[Check] = CHECKS) -> list[Diagnosis]:
    """Run checks, and return the diagnoses, worst first; equal severities keep their order.

    Args:
        installation: what to examine.
        checks: the checks to run after that of the API server.

    Raises:
        TransportError: the version of the API server cannot be read.
    """
    out = [replace(each, check="api-server") async for each in cluster_versions.api_server(installation)]
    needs = {check.name: check.needs(installation.options) for check in checks}
    denied = await lacking(installation, [need for each in needs.values() for need in each])
    for check in checks:
        missing = [need for need in needs[check.name] if need in denied]
        if missing:
            what = f"was not checked: you may not {', '.join(map(str, missing))}"
            found = [unknown(what, "use an account that may (docs/doctor.md#permissions)")]
        else:
            try:
                found = [each async for each in check.look(installation)]
            except transports.TransportError as error:
                found = [unknown(f"could not be checked: {error}", "try again, or with more permissions")]
        out += [replace(each, check=check.name) for each in found]
    return sorted(out, key=lambda each: _ORDER.index(each.severity))


_ORDER = list(Severity)


def verdict(found: Iterable[Diagnosis]) -> Severity:
    """Return the worst severity of all."""
    return min((each.severity for each in found), key=_ORDER.index, default=Severity.OK)
