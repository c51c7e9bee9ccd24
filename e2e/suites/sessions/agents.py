"""The agents of devices as people run them: `manifests/sessions/devices`, with something in place of GPUs.

Either a budget of memory, which is enforced and needs more rights than the manifest gives; or the manifest as it is,
with a stand-in for `nvidia-smi` that always finds the device free.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from e2e.suites.sessions import kustomizations
from e2e.suites.sessions.gateways import restarts
from e2e.suites.sessions.grounds import IMAGES, NODE_FOLDER, PATIENCE, Ground
from e2e.suites.support import documents as kinds
from e2e.suites.support import waits
from muster.sessions.devices import spans
from muster.sessions.devices.memory import Budget, DeviceError
from muster.sessions.devices.spans import Span

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
        mebibytes: of the budget that each device is; None for agents with no right but those of the manifest.
        turn: seconds that a session has a device while others wait.
    """

    ground: Ground
    mebibytes: int | None
    turn: int = 2

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

    def spans(self) -> list[Span]:
        """Return who had devices from when until when, as the log of an agent says. Raises `AssertionError`."""
        found = self.pod()
        assert found is not None, "no agent is ready"
        log = self.ground.kubectl.run("logs", found["metadata"]["name"], "--namespace", self.ground.space.name)
        return list(spans.read(log.expect().out.splitlines()))

    @property
    def _folder(self) -> str:
        return f"{NODE_FOLDER}/leases-{self.ground.space.name}"

    def _freed(self) -> bool:
        root = Budget("muster-device-none", 1).parent
        for each in root.glob(f"muster-device-{self.ground.space.name}-*"):
            Budget(each.name, 1).remove()
        return not list(root.glob(f"muster-device-{self.ground.space.name}-*"))

    def _documents(self) -> list[dict[str, Any]]:
        places = {"muster-devices": self.ground.space.name, "muster-engines": self.ground.engines.name}
        documents = kustomizations.moved(kustomizations.built(self.ground.kubectl, "sessions/devices"), places)
        (workload,) = (each for each in documents if each["kind"] == "DaemonSet")
        spec = workload["spec"]["template"]["spec"]
        agent, (first,) = kustomizations.container(documents, "DaemonSet"), spec["initContainers"]
        first["command"] = [*first["command"][:-1], self._folder]
        words = {"socket": self.socket, "turn": str(self.turn), "freeing": "5"}
        for each in (first, agent):
            each["image"] = IMAGES["gateway"]
            each["volumeMounts"] = [{"name": "folder", "mountPath": self._folder}]
        spec["volumes"] = [{"name": "folder", "hostPath": {"path": self._folder, "type": "DirectoryOrCreate"}}]
        if self.mebibytes is None:
            documents.append(_stand_in(spec, agent, self.ground.space.name))
            words["leaving"] = "10"
        else:
            _budgets(spec, agent)
            # What an interpreter does not give back was up to 50 in a pod; a base model has 72.
            words |= {"leaving": "120", "kept": "64", "budget": f"{self.ground.space.name}:{self.mebibytes}"}
        agent["args"] = kustomizations.with_words(agent["args"], **words)
        return list(documents)


def _budgets(spec: dict[str, Any], agent: dict[str, Any]) -> None:
    """Give an agent what it needs to make control groups, and to move processes into them."""
    agent["securityContext"] = _ROOT
    agent["volumeMounts"].append({"name": "groups", "mountPath": _GROUPS})
    spec["volumes"].append({"name": "groups", "hostPath": {"path": _GROUPS, "type": "Directory"}})


def _stand_in(spec: dict[str, Any], agent: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Give an agent a program that says that no process has memory on any GPU; returns its ConfigMap."""
    name = "nvidia-smi"
    mount = {"name": name, "mountPath": f"/usr/local/bin/{name}", "subPath": name, "readOnly": True}
    agent["volumeMounts"].append(mount)
    spec["volumes"].append({"name": name, "configMap": {"name": name, "defaultMode": 0o555}})
    made = kinds.config_map(name, {name: "#!/bin/sh\n"})
    made["metadata"]["namespace"] = namespace
    return made
