"""Queues: a job whose queue of the input never lets it in, because it covers other resources or fewer of them.

Source: kueue of 2026-08-22 `pkg/scheduler/flavorassigner/flavorassigner.go` (resource unavailable in ClusterQueue;
insufficient quota). What a queue may borrow from its cohort is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from muster.strategies.documents.findings import Finding, warning
from muster.strategies.jobs.jobs import Job
from muster.webhook.cli.beside import quotas
from muster.webhook.cli.beside.inputs import Inputs, items, member, name_of

__all__ = ["check"]

_QUEUE = "kueue.x-k8s.io/queue-name"
_REQUESTS = "requests."


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report what a job asks for and its queue does not have."""
    name = member(job.document, "metadata", "labels").get(_QUEUE)
    queues = inputs.named("LocalQueue", job.namespace, name)
    found = inputs.named("ClusterQueue", "", member(queues[0].document, "spec").get("clusterQueue")) if queues else []
    if len(queues) != 1 or len(found) != 1:
        return
    spec, queue = member(found[0].document, "spec"), name_of(found[0].document)
    covered = _covered(spec)
    alone = not (spec.get("cohort") or spec.get("cohortName"))
    for written, needed in quotas.needed(job, inputs).items():
        resource = written.removeprefix(_REQUESTS)
        if written == resource or not needed:
            continue
        if resource not in covered:
            message = f"the ClusterQueue {queue} of the input does not cover {resource}, so Kueue never lets the job in"
        elif alone and covered[resource] is not None and needed > (covered[resource] or 0):
            message = (
                f"all pods together need {float(needed):g} of {resource}, and the ClusterQueue {queue} of the input "
                f"has {float(covered[resource] or 0):g} and no cohort, so Kueue never lets the job in"
            )
        else:
            continue
        yield warning(f"metadata.labels[{_QUEUE}]", name, f"{message}; correct one of them", rule="core/queue")


def _covered(spec: Mapping[str, Any]) -> Mapping[str, Fraction | None]:
    """Return the quota of each resource in all flavors together, None for one that cannot be read."""
    found: dict[str, Fraction | None] = {}
    for group in items(spec, "resourceGroups"):
        covered = group.get("coveredResources")
        found.update({str(name): Fraction(0) for name in (covered if isinstance(covered, list) else ())})
        for flavor in items(group, "flavors"):
            for resource in items(flavor, "resources"):
                name, before = str(resource.get("name")), found.get(str(resource.get("name")), Fraction(0))
                amount = quotas.value(resource.get("nominalQuota"))
                found[name] = None if amount is None or before is None else before + amount
    return found
