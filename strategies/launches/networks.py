"""Networks: whether the pods of a training can look up the coordinator's name, and reach each other.

A pod asks the resolver of its machine, which knows no name of a pod, where its `dnsPolicy` is Default, and where it is
ClusterFirst on the network of its machine (kubernetes `pkg/kubelet/network/dns/dns.go` getPodDNSType). NCCL,
Gloo and others take the network interfaces that a variable names, each in a form of its own.

Ports: what a training opens on the network of its machine, where every other job of the machine would open it too.

torchrun's first node listens at PET_MASTER_PORT, 29500 unless the job says otherwise, and ends with `address already in
use` where somebody has the port (torch `distributed/run.py`; accelerate `utils/launch.py` is_port_in_use).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from muster.strategies.documents import names, paths, pods
from muster.strategies.documents.findings import Finding, error, note, quoted, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import addresses, coordinators, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.launches.written import Seen

__all__ = ["Opened", "check", "check_ports", "opened"]


_SEVERAL = 2


def check(job: Job) -> Iterator[Finding]:
    """Check the interfaces of a training, and the resolvers of one with several nodes."""
    site = sites.find_site(job) if job.owner is None else None
    if site is None:
        return
    nodes = min(topologies.pods_of(job), topologies.read_topology(job).nodes)
    yield from _interfaces(job, site, nodes)
    if nodes < _SEVERAL:
        return
    blind = [finding for place in job.world for finding in _resolver(job, place)]
    if blind and _asks_for_the_coordinator(job, site):
        yield from blind


def _resolver(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Yield what is wrong with the resolver of a pod that asks for the name of another."""
    spec = place.pod
    policy, on_host = spec.dns_policy or "ClusterFirst", spec.host_network
    if policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not on_host):
        return
    value: str | bool = policy
    member, report, why = "dnsPolicy", error, "the pods ask the resolver of their machine"
    if policy == "None":
        report, why = warning, "the pods ask only the resolvers of dnsConfig, without a search domain"
    elif policy == "ClusterFirst":
        member, value = "hostNetwork", on_host
    if spec.dns_config.searches if policy == "None" else spec.dns_config.nameservers:
        return
    cure = "ClusterFirstWithHostNet" if on_host else "ClusterFirst"
    message = f"{why}, which does not know the coordinator's name, so the nodes would never meet; set dnsPolicy: {cure}"
    if job.kind == "JobSet" or job.runtime is None:
        where = paths.field(job.document, (*place.job_path, "template", "spec", "template", "spec", member))
        yield report(where, value, message, rule="core/resolver")
    else:
        message = f"in the pods of this runtime, {member} is {quoted(value)}: {message}"
        yield report("spec.runtimeRef.name", job.runtime.name, message, rule="core/resolver")


def _asks_for_the_coordinator(job: Job, site: Site) -> bool:
    """Whether the nodes meet at the name that JobSet gives to pod 0, as far as the job says it."""
    coordinator, place = coordinators.find_coordinator(job), job.container
    if coordinator is None or place is None:
        return True  # the name is generated, and the addresses will be its own
    seen = Seen(job, site, place, topologies.pods_of(job))
    every = (addresses.find(seen, launch).address for launch in site.reading.launches)
    known = (coordinator.host, *addresses.VARIABLES)
    return all(each is None or any(name in each.text for name in known) for each in every)


class _Fault(NamedTuple):
    """Values of a variable that the library which reads it does not take, as a whole pattern.

    Attributes:
        wrong: the values.
        message: what follows, and what to do.
        several: whether a value is wrong only where several nodes train.
    """

    wrong: str
    message: str
    several: bool = False


def _interfaces(job: Job, site: Site, nodes: int) -> Iterator[Finding]:
    """Report interfaces by which nodes do not reach each other, or that a library cannot find."""
    launch = next(iter(site.reading.launches), None)
    exported = launch.env if launch is not None else {}
    found = _FAULTS.keys() & {*site.variables, *exported} if exported else _FAULTS.keys() & site.variables.keys()
    for name in sorted(found) if found else ():
        on_cpu = topologies.read_topology(job).on_cpu
        value = (exported[name] if name in exported else site.values[name]) or ""
        if "$" in value or len(value) > _LONGEST or (on_cpu and name.startswith("NCCL_")):
            continue  # NCCL connects GPUs
        for fault in _FAULTS[name]:
            if re.fullmatch(fault.wrong, value) and (nodes >= _SEVERAL or not fault.several):
                sure = fault.several and (on_cpu or name == _NCCL) and launch is not None and launch.certain
                place = f"{site.place}.command" if name in exported else sites.locate_variable(job, site, name)
                report = error if sure else warning
                yield report(place, f"{name}={value}", fault.message, rule="core/interface")
                break


_LONGEST = 256
_NCCL = "NCCL_SOCKET_IFNAME"
_LOOPBACKS = r"\s*=?\s*lo0?\s*(,\s*lo0?\s*)*"
_ALONE = (
    "is the loopback of each pod, on which {} reaches no other node; name an interface of the pod network, such as "
    "eth0, or remove it"
)
_DEVICES = r"mlx[45]|bnxt_re|irdma|hfi1_|rocep|qedr|erdma"
_TWICE = _Fault(
    r"[^,]*,(.*,)?\s*[\^=].*",
    "has ^ or = inside the list, and only the sign in front counts, for the whole list; write it once",
)
_BY_PREFIX = (
    _Fault(
        rf"(?!\^)(.*,|=)?\s*({_DEVICES}).*",
        "names an InfiniBand device, and no network interface begins so; NCCL_IB_HCA takes it, and this variable takes "
        "interfaces such as eth0",
    ),
    _TWICE,
)
_FAULTS: Mapping[str, tuple[_Fault, ...]] = {
    _NCCL: (_Fault(_LOOPBACKS, _ALONE.format("NCCL"), several=True), *_BY_PREFIX),
    "HCCL_SOCKET_IFNAME": _BY_PREFIX,
    "NCCL_IB_HCA": (
        _Fault(
            r"(?!\^)(.*,|=)?\s*(eth\d|en[ospxP]\d|bond\d|lo\b|ib\d+\b).*",
            "names a network interface, and this variable takes InfiniBand devices such as mlx5_0; NCCL would use none "
            "of them; NCCL_SOCKET_IFNAME takes interfaces",
        ),
        _TWICE,
    ),
    "NCCL_COMM_ID": (
        _Fault(
            r"(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+",
            "is the loopback of each pod, where the ranks of other nodes find no first rank; remove it",
            several=True,
        ),
    ),
    "GLOO_SOCKET_IFNAME": (
        _Fault(_LOOPBACKS, _ALONE.format("Gloo"), several=True),
        _Fault(
            r"[\s\^=].*|.*,[\s\^=].*",
            "is a form of NCCL, and Gloo takes interfaces with commas between them, without ^, = and blanks, and stops "
            "where it finds none of this name; name one, such as eth0, or remove it",
        ),
    ),
    "TP_SOCKET_IFNAME": (
        _Fault(
            r".*[\^=,\s].*",
            "is a list or a form of NCCL, and TensorPipe takes the name of one interface and ignores another value; "
            "name one, such as eth0, or remove it",
        ),
    ),
    "UCX_NET_DEVICES": (
        _Fault(
            r"(.*,)?\s*[\^=].*",
            "is a form of NCCL, and UCX takes names of devices with commas between them, or all; name them, such as "
            "mlx5_0:1, or remove it",
        ),
    ),
}
"""What each library does not take, by its variable.

NCCL: user guide, NCCL_SOCKET_IFNAME (prefixes; `^` excludes, `=` asks for the whole name), NCCL_IB_HCA, NCCL_COMM_ID;
CANN documentation, HCCL_SOCKET_IFNAME; UCX `ucp_context.c` (an array of names). Gloo and TensorPipe of torch
were measured: Gloo stops with `Unable to find address for: ^lo` and takes a prefix; TensorPipe goes on without it.
"""


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


def check_ports(job: Job) -> Iterator[Finding]:
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
