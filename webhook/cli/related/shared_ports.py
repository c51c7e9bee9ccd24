"""Ports: two jobs of one file that open the same port on the network of a machine, and may be on one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import host_ports
from muster.strategies.launches.host_ports import Opened
from muster.webhook.cli.related.related_documents import Inputs, member
from muster.webhook.kubeyaml.sources import Source

__all__ = ["check"]

_OF_A_MACHINE = 8
"""GPUs of a usual machine: pods that ask for more together are on several."""


def check(job: Job, source: Source, inputs: Inputs) -> Iterator[Finding]:
    """Report the second of two jobs; the first is compared with those before it alone."""
    found = host_ports.opened(job)
    if found is None:
        return
    kept: dict[Any, tuple[Source, Opened]] = inputs.memory.setdefault("ports", {})
    kept[source.origin] = source, found
    for origin, (other, opened) in kept.items():
        if origin == source.origin or origin.file != source.origin.file or opened.port != found.port:
            continue
        if (found.devices or 0) + (opened.devices or 0) > _OF_A_MACHINE or _are_apart(found.spec, opened.spec):
            continue
        message = (
            f"the first pod opens port {found.port} of its machine, and so does the first pod of the {other.kind} "
            f"of {other.origin}: where both are on one machine, the second job stops; write a port of its own for "
            "each job"
        )
        yield warning(found.field, found.value, message, rule="core/host-port")
        return


def _are_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two pods are surely, or by a rule of theirs, on different machines."""
    if any(member(each, "affinity", "podAntiAffinity") for each in (one, other)):
        return True
    chosen = [{**member(each, "nodeSelector"), "name": each.get("nodeName")} for each in (one, other)]
    shared = chosen[0].keys() & chosen[1].keys()
    return any(None not in (values := [each[key] for each in chosen]) and values[0] != values[1] for key in shared)
