"""Visibilities: a variable that lets a launch see some devices, and whose value each pod or each process has anew.

torchrun sets LOCAL_RANK for the processes that it starts, and not for itself (torch 2.13 `distributed/run.py`); a pod's
devices are numbered from 0 whatever its index is (CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from strategies.documents import pods
from strategies.documents.findings import Finding, warning
from strategies.jobs.jobs import Job
from strategies.launches import topologies
from strategies.launches.launches import Launcher
from strategies.launches.sites import Site
from strategies.launches.topologies import Topology
from strategies.launches.worlds import World

__all__ = ["VARIABLES", "check"]

VARIABLES = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
"""Variables that choose devices."""


def check(job: Job, site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    """Warn about devices that a launch chooses by a rank that it does not have, or by the index of its pod."""
    yield from _unseen(site, world, topology)
    yield from _by_index(job, site, world, topology)


def _unseen(site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    """Warn about devices that are chosen by a variable which only the processes of the launch will have."""
    if world.launch.launcher is not Launcher.TORCHRUN:
        return
    chosen = [name for name in VARIABLES if _OF_PROCESSES.fullmatch(world.launch.env.get(name) or "")]
    for name in chosen if topology.devices.count and "LOCAL_RANK" not in site.variables else ():
        value = world.launch.env[name]
        message = (
            f"LOCAL_RANK is set by the launch for its processes alone, so {name} is empty here and no GPU is seen; "
            "remove it, each process chooses its own"
        )
        yield warning(site.locate_option(world.launch, ""), f"{name}={value}", message, rule="core/unset-variable")


def _by_index(job: Job, site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    """Warn about devices that are chosen by the index of a pod, of which each numbers its own from 0."""
    count, place = topology.devices.count, job.container
    each = topologies.pods_of(job) if job.kind == "TrainJob" or place is None else pods.at_once(place.job)
    if not count or each <= count or (place is not None and topologies.sees_others(place.container)):
        return
    for name in VARIABLES:
        value = world.launch.env.get(name) or ""
        if _OF_PODS.fullmatch(value):
            message = (
                f"each pod numbers its own {count} from 0, so that the pods from index {count} on see none; remove it"
            )
            yield warning(site.locate_option(world.launch, ""), f"{name}={value}", message, rule="core/idle-devices")


_OF_PODS = re.compile(r"\$\((?:JOB_COMPLETION_INDEX|PET_NODE_RANK)\)")
_OF_PROCESSES = re.compile(r"\$\((?:LOCAL_RANK)\)")
