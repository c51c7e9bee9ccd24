"""Shared memory: processes of one node that exchange data through /dev/shm, of which a container has 64 MiB by itself.

NCCL puts its buffers between GPUs without a direct path there, and a DataLoader what its workers have loaded; both stop
where it is full (NCCL user guide, Troubleshooting, Shared memory; torch `torch/utils/data/_utils/worker.py`). The
64 MiB are the default of containerd and CRI-O, which a platform may change, so this is a note.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from muster.strategies.documents import pods, quantities
from muster.strategies.documents.findings import Finding, note
from muster.strategies.documents.paths import field
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import topologies, worlds
from muster.strategies.launches.launches import Launch, Launcher

__all__ = ["check", "judge", "room"]

_PLACE = "/dev/shm"  # noqa: S108  # the folder that NCCL and torch themselves use
_ITSELF = 64 * 1024**2
_WORKERS = frozenset({"dataloader_num_workers", "num_workers", "workers", "num_data_workers"})
_OF_NCCL = frozenset({"", "nvidia.com", "amd.com"})
"""Makers of devices between which NCCL or RCCL hands on data; "" for those of claims."""


def check(job: Job) -> Iterator[Finding]:
    """Note a job of which one pod runs several processes with GPUs, or loads data by workers, in so little memory."""
    for view in job.views if job.owner is None and not job.part else ():
        topology = topologies.read_topology(view)
        if topology.on_cpu or topology.devices.maker not in _OF_NCCL:
            continue
        every = worlds.worlds_of(view)
        processes = max((world.processes or 0 for world in every), default=0)
        workers = any(_loads(world.launch) for world in every)
        found = list(judge(view, min(processes, topology.devices.count or processes), workers=workers))
        if found:
            yield from found
            return


def judge(job: Job, processes: int, *, workers: bool = False) -> Iterator[Finding]:
    """Note the same of one container that is known to run so many processes with a GPU each."""
    place = job.container
    if place is None or not (processes > 1 or workers) or (room(place) or _ITSELF + 1) > _ITSELF:
        return
    who = f"{processes} processes of each pod exchange data" if processes > 1 else "workers hand on loaded data"
    message = (
        f"{who} through {_PLACE}, which has 64 MiB unless the machines are configured otherwise, and NCCL and "
        "DataLoaders stop when it is full; mount a volume with emptyDir: {medium: Memory} there"
    )
    if job.kind == "JobSet":
        yield note(f"{field(job.document, place.path)}.volumeMounts", None, message, rule="core/shared-memory")
    else:
        message += ", in the runtime or by spec.runtimePatches"
        yield note("spec.runtimeRef.name", None, message, rule="core/shared-memory")


def _loads(launch: Launch) -> bool:
    """Whether the arguments of the program ask for workers of a DataLoader."""
    words = launch.rest if launch.launcher is not Launcher.VLLM else ()
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        name, equals, value = word.lstrip("-").partition("=")
        if (
            word.startswith("--")
            and name.replace("-", "_") in _WORKERS
            and quantities.whole(value if equals else following)
        ):
            return True
    return False


def room(place: pods.Place) -> int | None:
    """Return the bytes that fit into /dev/shm of a container; None for those of a machine, or where not known."""
    mount = pods.holding(_PLACE, place.container.volume_mounts)
    if mount is None:
        return None if place.pod.host_ipc else _ITSELF
    folder = pods.volume(mount, place.pod.volumes).empty_dir
    size = quantities.count(folder.size_limit) if folder is not None else 0
    return size if size > 0 else None
