"""Neighbours: containers in the pod of the training that hold its devices.

Kubernetes gives devices to containers, not to pods: a container sees what its own resources ask for.
"""

from __future__ import annotations

from collections.abc import Iterator

from strategies.documents import paths, pods
from strategies.documents.findings import Finding, warning
from strategies.jobs import containers
from strategies.jobs.jobs import Job
from strategies.launches import topologies

__all__ = ["check"]


def check(job: Job) -> Iterator[Finding]:
    """Check the other containers of the pod of `job.container`."""
    place = job.container
    if place is not None:
        yield from _holders(job, place)


def _holders(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Warn where a sidecar holds the devices that the launching container has not."""
    if not topologies.read_topology(job).on_cpu or _sees_all(place.container):
        return
    for other in _others(place):
        if containers.holds_devices(other, place.pod_spec) and containers.is_aside(other, job.identify):
            own = place.container.get("name")
            message = (
                f"this container holds the devices of the pod, and {own} asks for none and would see none; move them "
                f"to {own}"
            )
            yield warning(_field(job, place, "resources"), other.get("name"), message, rule="core/neighbour-devices")


def _sees_all(container: pods.Container) -> bool:
    """Whether the container runtime shows it devices that it did not ask for (NVIDIA container toolkit)."""
    privileged = (container.get("securityContext") or {}).get("privileged") is True
    return privileged or pods.find_env(container.get("env"), "NVIDIA_VISIBLE_DEVICES") is not None


def _others(place: pods.Place) -> Iterator[pods.Container]:
    for each in place.pod_spec.get("containers") or ():
        if each is not place.container:
            yield each


def _field(job: Job, place: pods.Place, member: str) -> str:
    return f"{paths.field(job.document, place.path)}.{member}" if job.kind == "JobSet" else "spec.runtimeRef.name"
