"""Which Trainer a cluster has, by the TrainJob that its API server serves.

The definitions themselves need a right of their own; OpenAPI does not: every account may read it, by the ClusterRole
`system:discovery` of Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from muster.kube import payloads, transports
from muster.strategies.documents.runtimes import NEWEST, VERSIONS, Version
from muster.webhook.cluster import kinds

__all__ = ["read", "served"]

_PATH = f"/openapi/v3/apis/{kinds.TRAINER_GROUP}/v1alpha1"
_MOST = 16 * 1024 * 1024  # bytes; that of Trainer has 1.3 million


async def read(api: transports.Api, deadline: float) -> Version | None:
    """Return the version; None where the API server serves no TrainJob, or does not say what one is.

    Args:
        api: a connection to the API server; not closed here.
        deadline: seconds for the call.
    """
    patience = transports.Patience(deadline, deadline)
    try:
        async with asyncio.timeout(deadline), api.get(_PATH, {}, patience) as response:
            return served(await payloads.read(await payloads.checked(response), _MOST, "the OpenAPI schema of Trainer"))
    except (transports.TransportError, TimeoutError):
        return None


def served(schema: Mapping[str, Any]) -> Version | None:
    """Return the newest version whose mark the TrainJob of an OpenAPI schema has; None without a TrainJob.

    Args:
        schema: as `/openapi/v3/apis/GROUP/VERSION` answers.
    """
    every = ((schema.get("components") or {}).get("schemas") or {}).items()
    jobs = [each for name, each in every if name.endswith(".TrainJob")]
    if not jobs:
        return None
    spec = (jobs[0].get("properties") or {}).get("spec") or {}
    return next((each for each in reversed(list(VERSIONS.values())) if _has(spec, each.mark)), NEWEST)


def _has(schema: Mapping[str, Any], mark: str) -> bool:
    for member in mark.split("."):
        inner = ((schema.get("items") or schema).get("properties") or {}).get(member)
        if inner is None:
            return False
        schema = inner
    return True
