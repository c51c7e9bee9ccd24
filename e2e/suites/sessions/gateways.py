"""A Gateway as people run it in a cluster: a Deployment with the rights of `manifests/sessions/rbac.yaml`.

Gateway and engines have one folder of a node, each through a PersistentVolumeClaim of its own namespace. The client is
a process of this machine, which reaches the Gateway by `kubectl port-forward`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

__all__ = ["IMAGES", "KINDS", "PROFILE", "Gateway", "Training"]

IMAGES = {
    name: os.environ.get(f"MUSTER_E2E_{name.upper()}_IMAGE", f"localhost/muster-{name}:e2e")
    for name in ("engine", "gateway")
}
"""The images by their folder in `images/`; a cluster of one's own may call them otherwise."""
PROFILE = "seat"
"""The claim profile of both engines."""
KINDS = ("pods", "jobs", "jobsets.jobset.x-k8s.io", "secrets", "networkpolicies", "serviceaccounts")
"""What a Gateway makes in the namespace of its engines, or what is made of that."""
PATIENCE = 180
"""Seconds in which engines start on a busy machine."""

_NAME, _CLAIM, _PORT, _USER = "gateway", "store", 8080, 65532
_NODE_FOLDER = os.environ.get("MUSTER_E2E_SHARED", "/run/muster-e2e")
_BASE = "models/muster/tiny"
_LABELS = {"app.kubernetes.io/name": "muster-gateway", "app.kubernetes.io/instance": _NAME}
_ENGINES = f"muster.dev/gateway={_NAME}"
_STEP = re.compile(r"step (\d+): ([0-9.]+)")
_LEAST: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_MAKE = """
import os, pathlib, sys
from sessions.demo import tiny
store = pathlib.Path("/store")
tiny.make(store / sys.argv[1])
(store / "state").mkdir()
for each in (store, *store.rglob("*")):
    os.chown(each, int(sys.argv[2]), int(sys.argv[2]))
"""
_TINY = "import pathlib, sys; from sessions.demo import tiny; tiny.make(pathlib.Path(sys.argv[1]))"


@dataclass(frozen=True, slots=True)
class Gateway:
    """One Gateway, and where its engines are.

    Attributes:
        kubectl: for the cluster.
        space: of the Gateway.
        engines: the namespace of its engines.
        base: the base model, as the client names it and finds its tokenizer.
    """

    kubectl: Kubectl
    space: Space
    engines: Space
    base: Path

    def install(self) -> None:
        """Make the base model on both sides, the volumes, the rights, and a Deployment that has no pod yet."""
        _run(_python(), "-c", _TINY, str(self.base))
        for space in (self.space, self.engines):
            self.kubectl.apply(self._volume(space)).expect()
            space.apply(_claim(self._volume_name(space))).expect()
        self.space.create(self._maker()).expect()
        waits.until("a base model to be made", self._made, PATIENCE)
        self.kubectl.apply(*self._rights()).expect()
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _NAME}}
        self.space.apply(account, self._deployment()).expect()

    def remove(self) -> None:
        """Remove what belongs to no namespace."""
        for space in (self.space, self.engines):
            self.kubectl.delete("persistentvolume", self._volume_name(space))

    def begin(self) -> None:
        """Have the Gateway's pod, and wait until it serves; nothing happens when it does."""
        self._scale(1)
        waits.until("the Gateway to serve", lambda: self.pod() is not None, PATIENCE)

    def end(self) -> None:
        """Have the kubelet send SIGTERM to the Gateway, and wait until its pod is gone."""
        self._scale(0)
        chosen = ",".join(f"{key}={value}" for key, value in _LABELS.items())
        waits.until("the Gateway to be gone", lambda: not self.space.pods(chosen), 60)

    def pod(self) -> str | None:
        """Return the name of the Gateway's pod, None while it is not ready."""
        chosen = ",".join(f"{key}={value}" for key, value in _LABELS.items())
        return next((each["metadata"]["name"] for each in self.space.pods(chosen) if _is_ready(each)), None)

    def engine(self, role: str) -> dict[str, Any]:
        """Wait until the pod of an engine is ready, and return it."""
        return waits.until(f"the pod of the {role} to be ready", lambda: self.ready(role), PATIENCE)

    def ready(self, role: str) -> dict[str, Any]:
        """Return the pod of an engine, which is ready. Raises `AssertionError` where none is."""
        found = self.engines.pods(f"{_ENGINES},muster.dev/role={role}")
        ready = [each for each in found if _is_ready(each) and "deletionTimestamp" not in each["metadata"]]
        assert ready, [each["status"] for each in found]
        return ready[0]

    def terminate(self, engine: Mapping[str, Any]) -> None:
        """Send SIGTERM to the process of an engine's pod, whose end may take the command that sends it along."""
        name = engine["metadata"]["name"]
        program = "import os, signal; os.kill(1, signal.SIGTERM)"
        self.kubectl.run("exec", "--namespace", self.engines.name, name, "--", "python", "-c", program)

    def left(self) -> dict[str, list[str]]:
        """Return the names of what is in the namespace of the engines, by kind; without what each namespace has."""
        found = {kind: [each["metadata"]["name"] for each in self.engines.all(kind)] for kind in KINDS}
        found["serviceaccounts"] = [each for each in found["serviceaccounts"] if each != "default"]
        return {kind: names for kind, names in found.items() if names}

    @contextmanager
    def training(self) -> Iterator[Training]:
        """Train from outside the cluster, with a new key; what still runs at the end is stopped."""
        pod = self.pod()
        assert pod is not None, "the Gateway does not serve"
        created = ("python", "-m", "sessions.cli", "keys", "create", "team-a", "--root", "/state")
        key = self.kubectl.run("exec", "--namespace", self.space.name, pod, "--", *created).expect().out.strip()
        with self._forwarded(pod) as url:
            own = {"TINKER_API_KEY": key, "TINKER_TELEMETRY": "0", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
            program, log = Path(__file__).parent / "programs" / "laptop.py", self.base.parent / "laptop.log"
            with (
                log.open("w") as errors,
                subprocess.Popen(
                    [_python(), str(program), url, str(self.base)],
                    env={**os.environ, **own, "PYTHONPATH": str(REPOSITORY)},
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                ) as process,
            ):
                try:
                    yield Training(process, log)
                finally:
                    process.kill()

    @contextmanager
    def _forwarded(self, pod: str) -> Iterator[str]:
        """Forward a port of this machine to the Gateway; gives its URL."""
        command = [self.kubectl.binary, "--kubeconfig", self.kubectl.kubeconfig, "port-forward"]
        command += ["--namespace", self.space.name, "--address", "127.0.0.1", f"pod/{pod}", f":{_PORT}"]
        # What it says of each connection is not read, so it has no pipe that could fill.
        log = self.base.parent / "forward.log"
        with log.open("w") as written:
            process = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT)
        try:
            told = waits.until("a forwarded port", lambda: re.search(r"127\.0\.0\.1:(\d+)", log.read_text()))
            assert told is not None
            yield f"http://127.0.0.1:{told.group(1)}"
        finally:
            process.terminate()
            process.wait()

    def _scale(self, replicas: int) -> None:
        self.space.patch("deployment", _NAME, {"spec": {"replicas": replicas}}).expect()

    def _made(self) -> bool:
        found = self.space.get("pods", "make") or {"status": {}}
        phase = found["status"].get("phase")
        log = self.kubectl.run("logs", "make", "--namespace", self.space.name).out
        assert phase == "Succeeded", f"it is {phase}, and prints {log}"
        return True

    def _rights(self) -> list[dict[str, Any]]:
        """Return `rbac.yaml` with the namespaces of this test."""
        text = (REPOSITORY / "manifests" / "sessions" / "rbac.yaml").read_text()
        names = {"team-a": self.engines.name, "gateways": self.space.name}
        found = [each for each in yaml.safe_load_all(text) if each]
        for each in found:
            for named in (each["metadata"], *each.get("subjects", ())):
                named["namespace"] = names[named["namespace"]]
        return found

    def _volume_name(self, space: Space) -> str:
        return space.name

    def _folder(self) -> str:
        return f"{_NODE_FOLDER}/{self.space.name}"

    def _volume(self, space: Space) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self._volume_name(space)},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": space.name, "name": _CLAIM},
                "hostPath": {"path": self._folder(), "type": "DirectoryOrCreate"},
            },
        }

    def _maker(self) -> dict[str, Any]:
        """Return the pod that makes the base model; the kubelet made the folder for root alone."""
        made = {
            "name": "make",
            "image": IMAGES["engine"],
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "-c", _MAKE, _BASE, str(_USER)],
            "securityContext": {"runAsUser": 0, "runAsGroup": 0},
            "volumeMounts": [{"name": "store", "mountPath": "/store"}],
        }
        volumes = [{"name": "store", "persistentVolumeClaim": {"claimName": _CLAIM}}]
        spec = {"restartPolicy": "Never", "containers": [made], "volumes": volumes}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "make"}, "spec": spec}

    def _deployment(self) -> dict[str, Any]:
        words = ["serve", "--root", "/state", "--base", f"/{_BASE}", "--name", str(self.base), "--host", "0.0.0.0"]
        words += ["--platform", "kubernetes", "--namespace", self.engines.name, "--image", IMAGES["engine"]]
        words += ["--gateway", _NAME, "--volume", f"{_CLAIM}:state", "--base-volume", f"{_CLAIM}:{_BASE}"]
        container = {
            "name": "gateway",
            "image": IMAGES["gateway"],
            "imagePullPolicy": "IfNotPresent",
            "args": [*words, "--profile", PROFILE],
            "ports": [{"containerPort": _PORT}],
            "readinessProbe": {"httpGet": {"path": "/api/v1/healthz", "port": _PORT}, "periodSeconds": 2},
            "securityContext": _LEAST,
            "volumeMounts": [
                {"name": "store", "mountPath": "/state", "subPath": "state"},
                {"name": "store", "mountPath": f"/{_BASE}", "subPath": _BASE, "readOnly": True},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        }
        spec = {
            "serviceAccountName": _NAME,
            "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "fsGroup": _USER},
            "containers": [container],
            "volumes": [
                {"name": "store", "persistentVolumeClaim": {"claimName": _CLAIM}},
                {"name": "tmp", "emptyDir": {}},
            ],
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": _NAME},
            "spec": {
                "replicas": 0,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": _LABELS},
                "template": {"metadata": {"labels": _LABELS}, "spec": spec},
            },
        }


class Training:
    """A run of the client.

    Args:
        process: of it.
        log: where its errors are.

    Attributes:
        rewards: mean rewards of the steps until now, 0 to 1.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self.rewards: list[float] = []

    def until(self, steps: int) -> None:
        """Read until so many steps are over. Raises `AssertionError` where the client ends before."""
        assert self._process.stdout is not None
        while len(self.rewards) < steps:
            line = self._process.stdout.readline()
            assert line, f"the client ended with {self._process.wait()} after {self.rewards}: {self._log.read_text()}"
            if found := _STEP.match(line):
                self.rewards.append(float(found.group(2)))

    def end(self) -> list[float]:
        """Read to the end, and return the mean reward of each step. Raises `AssertionError` where it fails."""
        self.until(10)
        assert self._process.wait() == 0, self._log.read_text()
        return self.rewards


def _claim(volume: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": _CLAIM}, "spec": spec}


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True"


def _python() -> str:
    found = shutil.which(os.environ.get("MUSTER_SESSIONS_PYTHON", ""))
    assert found, "MUSTER_SESSIONS_PYTHON must name a python that has tinker and torch; `make e2e` does"
    return found


def _run(*command: str) -> None:
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
