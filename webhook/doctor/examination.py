"""All checks in order: each runs when the user may do what it needs, and reports it otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from muster.kube import transports
from muster.strategies.documents import names
from muster.webhook.doctor import cluster_versions, dry_run_probe, guard_trial, replicas, webhook_entries, workload
from muster.webhook.doctor.diagnoses import Diagnosis, Severity, unknown
from muster.webhook.doctor.expected_state import KINDS
from muster.webhook.doctor.live_installation import Installation, Need, Options, lacking

__all__ = ["CHECKS", "Check", "examine", "verdict"]


class Check(NamedTuple):
    """One check.

    Attributes:
        name: the name in its diagnoses.
        look: yields diagnoses; raises TransportError when the API server refuses a request.
    """

    name: str
    look: Callable[[Installation], AsyncIterator[Diagnosis]]

    def needs(self, options: Options) -> tuple[Need, ...]:
        """Return the permissions that the user needs."""
        return _permissions(options)[self.name]


CHECKS = (
    Check("versions", cluster_versions.versions),
    Check("webhooks", webhook_entries.webhooks),
    Check("namespaces", webhook_entries.namespaces),
    Check("ca-bundle", webhook_entries.ca_bundle),
    Check("configuration", workload.configuration),
    Check("deployment", workload.deployment),
    Check("service", workload.service),
    Check("replicas", replicas.replicas),
    Check("certificate", webhook_entries.certificate),
    Check("rights", workload.rights),
    Check("probe", dry_run_probe.probe),
    Check("guard", guard_trial.trial),
)
"""All checks but the first, `api-server`, which needs no permission and must succeed before the others."""


def _permissions(options: Options) -> Mapping[str, tuple[Need, ...]]:
    """Return what the user must be allowed to do for each check; dry runs need the permission to create too."""
    own, name, probed = options.namespace, options.name, options.probe_namespace
    entries = tuple(Need("get", f"{kind.lower()}s", webhook_entries.GROUP, name=name) for kind in KINDS)
    deployment = Need("get", "deployments", "apps", own, name)
    trainjobs = Need("create", "trainjobs", names.TRAINER_GROUP, probed)
    runtimes = Need("list", "clustertrainingruntimes", names.TRAINER_GROUP)
    slices = Need("list", "endpointslices", "discovery.k8s.io", own)
    started = tuple(Need(verb, "pods", "", probed) for verb in ("create", "get", "delete"))
    return {
        "versions": (Need("list", "deployments", "apps"),),
        "webhooks": entries,
        "namespaces": (*entries, Need("list", "namespaces")),
        "ca-bundle": entries,
        "configuration": (Need("get", "configmaps", "", own, name),),
        "deployment": (deployment, Need("list", "poddisruptionbudgets", "policy", own)),
        "service": (Need("get", "services", "", own, name), slices, *entries),
        "replicas": (deployment, Need("list", "pods", "", own), Need("get", "pods/proxy", "", own)),
        "certificate": entries,
        "rights": (Need("create", "subjectaccessreviews", "authorization.k8s.io"),),
        "probe": (trainjobs, runtimes, Need("get", "namespaces", "", "", probed), *entries),
        "guard": (*started, Need("list", "nodes"), deployment) if options.guard else (),
    }


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
            found = [unknown(what, "use an account that may (docs/operate.md#permissions)")]
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
