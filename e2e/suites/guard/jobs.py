"""TrainJobs of programs that Muster cannot read, in images that it has never seen."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.suites.support import documents, waits
from e2e.suites.support.spaces import TRAINJOBS, Space
from e2e.suites.training import runs

__all__ = ["IMAGES", "SFT", "TRAIN", "achieved", "end", "metrics", "program", "runtime", "status", "trainjob"]

KINDS = ("pip", "conda", "customized", "searching", "entered")
IMAGES = {
    kind: os.environ.get(f"MUSTER_E2E_FOREIGN_{kind.upper()}_IMAGE", f"localhost/muster-foreign-{kind}:e2e")
    for kind in KINDS
}
"""The images by their stage in e2e/images/foreign; a cluster of one's own may call them otherwise."""

TRAIN = ("python", "/program/train.py")
SFT = ("python", "/program/sft.py")
_PROGRAMS = Path(__file__).parent / "programs"
_PREFIX = "muster.dev/"


def program(*files: Path) -> dict[str, Any]:
    """Return the ConfigMap that pods see as /program: the suite's own programs, and further files."""
    return documents.config_map("program", {path.name: path.read_text() for path in (*_PROGRAMS.glob("*.py"), *files)})


def runtime(kind: str = "pip", *, nodes: int = 2, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a TrainingRuntime `training` whose pods run an image on real nodes, with as few rights as can be.

    Args:
        kind: of image.
        nodes: how many pods.
        env: further env of its container.
    """
    volumes = [{"name": "program", "configMap": {"name": "program"}}, *runs.volumes()]
    mounts = [{"name": "program", "mountPath": "/program"}, {"name": "shared", "mountPath": runs.SHARED}]
    container = {
        "image": IMAGES[kind],
        "imagePullPolicy": "IfNotPresent",
        "workingDir": "/program",
        "env": [{"name": key, "value": value} for key, value in {**_ENV, **(env or {})}.items()],
        "volumeMounts": [*mounts, {"name": "tmp", "mountPath": "/tmp"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {"volumes": volumes, "restartPolicy": "Never"}
    made = documents.training_runtime("training", nodes=nodes, fake=False, container=container, pod=pod)
    job = made["spec"]["template"]["spec"]["replicatedJobs"][0]
    codes = {"containerName": "node", "operator": "In", "values": [runs.GUARDED]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    job["template"]["spec"].update(backoffLimit=0, podFailurePolicy=policy)
    return made


_ENV = {"HOME": "/tmp", "LOGNAME": "someone", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def trainjob(name: str, *words: str, command: Sequence[str] = TRAIN, **more: Any) -> dict[str, Any]:
    """Return a TrainJob of a command and further words."""
    return documents.trainjob(name, "training", trainer={"command": [*command, *words]}, **more)


def status(space: Space, name: str) -> dict[str, Any]:
    """Return what a TrainJob says of its training (KEP-2779); empty before it says anything."""
    found: Mapping[str, Any] = space.get(TRAINJOBS, name) or {}
    return dict((found.get("status") or {}).get("trainerStatus") or {})


def metrics(space: Space, name: str) -> dict[str, str]:
    """Return the metrics in `status`, by name."""
    return {each["name"]: each["value"] for each in status(space, name).get("metrics") or ()}


def achieved(space: Space, name: str, **wanted: str) -> dict[str, str]:
    """Wait until a TrainJob says of its training what is wanted; return Muster's metrics, without their prefix.

    Args:
        space: of the job.
        name: of the job.
        wanted: values by name, with `_` for `-`.
    """

    def look() -> dict[str, str]:
        every = metrics(space, name)
        found = {key.removeprefix(_PREFIX): every[key] for key in every if key.startswith(_PREFIX)}
        asked = {key.replace("_", "-"): value for key, value in wanted.items()}
        said = {key: found.get(key) for key in asked}
        assert said == asked, f"it says {found}; its pods print:\n{runs.tail(space, name)}"
        return found

    return waits.until(f"TrainJob {space.name}/{name} to say {wanted}", look, 90)


def end(space: Space, name: str) -> None:
    """Have the program of a TrainJob that `stays` end."""
    for pod in space.pods(f"jobset.sigs.k8s.io/jobset-name={name}"):
        space.kubectl.run("exec", "-n", space.name, pod["metadata"]["name"], "--", "touch", "/tmp/end")
