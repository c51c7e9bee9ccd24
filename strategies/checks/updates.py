"""Updates: changes of a job that the API server takes, and from which the job does not recover.

What the API server, JobSet, Trainer or Kueue refuse of an update, they say themselves. Sources: trainer
`pkg/apis/trainer/v1alpha1/trainjob_types.go`: `self == oldSelf` is asked only where both exist; jobset
`pkg/webhooks/jobset_webhook.go` ValidateUpdate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, error, warning

__all__ = ["check_update"]

_RULE = "core/immutable"


def check_update(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Finding]:
    """Report what an update of a TrainJob or JobSet takes away or adds, and may not.

    Args:
        kind: which of the two.
        old: the job as the cluster has it; its shape has been checked.
        new: the job as it would be stored.
    """
    before, after = old.get("spec") or {}, new.get("spec") or {}
    was, now = ({key for key in each if each[key] is not None} for each in (before, after))
    taken, added = was - now, now - was
    if kind == "JobSet" and "network" in taken:
        message = "the API server lets it be taken away, and the controller of JobSet then panics at this job"
        yield warning("spec.network", None, f"{message}; keep it", rule=_RULE)
    if kind == "TrainJob" and "trainer" in taken:
        message = "cannot be removed after creation: the API server allows it, but the job could never be resumed"
        yield error("spec.trainer", None, f"{message}; put it back", rule="core/trainer-immutable")
    if kind == "TrainJob" and "trainer" in added:
        message = "cannot be set after creation: the API server allows it, but the job could never be resumed"
        yield error("spec.trainer", after["trainer"], f"{message}; create a new job", rule="core/trainer-immutable")
    if kind == "TrainJob" and "initializer" in taken | added:
        message = (
            "the API server takes it in and out, and Trainer could then never apply the JobSet again, so the job could "
            "not be resumed; delete the job and create it again"
        )
        yield warning("spec.initializer", None, message, rule=_RULE)
