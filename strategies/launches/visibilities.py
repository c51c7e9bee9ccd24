"""Visibilities: variables that let a launch see some devices: too few, those of another rank, or those of other pods.

The container toolkit shows a container the devices that NVIDIA_VISIBLE_DEVICES names when it is made, and the pod's own
value stands behind that of the device plugin (kubernetes `pkg/kubelet/kubelet_pods.go`
GenerateRunContainerOptions); what a shell exports later shows nothing more. torchrun sets LOCAL_RANK for the processes
that it starts, and not for itself (torch `distributed/run.py`); a pod's devices are numbered from 0 whatever its
index is (CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from muster.strategies.documents import names, quantities
from muster.strategies.documents.findings import Finding, beginning, note, warning
from muster.strategies.documents.paths import field
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites, topologies
from muster.strategies.launches.launches import Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.launches.topologies import Topology
from muster.strategies.launches.worlds import World

__all__ = ["VARIABLES", "check", "check_named", "check_others"]

VARIABLES = frozenset({"CUDA_VISIBLE_DEVICES", names.SHOWN_DEVICES, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
"""Variables that choose devices."""


def check(job: Job, site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    """Warn about devices that a launch chooses by a rank that it does not have, or by the index of its pod."""
    yield from _unseen(site, world, topology)
    yield from _by_index(job, site, world, topology)


def _unseen(site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    """Warn about devices that are chosen by a variable which only the processes of the launch will have."""
    if world.launch.launcher is not Launcher.TORCHRUN:
        return
    chosen = [name for name in VARIABLES if re.fullmatch(_OF_PROCESSES, world.launch.env.get(name) or "")]
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
    each = topologies.pods_of(job) if job.kind == "TrainJob" or place is None else place.job.at_once
    if not count or each <= count or (place is not None and topologies.sees_others(place.container)):
        return
    for name in VARIABLES:
        value = world.launch.env.get(name) or ""
        if re.fullmatch(_OF_PODS, value):
            message = (
                f"each pod numbers its own {count} from 0, so that the pods from index {count} on see none; remove it"
            )
            yield warning(site.locate_option(world.launch, ""), f"{name}={value}", message, rule="core/idle-devices")


_OF_PODS = r"\$\((?:JOB_COMPLETION_INDEX|PET_NODE_RANK)\)"
_OF_PROCESSES = r"\$\((?:LOCAL_RANK)\)"


def check_others(job: Job, site: Site, topology: Topology, counts: Callable[[], bool]) -> Iterator[Finding]:
    """Tell of devices of other pods that the training sees.

    Args:
        job: the job.
        site: its command line.
        topology: what the job means.
        counts: tells whether a launch starts one process for each device that it sees.
    """
    place, count = job.container, topology.devices.count
    if place is None or count is None or topology.devices.maker not in ("", "nvidia.com"):
        return
    value, where = site.values.get(names.SHOWN_DEVICES), sites.locate_variable(job, site, names.SHOWN_DEVICES)
    own = f"the pod has {count}" if count else "the pod asks for none"
    if value is None or "$" in value or value in ("", "none", "void"):
        if count and value in ("none", "void", ""):
            message = f"shows no GPU where the container toolkit reads it, and {own}; remove it"
            yield note(where, f"{names.SHOWN_DEVICES}={value}", message, rule=_RULE)
        elif 0 < count < _WHOLE and place.container.is_privileged:
            message = f"a privileged container may see all GPUs of its machine, and {own}, so it may use others"
            inside = f"{field(job.document, place.path)}.securityContext.privileged"
            yield note(inside if job.kind == "JobSet" else _RUNTIME, True, f"{message}; remove it", rule=_RULE)
        return
    entries = [each.strip() for each in value.split(",") if each.strip()]
    shown = "all GPUs of the machine" if "all" in entries else f"GPUs {', '.join(entries[:8])} of the machine"
    surplus = "all" in entries or len(entries) != count
    message = f"shows the container {shown}, and {own}"
    cure = "remove it" if count else "remove it, and ask for nvidia.com/gpu"
    if surplus and count < _WHOLE and counts():
        message += f", so one process starts for each, on GPUs of other pods; {cure}"
        yield warning(where, f"{names.SHOWN_DEVICES}={beginning(value, 60)}", message, rule=_RULE)
    else:
        message += f", so its processes may use those of other pods; {cure}"
        yield note(where, f"{names.SHOWN_DEVICES}={beginning(value, 60)}", message, rule=_RULE)


def check_named(site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    """Note devices that a variable names and that the container, which numbers its own from 0, does not have."""
    count = topology.devices.count
    for name in sorted(VARIABLES - {names.SHOWN_DEVICES}):
        value = world.launch.env[name] if name in world.launch.env else site.values.get(name)
        beyond = [each for each in (value or "").split(",") if (quantities.whole(each.strip()) or 0) >= (count or 0)]
        if value and count and beyond and world.devices and (world.processes or 0) <= world.devices:
            message = f"names GPU {beyond[0].strip()}, and the pod has {count}, numbered from 0; remove it"
            where = site.locate_option(world.launch, "") if name in world.launch.env else f"{site.place}.env[{name}]"
            yield note(where, f"{name}={beginning(value, 60)}", message, rule=_RULE)


_RULE = "core/devices-of-others"
_RUNTIME = "spec.runtimeRef.name"
_WHOLE = 8
"""Devices of a whole machine, as a rule; then there are no others to see."""
