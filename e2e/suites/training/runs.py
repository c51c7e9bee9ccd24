"""Trainings in the shipped images: applied as users do, run to their end, and read from their pods.

Their files are in one folder of the node, so that one pod sees the checkpoint of another.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.suites.pods import trainings
from e2e.suites.support import documents, waits
from e2e.suites.support.spaces import Space, conditions

__all__ = [
    "GUARDED",
    "IMAGES",
    "SHARED",
    "Rank",
    "container",
    "ended",
    "pod_spec",
    "python",
    "runtime",
    "start",
    "tail",
    "volumes",
]

IMAGES = {
    name: os.environ.get(f"MUSTER_E2E_{name.upper()}_IMAGE", f"localhost/muster-{name}:e2e")
    for name in ("trl", "torchtune", "vllm", "rl")
}
"""The images by their folder in `images/`; a cluster of one's own may call them otherwise."""

GUARDED = 78
"""Exit code of a container whose guard ended it."""

SHARED = "/shared"
"""Where pods see the shared folder; `SHARED/out` is for what they write."""

_NODE_FOLDER = os.environ.get("MUSTER_E2E_SHARED", "/run/muster-e2e")
_USER = 65532
_PATIENCE = 300
_LOSS = re.compile(r"'loss': '?([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Rank:
    """How one pod of a training ended.

    Attributes:
        index: its completion index.
        code: exit code of its container.
        message: its termination message.
        log: what it printed.
    """

    index: int
    code: int
    message: str
    log: str

    def report(self) -> dict[str, Any]:
        """Return what the guard reported in the termination message."""
        found = json.loads(self.message)
        assert found["schema"] == "muster.dev/training/v1", found
        return dict(found)

    def losses(self) -> list[float]:
        """Return the losses that the trainer printed, in their order."""
        return [float(found) for found in _LOSS.findall(self.log)]


def volumes() -> list[dict[str, Any]]:
    """Return the shared folder and a /tmp: with these a pod's own file system can be read-only."""
    shared = {"name": "shared", "hostPath": {"path": _NODE_FOLDER, "type": "DirectoryOrCreate"}}
    return [shared, {"name": "tmp", "emptyDir": {}}]


def container(image: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the members of a container that has as few rights as the images ask for."""
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    known = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **(env or {})}
    return {
        "image": IMAGES[image],
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "INDEX", "valueFrom": index}, *({"name": name, "value": known[name]} for name in known)],
        "volumeMounts": [{"name": "shared", "mountPath": SHARED}, {"name": "tmp", "mountPath": "/tmp"}],
        "securityContext": {
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def pod_spec(image: str, command: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return the spec of a pod with one container `node` that can see the shared folder."""
    made = {"name": "node", **container(image), "command": [*command]}
    return documents.pod_spec(made, fake=False, volumes=volumes(), restartPolicy="Never", **more)


def runtime(
    framework: str,
    image: str,
    *,
    name: str | None = None,
    retries: int = 0,
    env: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a TrainingRuntime whose pods run an image on real nodes.

    Args:
        framework: its label.
        image: the image of its training container, by its folder.
        name: the name of the runtime, by default the framework's.
        retries: how often a failed pod is retried.
        env: the env of the container.
        more: see `documents.training_runtime`.
    """
    pod = {"volumes": volumes(), "restartPolicy": "Never"}
    made = documents.training_runtime(
        name or framework, framework, fake=False, container=container(image, env), pod=pod, **more
    )
    job = made["spec"]["template"]["spec"]["replicatedJobs"][0]
    # As in the shipped runtimes: a retry does not help a training that the guard has ended.
    codes = {"containerName": "node", "operator": "In", "values": [GUARDED]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    job["template"]["spec"].update(backoffLimit=retries, podFailurePolicy=policy)
    return made


def start(space: Space, *applied: Mapping[str, Any]) -> str:
    """Apply documents, the last of which is a TrainJob; gives its name."""
    *before, job = applied
    space.apply(*before).expect()
    trainings.known(space, job)
    space.apply(job).expect()
    return str(job["metadata"]["name"])


def ended(space: Space, name: str, condition: str = "Complete") -> list[Rank]:
    """Wait for the end of a TrainJob, which is to be this one; return the ranks by their index.

    Raises:
        AssertionError: it ended otherwise, or not within five minutes; with what its pods printed.
    """

    def look() -> str:
        found = conditions(space.trainjob(name) or {})
        ends = [each for each in ("Complete", "Failed") if found.get(each) == "True"]
        assert ends, f"its conditions are {found}, its pods print:\n{tail(space, name)}"
        return ends[0]

    end = waits.until(f"TrainJob {space.name}/{name} to end", look, _PATIENCE)
    assert end == condition, f"it is {end}; its pods print:\n{tail(space, name)}"
    return waits.until(f"the pods of {name} to have ended", lambda: _ranks(space, name))


def python(space: Space, image: str, name: str, code: str) -> str:
    """Run Python code in a pod that sees the shared folder, and return what it printed.

    Raises:
        AssertionError: it failed, or takes longer than five minutes.
    """
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": pod_spec(image, ["python", "-c", code]),
    }
    space.create(pod).expect()

    def look() -> str:
        phase = (space.get("pods", name) or {"status": {}})["status"].get("phase", "")
        assert phase in {"Succeeded", "Failed"}, f"it is {phase}"
        return str(phase)

    phase = waits.until(f"pod {space.name}/{name} to end", look, _PATIENCE)
    printed = space.kubectl.run("logs", name, "--namespace", space.name).expect().out
    assert phase == "Succeeded", f"{name} failed; it printed:\n{printed}"
    return printed


def _ranks(space: Space, name: str) -> list[Rank]:
    found = []
    for pod in space.pods(f"jobset.sigs.k8s.io/jobset-name={name}"):
        state = pod["status"]["containerStatuses"][0]["state"].get("terminated")
        if state is None or "deletionTimestamp" in pod["metadata"]:  # it is being removed
            continue
        log = space.kubectl.run("logs", pod["metadata"]["name"], "--namespace", space.name).expect().out
        index = int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
        found.append(Rank(index, state["exitCode"], state.get("message", ""), log))
    return sorted(found, key=lambda rank: rank.index)


def tail(space: Space, name: str) -> str:
    """Return the last lines that the pods of a TrainJob print."""
    chosen = ("--selector", f"jobset.sigs.k8s.io/jobset-name={name}", "--prefix", "--all-containers", "--tail=40")
    return space.kubectl.run("logs", "--namespace", space.name, *chosen).out
