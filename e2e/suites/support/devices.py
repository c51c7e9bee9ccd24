"""Devices and claims on them (resource.k8s.io/v1): the documents of a test, and what the cluster made of them.

A pod of a claim stays until it is told to end, so that a test can look at who holds which device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from e2e.suites.support import documents, waits
from e2e.suites.support.kubectls import Kubectl, Outcome
from e2e.suites.support.spaces import Space

__all__ = [
    "STAYS",
    "Devices",
    "allocated",
    "claim",
    "claims_of",
    "device_class",
    "end",
    "everywhere",
    "held",
    "let_end",
    "request",
    "slice_of",
    "taken",
    "template",
    "told",
    "why_pending",
]

_API = "resource.k8s.io/v1"
_REQUEST = "devices"
_VARIABLE = "GPU_DEVICE_"
_KILLED = 137  # 128 + SIGKILL
STAYS = ["sh", "-c", "trap 'exit 143' TERM; env; until [ -e /tmp/end ]; do sleep 0.2; done"]
"""Command of a container that tells its env, and runs until `end`, or fails at once when it is stopped."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that a test may claim.

    Attributes:
        driver: the driver that publishes them, or the name in the tests' own ResourceSlices.
        device_class: the DeviceClass that selects all of them.
        count: how many there are.
        node: the node of all of them.
        image: the image of containers that run there; "" on nodes of KWOK, which run no containers.
    """

    driver: str
    device_class: str
    count: int
    node: str
    image: str = ""

    @property
    def real(self) -> bool:
        """Whether containers run, and are given devices."""
        return bool(self.image)

    def container(self, name: str = "node", **more: Any) -> dict[str, Any]:
        """A container that stays."""
        runs = {"image": self.image, "command": STAYS}
        return {"name": name, **(runs if self.real else {"image": documents.IMAGE}), **more}

    def pod(self, name: str, *, template: str = "", claim: str = "", **spec: Any) -> dict[str, Any]:
        """A pod that stays, with a claim from a template or a named one."""
        source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
        claims = {"resourceClaims": [{"name": _REQUEST, **source}]}
        container = self.container(resources={"claims": [{"name": _REQUEST}]})
        ends = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
        pod = documents.pod_spec(container, fake=not self.real, **ends, **claims, **spec)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod}


def device_class(name: str, expression: str, extended: str = "") -> dict[str, Any]:
    """A DeviceClass of the devices for which a CEL expression is true; `extended` is a resource that it stands for."""
    spec = {
        "selectors": [{"cel": {"expression": expression}}],
        **({"extendedResourceName": extended} if extended else {}),
    }
    return {"apiVersion": _API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def slice_of(name: str, driver: str, node: str, devices: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A ResourceSlice with a pool of its own.

    It is of the node by a selector: those with a node's name a running driver takes for its own, and removes.
    """
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    spec = {
        "driver": driver,
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    return {"apiVersion": _API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def request(device_class: str, count: int = 1, **members: Any) -> dict[str, Any]:
    """The spec of a claim with one request; `members` go to it."""
    exactly = {"deviceClassName": device_class, "count": count, **members}
    return {"devices": {"requests": [{"name": _REQUEST, "exactly": exactly}]}}


def claim(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A ResourceClaim."""
    return {"apiVersion": _API, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def template(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A ResourceClaimTemplate."""
    return {"apiVersion": _API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": {"spec": spec}}


def claims_of(pod: Mapping[str, Any]) -> list[str]:
    """The names of a pod's claims; of one from a template, only once it has been made."""
    named = [
        each["resourceClaimName"] for each in pod["spec"].get("resourceClaims") or () if "resourceClaimName" in each
    ]
    made = [each.get("resourceClaimName") for each in pod.get("status", {}).get("resourceClaimStatuses") or ()]
    return [*named, *(each for each in made if each)]


def allocated(claim: Mapping[str, Any]) -> list[str]:
    """The devices of a claim, as `pool/device`; empty while it has none."""
    allocation = (claim.get("status") or {}).get("allocation") or {"devices": {}}
    return [f"{each['pool']}/{each['device']}" for each in allocation["devices"].get("results") or ()]


def taken(space: Space) -> list[str]:
    """The devices that the claims of a namespace have, whoever made these, as `pool/device`."""
    return [device for each in space.all("resourceclaims") for device in allocated(each)]


def held(space: Space, name: str, seconds: float = 60) -> list[str]:
    """Wait until a pod runs; return the devices of its claims, as `pool/device`."""

    def look() -> dict[str, Any]:
        pod = space.get("pods", name)
        assert pod is not None, "the pod does not exist"
        assert pod["status"].get("phase") == "Running", f"{pod['status']}; {why_pending(space, name)}"
        return pod

    pod = waits.until(f"pod {space.name}/{name} to run", look, seconds)
    claims = [space.get("resourceclaims", each) for each in claims_of(pod)]
    return [device for each in claims if each for device in allocated(each)]


def told(space: Space, name: str) -> set[str]:
    """The devices that a container was given, as its env tells: by name."""

    def look() -> list[str]:
        # The command tells its env first; nothing there means that it has not come to it.
        return space.kubectl.run("logs", name, "--namespace", space.name).expect().out.splitlines()

    entries = (line.partition("=") for line in waits.until(f"pod {space.name}/{name} to tell its env", look))
    return {value for key, _, value in entries if key.removeprefix(_VARIABLE).isdigit()}


def end(space: Space, name: str) -> None:
    """Let a pod that stays succeed, and wait until it has."""
    pod = space.get("pods", name)
    assert pod is not None, f"pod {space.name}/{name} does not exist"
    if pod["spec"]["containers"][0]["image"] == documents.IMAGE:
        let_end(space, name).expect()
    else:
        outcome = space.kubectl.run("exec", "--namespace", space.name, name, "--", "touch", "/tmp/end")
        if outcome.code != _KILLED:  # the container saw the file, and ended its touch with itself
            outcome.expect()

    def ended() -> bool:
        now = space.get("pods", name)
        return now is None or now["status"]["phase"] == "Succeeded"

    waits.until(f"pod {space.name}/{name} to have ended", ended)


def let_end(space: Space, *names: str) -> Outcome:
    """Have KWOK end pods of its nodes, once they run; one that is gone by now does not keep the others."""
    return space.kubectl.run("label", "pods", *names, "-n", space.name, "--overwrite", f"{documents.ENDS_LABEL}=true")


def why_pending(space: Space, name: str) -> str:
    """What the events of a pod say, the newest last."""
    return " | ".join(str(each.get("message")) for each in space.events() if each["involvedObject"]["name"] == name)


def everywhere(kubectl: Kubectl) -> list[dict[str, Any]]:
    """All ResourceClaims of the cluster."""
    found: list[dict[str, Any]] = kubectl.run("get", "resourceclaims", "-A", "-o", "json").expect().json["items"]
    return found
