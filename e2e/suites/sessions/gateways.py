"""A Gateway as people run it in a cluster: `manifests/sessions`, with the names of a test.

The client is a process of this machine, which reaches the Gateway's Service by `kubectl port-forward`.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.suites.sessions import kustomizations, trainings
from e2e.suites.sessions.grounds import BASE, CLAIM, IMAGES, PATIENCE, Ground
from e2e.suites.sessions.trainings import Training
from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

__all__ = ["KINDS", "NARROW", "PROFILE", "Gateway", "is_ready", "restarts"]

PROFILE = "seat"
"""The claim profile of both engines; `manifests/sessions/devices` names it."""
NARROW = ("narrow", "spare")
"""Two profiles, each with one claim that has seats for the engines of one Gateway."""
KINDS = ("pods", "jobs", "jobsets.jobset.x-k8s.io", "secrets", "networkpolicies", "serviceaccounts")
"""What a Gateway makes in the namespace of its engines, or what is made of that."""

_EVERYWHERE = {"default", "kube-root-ca.crt"}  # a ServiceAccount and a ConfigMap
_PAUSE = 0.5  # seconds until a port is forwarded again
_LOOKS = 3  # at the Gateway behind a forwarded port, in a row without an answer, before it is forwarded anew
_LOOK = 5  # seconds for each of them


@dataclass(frozen=True, slots=True)
class Gateway:
    """One Gateway.

    Attributes:
        ground: what it stands on.
        name: of it.
        lease: socket of the agents of devices on the nodes; empty where its engines take no turns.
        profile: of its engines, and those that they take while it is full.
    """

    ground: Ground
    name: str = "gateway"
    lease: str = ""
    profile: str = PROFILE

    @property
    def kubectl(self) -> Kubectl:
        """For the cluster."""
        return self.ground.kubectl

    @property
    def space(self) -> Space:
        """Its namespace."""
        return self.ground.space

    @property
    def engines(self) -> Space:
        """The namespace of its engines."""
        return self.ground.engines

    @property
    def state(self) -> str:
        """The folder of its journal in the volume."""
        return "state" if self.name == "gateway" else f"state-{self.name}"

    def install(self) -> None:
        """Apply the kustomization, as a Deployment that has no pod yet."""
        self.kubectl.apply(*self._documents()).expect()

    def begin(self) -> None:
        """Have the Gateway's pod, and wait until it serves; nothing happens when it does."""
        self._scale(1)
        waits.until("the Gateway to serve", lambda: self.pod() is not None, PATIENCE)

    def end(self) -> None:
        """Have the kubelet send SIGTERM to the Gateway, and wait until its pod is gone."""
        self._scale(0)
        waits.until("the Gateway to be gone", lambda: not self.space.pods(self._labels), 60)

    def uninstall(self) -> None:
        """Delete all that `install` made at once, the rights of the Gateway with it, as `helm uninstall` does."""
        documents = {"apiVersion": "v1", "kind": "List", "items": self._documents()}
        deleted = ("delete", "--filename", "-", "--wait=false", "--ignore-not-found")
        self.kubectl.run(*deleted, stdin=json.dumps(documents)).expect()

    def kill(self) -> None:
        """Kill its program (SIGKILL), and wait until the kubelet has started it again in its pod."""
        before = self.pod()
        assert before is not None, "the Gateway does not serve"
        self.ground.kill(before)
        waits.until("the Gateway to serve again", lambda: restarts(self.pod()) > restarts(before), PATIENCE)

    def pod(self) -> dict[str, Any] | None:
        """Return the Gateway's pod, None while it is not ready."""
        ready = (each for each in self.space.pods(self._labels) if is_ready(each))
        return next((each for each in ready if "deletionTimestamp" not in each["metadata"]), None)

    def engine(self, role: str) -> dict[str, Any]:
        """Wait until the pod of an engine is ready, and return it."""
        return waits.until(f"the pod of the {role} to be ready", lambda: self.ready(role), PATIENCE)

    def gated(self) -> bool:
        """Whether both engines have pods that wait for seats."""
        pods = self.engines.pods(f"muster.dev/gateway={self.name}")
        return len(pods) == 2 and all(pod["spec"].get("schedulingGates") for pod in pods)

    def ready(self, role: str) -> dict[str, Any]:
        """Return the pod of an engine, which is ready. Raises `AssertionError` where none is."""
        found = self.engines.pods(f"muster.dev/gateway={self.name},muster.dev/role={role}")
        ready = [each for each in found if is_ready(each) and "deletionTimestamp" not in each["metadata"]]
        assert ready, [each["status"] for each in found]
        return ready[0]

    def terminate(self, engine: Mapping[str, Any]) -> None:
        """Send SIGTERM to the process of an engine's pod, whose end may take the command that sends it along."""
        name = engine["metadata"]["name"]
        program = "import os, signal; os.kill(1, signal.SIGTERM)"
        self.kubectl.run("exec", "--namespace", self.engines.name, name, "--", "python", "-c", program)

    def left(self, kinds: Iterable[str] = KINDS) -> dict[str, list[str]]:
        """Return the names of what is in the namespace of the engines, by kind; without what each namespace has."""
        found = {
            kind: [name for each in self.engines.all(kind) if (name := each["metadata"]["name"]) not in _EVERYWHERE]
            for kind in kinds
        }
        return {kind: names for kind, names in found.items() if names}

    def key(self) -> str:
        """Make a key in a pod of the Gateway, as a person does, and return it."""
        assert self.pod() is not None, "the Gateway does not serve"
        inside = ("exec", "--namespace", self.space.name, f"deployment/{self.name}", "--")
        created = ("python", "-m", "muster.sessions.cli", "keys", "create", "team-a", "--root", "/state")
        return self.kubectl.run(*inside, *created).expect().out.strip()

    @contextmanager
    def training(self) -> Iterator[Training]:
        """Train from outside the cluster, with a new key; what still runs at the end is stopped."""
        key = self.key()
        log = self.ground.base.parent / f"{self.name}.forward.log"
        with (
            _forwarded(self.kubectl, self.space.name, self.name, log) as url,
            trainings.through(url, key, self.ground, self.name) as training,
        ):
            yield training

    @property
    def _labels(self) -> str:
        return f"app.kubernetes.io/name=muster-gateway,app.kubernetes.io/instance={self.name}"

    def _scale(self, replicas: int) -> None:
        self.space.patch("deployment", self.name, {"spec": {"replicas": replicas}}).expect()

    def _documents(self) -> list[dict[str, Any]]:
        places = {"gateways": self.space.name, "muster-engines": self.engines.name}
        documents = kustomizations.moved(kustomizations.built(self.kubectl, "sessions"), places)
        container = kustomizations.container(documents, "Deployment")
        container["image"] = IMAGES["gateway"]
        changed = {
            "name": str(self.ground.base),
            "image": IMAGES["engine"],
            "volume": f"{CLAIM}:{self.state}",
            "base_volume": f"{CLAIM}:{BASE}",
            "profile": self.profile,
        }
        if self.lease:
            changed["device_lease"] = self.lease
        container["args"] = kustomizations.with_words(container["args"], **changed)
        (state,) = (each for each in container["volumeMounts"] if each["mountPath"] == "/state")
        state["subPath"] = self.state
        (deployment,) = (each for each in documents if each["kind"] == "Deployment")
        deployment["spec"]["replicas"] = 0
        named = kustomizations.named(documents, self.name)
        own = {"name": self.name, "image": IMAGES["engine"], "state": self.state}
        if self.lease:
            own["lease"] = str(Path(self.lease).parent)
        return kustomizations.bounded(named, self.space.name, self.engines.name, **own)


@contextmanager
def _forwarded(kubectl: Kubectl, namespace: str, service: str, log: Path) -> Iterator[str]:
    """Forward a port of this machine to a Service, and again when the pod behind it is another; gives the URL.

    `kubectl port-forward` may go on when the container behind it was killed, and forward nothing any more. So the port
    is looked at from this end.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [kubectl.binary, "--kubeconfig", kubectl.kubeconfig, "port-forward", "--namespace", namespace]
    command += ["--address", "127.0.0.1", f"service/{service}", f"{port}:443"]
    over = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def forward() -> None:
        # What it says of each connection is not read, so it has no pipe that could fill.
        with log.open("wb") as written:
            while not over.is_set():
                running[:] = [subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT)]
                if over.is_set():
                    running[0].terminate()
                deaf = 0
                while running[0].poll() is None and deaf < _LOOKS and not over.wait(_PAUSE):
                    deaf = deaf + 1 if _is_deaf(port) else 0
                running[0].terminate()
                running[0].wait()
                over.wait(_PAUSE)

    thread = threading.Thread(target=forward)
    thread.start()
    try:
        waits.until("a forwarded port", lambda: "Forwarding from" in log.read_text(errors="replace"))
        yield f"https://127.0.0.1:{port}"
    finally:
        over.set()
        for each in running:
            each.terminate()
        thread.join()


def _is_deaf(port: int) -> bool:
    """Tell whether a port takes a connection, and nothing behind it shakes hands for TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        plain = socket.create_connection(("127.0.0.1", port), timeout=_LOOK)
    except OSError:
        return False  # kubectl does not listen yet
    with plain:
        try:
            context.wrap_socket(plain).close()
        except OSError:
            return True
    return False


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod is ready."""
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True"


def restarts(pod: Mapping[str, Any] | None) -> int:
    """Return how often the kubelet has started the container of a pod again. Raises `AssertionError` without a pod."""
    assert pod is not None, "there is no such pod that is ready"
    (container,) = pod["status"]["containerStatuses"]
    return int(container["restartCount"])
