"""A thousand pods with claims on written devices, and what the scheduler gave them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.suites.support import devices, documents
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

__all__ = ["Allocations", "publish", "run", "withdraw"]

_DRIVER = "scale.e2e.muster.dev"
_PATIENCE = 600
_JOB_LABEL = "batch.kubernetes.io/job-name"


@dataclass(frozen=True, slots=True)
class Allocations:
    """One run.

    Attributes:
        space: the namespace of the run.
        wanted: devices of each pod, by the name of its Job.
        pods, claims: the pods and claims when all pods ran.
        seconds: the time from the creation of the Jobs until all pods ran, or the wait was over.
    """

    space: Space
    wanted: Mapping[str, int]
    pods: Sequence[dict[str, Any]]
    claims: Mapping[str, dict[str, Any]]
    seconds: float

    def wanted_by(self, pod: Mapping[str, Any]) -> int:
        """The number of devices that a pod asks for."""
        return self.wanted[pod["metadata"]["labels"][_JOB_LABEL]]

    def scheduled(self) -> list[datetime.datetime]:
        """When pods were given their nodes, in order; to the second, as Kubernetes notes it."""
        return sorted(_time(each) for each in self.pods if _is_scheduled(each))

    def waits(self) -> list[float]:
        """How long pods waited for their nodes, in seconds and in order, from their creation."""
        created = datetime.datetime.fromisoformat
        return sorted(
            (_time(each) - created(each["metadata"]["creationTimestamp"])).total_seconds()
            for each in self.pods
            if _is_scheduled(each)
        )


def publish(kubectl: Kubectl, nodes: Sequence[str], count: int) -> str:
    """Write down devices of each node, and a DeviceClass of them all, whose name is given."""
    offered = [{"name": f"gpu-{number}", "capacity": {"memory": {"value": "80Gi"}}} for number in range(count)]
    slices = [devices.slice_of(node, _DRIVER, node, offered) for node in nodes]
    known = devices.device_class(_DRIVER, f"device.driver == '{_DRIVER}'")
    kubectl.create(known, *slices).expect()
    return _DRIVER


def withdraw(kubectl: Kubectl) -> None:
    """Take the devices of `publish` away."""
    kubectl.run("delete", "resourceslices", f"--field-selector=spec.driver={_DRIVER}", "--wait=false").expect()
    kubectl.delete("deviceclass", _DRIVER).expect()


def run(space: Space, device_class: str, jobs: Mapping[int, int]) -> Allocations:
    """Create a Job for each number of devices, of so many pods, and wait until all run, or patience is over."""
    templates = [devices.template(f"gpus-{count}", devices.request(device_class, count)) for count in jobs]
    space.create(*templates).expect()
    started = time.monotonic()
    space.create(*(_job(count, pods) for count, pods in jobs.items())).expect()
    total = sum(jobs.values())
    until(f"{total} pods to run", lambda: _ready(space) == total, _PATIENCE)
    seconds = time.monotonic() - started
    claims = {each["metadata"]["name"]: each for each in space.all("resourceclaims")}
    return Allocations(space, {f"gpus-{count}": count for count in jobs}, space.pods(), claims, seconds)


def _job(count: int, pods: int) -> dict[str, Any]:
    name = f"gpus-{count}"
    claim = {"name": "devices", "resourceClaimTemplateName": name}
    container = {"name": "node", "image": documents.IMAGE, "resources": {"claims": [{"name": "devices"}]}}
    pod = documents.pod_spec(container, restartPolicy="Never", resourceClaims=[claim])
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _ready(space: Space) -> int:
    return sum(each.get("status", {}).get("ready") or 0 for each in space.all("jobs"))


def _is_scheduled(pod: Mapping[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _time(pod: Mapping[str, Any]) -> datetime.datetime:
    (found,) = (each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    return datetime.datetime.fromisoformat(found["lastTransitionTime"])
