"""Claims: devices that pods claim by templates of the input, and templates that a controller makes for a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from muster.strategies.documents import loose
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.webhook.cli.beside.inputs import Inputs, member

__all__ = ["asked", "settled"]

_MOST_REQUESTS = 32


def settled(job: Job, inputs: Inputs, found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield those findings about missing templates that a controller makes for a document of the input."""
    for finding in found:
        if finding.rule == "claims/unknown-object" and finding.value in _made(inputs, job.namespace):
            yield finding


def _made(inputs: Inputs, namespace: str) -> frozenset[str]:
    """Return the names of the templates that NVIDIA's DRA driver makes, for its ComputeDomains."""
    channels = (member(each.document, "spec", "channel") for each in inputs.of_kind("ComputeDomain", namespace))
    return frozenset(str(member(each, "resourceClaimTemplate").get("name")) for each in channels)


def asked(template: Template, namespace: str, inputs: Inputs) -> Mapping[str, int]:
    """Return how many devices of each class one pod claims by templates of the input, at most, as a quota counts."""
    found: dict[str, int] = {}
    for entry in template.spec.get("resourceClaims") or ():
        documents = inputs.named(
            "ResourceClaimTemplate", namespace, loose.mapping(entry).get("resourceClaimTemplateName")
        )
        for request in (
            loose.items(member(documents[-1].document, "spec", "spec", "devices"), "requests") if documents else ()
        ):
            most: dict[str, int] = {}
            for each in [
                loose.mapping(each)
                for each in (*loose.sequence(request.get("firstAvailable")), request.get("exactly") or {})
            ]:
                count = each.get("count", 1) if each.get("allocationMode") != "All" else _MOST_REQUESTS
                name = each.get("deviceClassName")
                if isinstance(name, str) and type(count) is int:
                    most[name] = max(most.get(name, 0), count)
            for name, count in most.items():
                found[name] = found.get(name, 0) + count
    return found
