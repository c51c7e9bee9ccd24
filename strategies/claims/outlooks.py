"""Outlooks: the devices that the training container will have once its plan is carried out.

Processes are counted before claims are written, and on a TrainJob they never are, so the count looks ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strategies.claims import plans
from strategies.documents.pods import ResourceRequirements
from strategies.jobs.jobs import Job
from strategies.platform import devices
from strategies.platform.devices import Devices

__all__ = ["devices_of"]


def devices_of(job: Job, resources: ResourceRequirements, pod_claims: Sequence[Mapping[str, Any]]) -> Devices:
    """Count the devices of the training container.

    Args:
        job: whose plan counts.
        resources: of the container, as the documents say.
        pod_claims: the pod's `resourceClaims`, as the documents say.
    """
    plan = plans.training(job)
    place = job.container if plan else None
    if plan is None or place is None:
        return devices.seen(resources, pod_claims, job.claim_devices)
    if not plan.uses:
        found = devices.seen(resources, pod_claims, job.claim_devices)
        return Devices(None, "claim") if found.kind == "none" else found  # it asks for some, and there is an error
    known = dict(job.claim_devices)
    entries, used = list(pod_claims), list(resources.get("claims") or ())
    for use in plan.uses:
        known[use.entry.get("resourceClaimTemplateName") or use.entry["resourceClaimName"]] = use.devices
        if all(each.get("name") != use.entry["name"] for each in entries):
            entries.append(use.entry)
        if place.path in use.containers and all(each.get("name") != use.entry["name"] for each in used):
            used.append({"name": use.entry["name"]})
    gone = {name for path, name in plan.swapped if path == place.path}
    left: ResourceRequirements = {
        "limits": {name: amount for name, amount in (resources.get("limits") or {}).items() if name not in gone},
        "requests": {name: amount for name, amount in (resources.get("requests") or {}).items() if name not in gone},
        "claims": used,
    }
    return devices.seen(left, entries, known)
