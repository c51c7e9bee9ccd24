"""What Gateways stand on: two namespaces, one folder of a node as their volume, a base model, and a certificate."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.places import REPOSITORY
from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from muster.certs import authorities, leaves, pems

__all__ = ["BASE", "CLAIM", "IMAGES", "NODE_FOLDER", "PATIENCE", "SECRET", "USER", "Ground", "python", "run"]

IMAGES = {
    name: os.environ.get(f"MUSTER_E2E_{name.upper()}_IMAGE", f"localhost/muster-{name}:e2e")
    for name in ("engine", "gateway")
}
"""The images by their folder in `images/`; a cluster of one's own may call them otherwise."""
NODE_FOLDER = os.environ.get("MUSTER_E2E_SHARED", "/run/muster-e2e")
"""A folder of the nodes, for volumes and sockets of tests."""
PATIENCE = 180
"""Seconds in which engines start on a busy machine."""
CLAIM = "muster-sessions"
"""The PersistentVolumeClaim in both namespaces; `manifests/sessions` names it."""
SECRET = "gateway-tls"  # the name of a Secret
"""The Secret with the certificate of a Gateway; `manifests/sessions` names it."""
BASE = "models/muster/tiny"
"""The folder of the base model in the volume; `manifests/sessions` names it."""
USER = 65532
"""As whom all of them run; folders of the volume are this user's."""

_MAKE = """
import os, pathlib, sys
from muster.sessions.demo import tiny
store, user = pathlib.Path("/store"), int(sys.argv[2])
tiny.make(store / sys.argv[1], hidden=int(sys.argv[3]))
for name in sys.argv[4:]:
    (store / name).mkdir()
for each in (store, *store.rglob("*")):
    os.chown(each, user, user)
"""
_KILL = """
import os, pathlib, signal, sys
from muster.sessions.nodes.claims import pod_of
for each in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        groups, command = (each / "cgroup").read_text(), (each / "cmdline").read_text()
    except OSError:
        continue
    if pod_of(groups) == sys.argv[1] and sys.argv[3] in command:
        os.kill(int(each.name), signal.Signals[sys.argv[2]])
        print(each.name)
"""
_TINY = "import pathlib, sys; from muster.sessions.demo import tiny; tiny.make(pathlib.Path(sys.argv[1]))"


@dataclass(frozen=True, slots=True)
class Ground:
    """Where Gateways and their engines run, and what they need there.

    Attributes:
        kubectl: for the cluster.
        space: of the Gateways.
        engines: the namespace of their engines.
        base: the base model, as the client names it and finds its tokenizer.
        hidden: size of its hidden states; the tokenizer is the same for all.
        names: further names and addresses of the Gateway, for its certificate.
    """

    kubectl: Kubectl
    space: Space
    engines: Space
    base: Path
    hidden: int = 64
    names: tuple[str, ...] = ()

    @property
    def authority(self) -> Path:
        """The file with what clients trust."""
        return self.base.parent / "ca.crt"

    def prepare(self, *states: str) -> None:
        """Make the base model on both sides, the volumes with a folder for each Gateway, and the certificate."""
        run(python(), "-c", _TINY, str(self.base))
        for space in (self.space, self.engines):
            self.kubectl.apply(self._volume(space)).expect()
            space.apply(_claim(space.name)).expect()
        self.space.create(self._maker(states)).expect()
        waits.until("a base model to be made", lambda: self._printed("make"), PATIENCE)
        self.space.apply(self._secret()).expect()

    def remove(self) -> None:
        """Remove both namespaces, and what belongs to none."""
        for space in (self.space, self.engines):
            space.remove()
            self.kubectl.delete("persistentvolume", space.name)

    def kill(self, pod: Mapping[str, Any], sent: str = "SIGKILL", command: str = "sessions.") -> None:
        """Send a signal to the program in a pod, from its node: from inside the first process cannot be killed.

        Args:
            pod: with the program.
            sent: the signal.
            command: a part of the program's command line, and of no other one's in the pod.
        """
        killer = _pod("kill", "gateway", _KILL, pod["metadata"]["uid"], sent, command)
        killer["spec"] |= {"hostPID": True, "nodeName": pod["spec"]["nodeName"]}
        self.space.create(killer).expect()
        killed = waits.until("a program to be killed", lambda: self._printed("kill"), 60)
        assert len(killed.split()) == 1, killed
        self.space.delete("pod", "kill", wait=True, grace=1).expect()

    def _printed(self, name: str) -> str:
        """Return what a pod printed that has succeeded. Raises `AssertionError` where it has not."""
        found = self.space.get("pods", name) or {"status": {}}
        phase = found["status"].get("phase")
        log = self.kubectl.run("logs", name, "--namespace", self.space.name).out
        assert phase == "Succeeded", f"it is {phase}, and prints {log}"
        return log or "nothing"

    def _secret(self) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.UTC)
        authority = authorities.create(now)
        leaf = leaves.issue(authority, ["localhost", "127.0.0.1", *self.names], now)
        self.authority.write_bytes(authorities.bundle_pem(authority))
        data = {
            "tls.crt": pems.certificate_pem(leaf.certificate).decode(),
            "tls.key": pems.key_pem(leaf.key).decode(),
        }
        metadata = {"name": SECRET}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": metadata,
            "stringData": data,
        }

    def _volume(self, space: Space) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": space.name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": space.name, "name": CLAIM},
                "hostPath": {"path": f"{NODE_FOLDER}/{self.space.name}", "type": "DirectoryOrCreate"},
            },
        }

    def _maker(self, states: tuple[str, ...]) -> dict[str, Any]:
        """Return the pod that makes the base model; the kubelet made the folder for root alone."""
        made = _pod("make", "engine", _MAKE, BASE, str(USER), str(self.hidden), *states)
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "store", "mountPath": "/store"}]
        made["spec"]["volumes"] = [{"name": "store", "persistentVolumeClaim": {"claimName": CLAIM}}]
        return made


def _pod(name: str, image: str, program: str, *arguments: str) -> dict[str, Any]:
    """Return a pod that runs a program once, as root."""
    container = {
        "name": name,
        "image": IMAGES[image],
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", program, *arguments],
        "securityContext": {"runAsUser": 0, "runAsGroup": 0},
    }
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _claim(volume: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": volume,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": spec}


def python() -> str:
    """Return the interpreter of the client."""
    found = shutil.which(os.environ.get("MUSTER_SESSIONS_PYTHON", ""))
    assert found, "MUSTER_SESSIONS_PYTHON must name a python that has tinker and torch; `make e2e` does"
    return found


def run(*command: str) -> None:
    """Run a program that must succeed. Raises `AssertionError` with what it printed."""
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{json.dumps(command)[:500]}\n{done.stdout}{done.stderr}"
