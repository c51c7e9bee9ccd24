"""Neighbours: containers in the pod of the training that hold its devices, or launch too.

Kubernetes gives devices to containers, not to pods: a container sees what its own resources ask for. Muster and Trainer
give the rendezvous to one container, so that the launch of another finds no other node.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.strategies.documents import names, paths, pods
from muster.strategies.documents.findings import Finding, note, warning
from muster.strategies.documents.model import Container
from muster.strategies.jobs import containers, parts
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.programs import Kind
from muster.strategies.launches import addresses, endless, readings, topologies

__all__ = ["check"]


def check(job: Job) -> Iterator[Finding]:
    """Check the other containers of the pod of `job.container`."""
    place = job.container
    if place is not None:
        yield from _holders(job, place)
        yield from _launchers(job, place)
        yield from _servers(job, place)
        yield from _endless(job, place)


def _holders(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Warn where a sidecar holds the devices that the launching container has not."""
    if not topologies.read_topology(job).on_cpu or topologies.sees_others(place.container):
        return
    own = place.container.name
    for other in place.pod.init_containers:
        if other.restart_policy != "Always" and containers.holds_devices(other, place.pod):
            message = (
                f"this init container holds devices, which the pod keeps when it has ended, and {own} asks for none "
                f"and would see none; ask for them in {own}"
            )
            yield warning(_field(job, place), other.name, message, rule="core/neighbour-devices")
    for _, other in _others(place):
        if containers.holds_devices(other, place.pod) and containers.is_aside(other, job.identify):
            message = (
                f"this container holds the devices of the pod, and {own} asks for none and would see none; move them "
                f"to {own}"
            )
            yield warning(_field(job, place), other.name, message, rule="core/neighbour-devices")


def _launchers(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Warn about launches in other containers, which nobody tells how many nodes there are."""
    own, nodes = place.container.name, topologies.pods_of(job)
    if containers.program(place.container, job.identify).kind < Kind.LAUNCHER:
        return
    for where, other in _others(place):
        if containers.program(other, job.identify).kind < Kind.LAUNCHER:
            continue
        report, message = note, f"launches too, beside {own}, and Muster did not check it; check it as a job of its own"
        if nodes > 1 and not parts.is_apart(other.name) and not _meets(other):
            report, message = (
                warning,
                (
                    f"launches too, and only {own} gets the rendezvous, so each of the {nodes} nodes would train alone "
                    f"here; launch it in {own}, or in a replicated job of its own"
                ),
            )
        yield report(_at(job, where, ".command"), other.name, message, rule="core/several-launches")


def _servers(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Tell of servers in other containers, whose flags nobody checks."""
    for where, other in _others(place):
        if containers.program(other, job.identify).kind is Kind.SERVER:
            message = (
                f"is a server beside {place.container.name}, and its flags were not checked; check it as a JobSet "
                "labelled vllm"
            )
            yield note(_at(job, where), other.name, message, rule="core/unchecked-part")


def _endless(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Warn about a container that only waits, beside a training whose end it keeps from being the end of the pod.

    A pod has succeeded when all of its containers have (kubernetes `pkg/kubelet/kubelet_pods.go` getPhase). One
    that shares the processes of the pod may be ended by the training itself.
    """
    if place.pod.share_process_namespace or not place.container.argv:
        return  # the training may end the others, or has no launch that is known to end
    for where, other in _others(place):
        if endless.of_job(job).never_ends(other.argv):
            message = (
                "waits for ever, and a pod has ended only when all of its containers have, so the job never completes "
                "and keeps its devices; make it an init container with restartPolicy: Always"
            )
            yield warning(_at(job, where, ".command"), other.name, message, rule="core/endless-neighbour")


def _meets(container: Container) -> bool:
    """Whether the command line or the env of a container says itself where its nodes meet, or that it has one node."""
    if any(each.name in _MEETING_ENV for each in container.env):
        return True
    return any(_MEETING & {*each.values, *each.env} for each in readings.read(container.argv).launches)


_MEETING_ENV = frozenset({names.PET_NNODES, names.PET_RDZV_ENDPOINT, names.PET_MASTER_ADDR, "PET_STANDALONE"})
_MEETING = _MEETING_ENV | addresses.OPTIONS | {"nnodes", "standalone", "num_machines", "num_nodes"}


def _others(place: pods.Place) -> Iterator[tuple[paths.Path, Container]]:
    """Yield the path of each other container of the pod, and the container."""
    every = (((*place.path[:-1], position), each) for position, each in enumerate(place.pod.containers))
    return ((path, each) for path, each in every if path != place.path)


def _at(job: Job, path: paths.Path, inside: str = "") -> str:
    return f"{paths.field(job.document, path)}{inside}" if job.kind == "JobSet" else "spec.runtimeRef.name"


def _field(job: Job, place: pods.Place) -> str:
    return _at(job, place.path, ".resources")
