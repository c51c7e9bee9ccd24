"""The agents of devices as people run them: `manifests/sessions/devices`, with budgets in place of GPUs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from e2e.suites.sessions import kustomizations
from e2e.suites.sessions.gateways import restarts
from e2e.suites.sessions.grounds import IMAGES, NODE_FOLDER, PATIENCE, Ground
from e2e.suites.support import waits
from sessions.devices.memory import Budget, DeviceError

__all__ = ["Agents"]

_NAME = "gateway-devices"
_SELECTOR = "app.kubernetes.io/name=muster-devices"
_GROUPS = "/sys/fs/cgroup"
# Who moves processes of others between control groups is root, and the folder of the socket belongs to another.
_ROOT: dict[str, Any] = {
    "runAsNonRoot": False,
    "runAsUser": 0,
    "runAsGroup": 0,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "KILL"]},
}


@dataclass(frozen=True, slots=True)
class Agents:
    """The agents, one on each node.

    Attributes:
        ground: whose engines they serve; they are beside the Gateways.
        mebibytes: of the budget that each device is.
    """

    ground: Ground
    mebibytes: int

    @property
    def socket(self) -> str:
        """Where engines find the agent of their node."""
        return f"{self._folder}/lease.sock"

    def install(self) -> None:
        """Apply the kustomization, and wait until an agent is ready."""
        self.ground.kubectl.apply(*self._documents()).expect()
        waits.until("an agent of devices to be ready", lambda: self.pod() is not None, PATIENCE)

    def remove(self) -> None:
        """Remove what belongs to no namespace, when the engines have gone; of a node elsewhere its groups stay."""
        for kind in ("clusterrole", "clusterrolebinding"):
            self.ground.kubectl.delete(kind, f"muster-{_NAME}")
        with suppress(DeviceError):
            waits.until("the budgets to be free", self._freed, PATIENCE)

    def kill(self) -> None:
        """Kill the agent (SIGKILL), and wait until the kubelet has started it again in its pod."""
        before = self.pod()
        assert before is not None, "no agent is ready"
        self.ground.kill(before)
        waits.until("the agent to serve again", lambda: restarts(self.pod()) > restarts(before), PATIENCE)

    def pod(self) -> dict[str, Any] | None:
        """Return an agent's pod that is ready; None for none."""
        for each in self.ground.space.pods(_SELECTOR):
            ready = {one["type"]: one["status"] for one in each["status"].get("conditions") or ()}.get(
                "Ready"
            ) == "True"
            if ready and "deletionTimestamp" not in each["metadata"]:
                return each
        return None

    @property
    def _folder(self) -> str:
        return f"{NODE_FOLDER}/leases-{self.ground.space.name}"

    def _freed(self) -> bool:
        root = Budget("muster-device-none", 1).parent
        for each in root.glob(f"muster-device-{self.ground.space.name}-*"):
            Budget(each.name, 1).remove()
        return not list(root.glob(f"muster-device-{self.ground.space.name}-*"))

    def _documents(self) -> list[dict[str, Any]]:
        places = {"muster-devices": self.ground.space.name, "team-a": self.ground.engines.name}
        documents = kustomizations.moved(kustomizations.built(self.ground.kubectl, "sessions/devices"), places)
        (workload,) = (each for each in documents if each["kind"] == "DaemonSet")
        spec = workload["spec"]["template"]["spec"]
        agent, (first,) = kustomizations.container(documents, "DaemonSet"), spec["initContainers"]
        first["command"] = [*first["command"][:-1], self._folder]
        agent["args"] = kustomizations.with_words(
            agent["args"],
            socket=self.socket,
            turn="5",
            leaving="120",
            freeing="5",
            kept="64",  # what an interpreter does not give back was up to 50 in a pod; a base model has 72
            budget=f"{self.ground.space.name}:{self.mebibytes}",
        )
        agent["securityContext"] = _ROOT
        for each in (first, agent):
            each["image"] = IMAGES["gateway"]
            each["volumeMounts"] = [{"name": "folder", "mountPath": self._folder}]
        agent["volumeMounts"].append({"name": "groups", "mountPath": _GROUPS})
        spec["volumes"] = [
            {"name": "folder", "hostPath": {"path": self._folder, "type": "DirectoryOrCreate"}},
            {"name": "groups", "hostPath": {"path": _GROUPS, "type": "Directory"}},
        ]
        return list(documents)
