"""What the guard of a training image leaves in the status of a pod, for pods that nobody runs."""

from __future__ import annotations

import datetime
import json
from typing import Any

from e2e.suites.support.spaces import Space

__all__ = ["KEPT", "post", "report", "told"]

KEPT = "muster.dev/training"
"""The annotation in which Muster keeps it."""


def report(  # a report
    space: Space, jobset: str, *, size: int, expected: int, phase: str = "Running", verdict: str | None = None
) -> None:
    """Have all pods of a JobSet end with the guard's report of a training."""
    said = {
        "schema": "muster.dev/training/v1",
        "worldSize": size,
        "expected": str(expected),
        "rank": 0,
        "steps": 8,
        "wallSeconds": 14.2,
        **({"verdict": verdict} if verdict else {}),
    }
    for pod in space.pods(f"jobset.sigs.k8s.io/jobset-name={jobset}"):
        status = {"phase": phase, "containerStatuses": [_ended(pod, json.dumps(said))]}
        space.patch("pod", pod["metadata"]["name"], {"status": status}, subresource="status").expect()


def post(space: Space, trainjob: str, **metrics: str) -> None:
    """Have a TrainJob have the metrics that a guard posts, as Trainer's server of statuses writes them."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    listed = [{"name": f"muster.dev/{name.replace('_', '-')}", "value": value} for name, value in metrics.items()]
    status = {"trainerStatus": {"lastUpdatedTime": now, "metrics": listed}}
    space.patch("trainjob", trainjob, {"status": status}, subresource="status").expect()


def told(space: Space, name: str) -> list[str]:
    """Return what Events say of the training of a TrainJob or a JobSet."""
    found = (each for each in space.events() if each["reason"] == "MusterMeasured")
    return [each["message"] for each in found if each["involvedObject"]["name"] == name]


def _ended(pod: dict[str, Any], message: str) -> dict[str, Any]:
    container = pod["spec"]["containers"][0]
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": {"exitCode": 0, "reason": "Completed", "message": message}},
    }
