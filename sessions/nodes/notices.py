"""What people read of a lease on the claim of its device: one annotation, for `muster claims`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from muster.sessions.devices.holders import Holders
from muster.sessions.devices.lease import Lease

__all__ = ["ANNOTATION", "patch", "told"]

ANNOTATION = "muster.dev/lease"
_MOST = 16  # engines that wait and sessions with their turns that are told


def told(lease: Lease, holders: Holders, pod: Callable[[str], str]) -> dict[str, Any] | None:
    """Return what is told of a lease, but when; None when nobody takes turns any more.

    Args:
        lease: the state.
        holders: what was counted of it.
        pod: returns the pod of an engine by its name.
    """
    if not (lease.engines or lease.ending or lease.missing):
        return None
    engine = lease.resident
    return {
        "phase": lease.phase.value,
        "holder": pod(engine.name) if engine else None,
        "since": None if holders.since is None else _moment(holders.since),
        "changes": holders.changes,
        "turns": dict(holders.turns.most_common(_MOST)),
        "waiting": [pod(name) for name in lease.waiting[:_MOST]],
    }


def patch(uid: str, what: Mapping[str, Any] | None, clock: float) -> dict[str, Any]:
    """Return the merge patch for a claim, which is refused where its uid is another.

    Args:
        uid: of the claim.
        what: of `told`; with None what was told before is removed.
        clock: when that was so, in seconds since 1970.
    """
    text = None if what is None else json.dumps({**what, "at": _moment(clock)}, separators=(",", ":"))
    return {"metadata": {"uid": uid, "annotations": {ANNOTATION: text}}}


def _moment(clock: float) -> str:
    return datetime.fromtimestamp(clock, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
