"""Objects of jobs as API server, Trainer v2.3.0, JobSet v0.12.0 and scheduler left them, by the job.

They were read from the cluster of the suites (Kubernetes 1.36.3) on 2026-11-23. Nobody runs pods there, so the statuses
of the containers of `crashes`, `pulls`, `fails`, `finishes` and `smaller` were written in place of a kubelet.
"""

from __future__ import annotations

import copy
import datetime
import json
from pathlib import Path

from msgspec import structs

from muster.webhook.cli.observed import Observed

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def documents(name):
    """The objects of a job, by the member of `Observed`."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def gathered(name, **changes):
    """What a cluster has about a job."""
    found = documents(name)
    now = datetime.datetime.fromisoformat(found.pop("now"))
    return structs.replace(Observed("recorded", name, now, **found), **changes)


def container(found, state, last=None, restarts=0):
    """The same job, whose first pod has another status of its container."""
    pod = copy.deepcopy(found.pods[0])
    one = {"name": "node", "image": "e2e/none:1", "restartCount": restarts, "state": state, "lastState": last or {}}
    pod["status"] = {"phase": "Pending", "conditions": [], "containerStatuses": [one]}
    return structs.replace(found, pods=[pod])


def event(reason, message, kind="TrainJob", name="job", type="Warning"):  # noqa: A002  # as in Kubernetes
    return {
        "metadata": {"name": f"{name}.1", "namespace": "recorded", "creationTimestamp": "2026-11-23T16:30:00Z"},
        "involvedObject": {"kind": kind, "name": name},
        "reason": reason,
        "message": message,
        "type": type,
        "lastTimestamp": "2026-11-23T16:30:00Z",
        "source": {"component": "muster" if reason.startswith("Muster") else "trainer"},
    }
