"""Networks: whether the pods of a training can look up the coordinator's name, and reach each other.

A pod asks the resolver of its machine, which knows no name of a pod, where its `dnsPolicy` is Default, and where it is
ClusterFirst on the network of its machine (kubernetes v1.36.3 `pkg/kubelet/network/dns/dns.go` getPodDNSType). NCCL and
Gloo take the network interface that a variable names, and nothing of another pod can reach a loopback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from strategies.documents import names, paths, pods
from strategies.documents.findings import Finding, error, quoted, warning
from strategies.jobs.jobs import Job
from strategies.launches import coordinators, sites, topologies
from strategies.launches.sites import Site

__all__ = ["check"]

_NCCL = "NCCL_SOCKET_IFNAME"
_LIBRARIES = {_NCCL: "NCCL", "GLOO_SOCKET_IFNAME": "Gloo"}
_SEVERAL = 2
_LOOPBACKS = frozenset({"lo", "lo0"})
_ADDRESS_FLAGS = ("rdzv_endpoint", "master_addr", "main_process_ip", "main_address")
_ADDRESS_ENV = (names.PET_RDZV_ENDPOINT, names.PET_MASTER_ADDR, names.MASTER_ADDR)
_SET = frozenset({names.PET_MASTER_ADDR, names.MASTER_ADDR, names.PET_RDZV_ENDPOINT})


def check(job: Job) -> Iterator[Finding]:
    """Check the network of a training with several nodes."""
    if job.owner is not None or topologies.pods_of(job) < _SEVERAL:
        return
    site = sites.find_site(job)
    if site is None or topologies.read_topology(job).nodes < _SEVERAL:
        return
    blind = [finding for place in job.world for finding in _resolver(job, place)]
    if blind and _asks_for_the_coordinator(job, site):
        yield from blind
    yield from _interfaces(job, site)
    yield from _root(job, site)


def _resolver(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Yield what is wrong with the resolver of a pod that asks for the name of another."""
    spec = place.pod_spec
    policy, on_host = spec.get("dnsPolicy") or "ClusterFirst", spec.get("hostNetwork") is True
    if policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not on_host):
        return
    config = spec["dnsConfig"] if isinstance(spec.get("dnsConfig"), dict) else {}
    member, report, why = "dnsPolicy", error, "the pods ask the resolver of their machine"
    if policy == "None":
        report, why = warning, "the pods ask only the resolvers of dnsConfig, without a search domain"
    elif policy == "ClusterFirst":
        member = "hostNetwork"
    if config.get("searches" if policy == "None" else "nameservers"):
        return
    cure = "ClusterFirstWithHostNet" if on_host else "ClusterFirst"
    message = f"{why}, which does not know the coordinator's name, so the nodes would never meet; set dnsPolicy: {cure}"
    if job.kind == "JobSet" or job.runtime is None:
        where = paths.field(job.document, (*place.job_path, "template", "spec", "template", "spec", member))
        yield report(where, spec.get(member), message, rule="core/resolver")
    else:
        message = f"in the pods of this runtime, {member} is {quoted(spec.get(member))}: {message}"
        yield report("spec.runtimeRef.name", job.runtime.name, message, rule="core/resolver")


def _asks_for_the_coordinator(job: Job, site: Site) -> bool:
    """Whether the nodes meet at the name that JobSet gives to pod 0, as far as the job says it."""
    coordinator = coordinators.find_coordinator(job)
    if coordinator is None:
        return True  # the name is generated, and the addresses will be its own
    written = [
        launch.values[flag] for launch in site.reading.launches for flag in _ADDRESS_FLAGS if flag in launch.values
    ]
    named = {str(entry.get("name")): str(entry.get("value") or "") for entry in site.env}
    written += [named[name] for name in _ADDRESS_ENV if named.get(name)]
    return all(coordinator.host in text or any(name in text for name in _SET) for text in written)


def _interfaces(job: Job, site: Site) -> Iterator[Finding]:
    """Report a loopback as the interface of NCCL or Gloo, where the launch certainly uses it."""
    launch, env = next(iter(site.reading.launches), None), site.env if _LIBRARIES.keys() & site.variables.keys() else ()
    named = {entry["name"]: entry.get("value") or "" for entry in env if entry.get("name") in _LIBRARIES}
    exported = {name: launch.env[name] or "" for name in _LIBRARIES if name in launch.env} if launch else {}
    for name, value in (named | exported).items():
        on_cpu = topologies.read_topology(job).on_cpu
        if not _is_loopback(value) or (on_cpu and name == _NCCL):
            continue  # NCCL connects GPUs
        report = error if (on_cpu or name == _NCCL) and launch is not None and launch.certain else warning
        message = (
            f"is the loopback of each pod, on which {_LIBRARIES[name]} reaches no other node; name an interface of the "
            "pod network, such as eth0, or remove it"
        )
        place = f"{site.place}.command" if name in exported else _field(job, site, name)
        yield report(place, f"{name}={value}", message, rule="core/interface")


def _root(job: Job, site: Site) -> Iterator[Finding]:
    """Report a loopback as the address of NCCL's first rank, which all ranks then look for in their own pod.

    Source: NCCL user guide, NCCL_COMM_ID: with it, no address is made or sent.
    """
    if _COMM not in site.variables:
        return
    value = next((str(entry.get("value") or "") for entry in site.env if entry.get("name") == _COMM), "")
    if _LOCAL.fullmatch(value) and not topologies.read_topology(job).on_cpu:
        message = "is the loopback of each pod, where the ranks of other nodes find no first rank; remove it"
        yield warning(_field(job, site, _COMM), f"{_COMM}={value}", message, rule="core/interface")


_COMM = "NCCL_COMM_ID"
_LOCAL = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+")


def _field(job: Job, site: Site, name: str) -> str:
    """Return where the variable is written: on the job, else on its runtime."""
    if job.kind == "TrainJob" and all(entry.get("name") != name for entry in job.trainer.get("env") or ()):
        return "spec.runtimeRef.name"
    return f"{site.place}.env[{name}]"


def _is_loopback(value: str) -> bool:
    """Whether a list of interfaces holds loopbacks alone; `^` excludes what it names, `=` asks for the whole name."""
    parts = [each.strip() for each in value.strip().removeprefix("=").split(",")]
    return not value.strip().startswith("^") and bool(parts) and set(parts) <= _LOOPBACKS
