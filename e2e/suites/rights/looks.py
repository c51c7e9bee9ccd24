"""What a spare Muster logs and counts about a right that it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from e2e.suites.rights.accounts import Right
from e2e.suites.support import metrics
from e2e.suites.support.spares import Spare

__all__ = ["dropped", "is_mended", "is_sound", "is_told", "leads", "refused", "warnings"]

_MENDED = "cluster contact restored"


def is_told(muster: Spare, right: Right, about: str = "") -> bool:
    """Whether it logged that the API server forbids it this.

    Args:
        muster: the Muster that lacks the right.
        right: the right that was taken away.
        about: further words of the same message, a namespace for example.
    """
    return any(about in str(line["problem"]) for line in _forbidden(muster, right) if line["message"] != _MENDED)


def is_mended(muster: Spare, right: Right) -> bool:
    """Whether it logged that a watch that failed without this right works again."""
    return any(line["message"] == _MENDED for line in _forbidden(muster, right))


def is_sound(muster: Spare, right: Right) -> bool:
    """Whether it logged that the watch works again, or began to lead again and was not forbidden since."""
    said, last = muster.said(), list(_forbidden(muster, right))[-1]
    began = any(line["message"] == "leading" for line in said[said.index(last) + 1 :])
    return last["message"] == _MENDED or began


def warnings(muster: Spare, message: str) -> int:
    """Return how often it logged a message as a warning."""
    return sum((line["level"], line["message"]) == ("warning", message) for line in muster.said())


def refused(muster: Spare, right: Right) -> float:
    """Return how many of its writes by this right have failed."""
    _, resource, verb = right
    plural = resource.partition(".")[0]
    return metrics.total(
        muster.samples(), "muster_controller_writes_total", verb=verb, resource=plural, outcome="failed"
    )


def dropped(muster: Spare) -> float:
    """Return how many denials have found no Event."""
    return metrics.total(muster.samples(), "muster_audit_problems_total", kind="event")


def leads(muster: Spare, metric: str = "muster_controller_leading") -> bool:
    """Whether it holds the Lease of its controllers, or of another part of it."""
    return metrics.total(muster.samples(), metric) == 1


def _forbidden(muster: Spare, right: Right) -> Iterator[dict[str, Any]]:
    _, resource, verb = right
    words = f'cannot {verb} resource "{resource.partition(".")[0]}"'
    return (line for line in muster.said() if words in str(line.get("problem", "")))
