"""Ports: what a training opens on the network of its machine, where every other job of the machine would open it too.

torchrun's first node listens at PET_MASTER_PORT, 29500 unless the job says otherwise, and ends with `address already in
use` where somebody has the port (torch `distributed/run.py`; accelerate `utils/launch.py` is_port_in_use).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, note
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import addresses, coordinators, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.written import Seen

__all__ = ["Opened", "check", "opened"]

_DEFAULTS = {Launcher.FABRIC: 29_400}
_OPENING = frozenset({Launcher.TORCHRUN, Launcher.TUNE, Launcher.ACCELERATE, Launcher.TRL, Launcher.FABRIC})
_MEETING = _OPENING | {Launcher.COMPOSER, Launcher.DEEPSPEED, Launcher.PYTHON}


class Opened(NamedTuple):
    """A port that the first pod of a training opens on its machine.

    Attributes:
        port: its number.
        field: where the network of the machine is asked for.
        value: what stands there.
        spec: the pod spec, with the patches of a TrainJob.
        devices: devices of one pod; None where that is not known.
    """

    port: int
    field: str
    value: object
    spec: Mapping[str, Any]
    devices: int | None


def check(job: Job) -> Iterator[Finding]:
    """Tell of the usual port on the network of the machine, which another job may have."""
    found = opened(job) if job.owner is None else None
    if found is not None and found.port in (names.DEFAULT_PORT, *_DEFAULTS.values()):
        message = (
            f"the first pod opens port {found.port} of its machine, and Muster cannot see whether another job on that "
            "machine opens it too; write a port of its own for each job, by a flag of "
            "the launcher, or by PET_MASTER_PORT and MASTER_PORT"
        )
        yield note(found.field, found.value, message, rule="core/host-port")


def opened(job: Job) -> Opened | None:
    """Return the port that a training opens on the network of its machine; None where it opens none, or is unseen."""
    place = job.container if not job.part else None
    if place is None or not place.pod.host_network:
        return None
    site, template = sites.find_site(job), templates.find_template(job, place.job_path)
    launch = site.reading.training if site is not None else None
    if site is None or launch is None or template is None:
        return None
    topology = topologies.read_topology(job)
    number = _port(Seen(job, site, place, topology.nodes), launch, topologies.pods_of(job))
    if number is None:
        return None
    of_set = job.kind == "JobSet" or job.runtime is None
    field = template.field("hostNetwork") if of_set else "spec.runtimeRef.name"
    value = True if of_set or job.runtime is None else job.runtime.name
    return Opened(number, field, value, template.raw_spec, topology.devices.count)


def _port(seen: Seen, launch: Launch, nodes: int) -> int | None:
    if launch.launcher not in (_MEETING if nodes > 1 else _OPENING) or "standalone" in launch.values:
        return None
    where, default = addresses.find(seen, launch), _DEFAULTS.get(launch.launcher)
    if where.kind not in ("", "static", "c10d"):
        return None  # etcd says where to meet, and the first worker takes any port
    if where.number:
        return whole(where.number) or (None if "PORT" not in where.number else coordinators.find_port(seen.job))
    return default or coordinators.find_port(seen.job)
