"""Networks: whether the pods of a training can look up the coordinator's name, and reach each other.

A pod asks the resolver of its machine, which knows no name of a pod, where its `dnsPolicy` is Default, and where it is
ClusterFirst on the network of its machine (kubernetes v1.36.3 `pkg/kubelet/network/dns/dns.go` getPodDNSType). NCCL and
Gloo take the network interface that a variable names, and nothing of another pod can reach a loopback.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from strategies.documents import names, paths, pods
from strategies.documents.findings import Finding, error, warning
from strategies.jobs.jobs import Job
from strategies.launches import coordinators, sites, topologies
from strategies.launches.launches import Launch
from strategies.launches.sites import Site

__all__ = ["check"]

_INTERFACES = {"NCCL_SOCKET_IFNAME": "NCCL", "GLOO_SOCKET_IFNAME": "Gloo"}
_LOOPBACKS = frozenset({"lo", "lo0"})
_ADDRESS_FLAGS = ("rdzv_endpoint", "master_addr", "main_process_ip", "main_address")
_ADDRESS_ENV = (names.PET_RDZV_ENDPOINT, names.PET_MASTER_ADDR, names.MASTER_ADDR)
_SET = frozenset({names.PET_MASTER_ADDR, names.MASTER_ADDR, names.PET_RDZV_ENDPOINT})


def check(job: Job) -> Iterator[Finding]:
    """Check the network of a training with several nodes."""
    site = sites.find_site(job) if job.owner is None else None
    if site is None or topologies.pods_of(job) < 2 or topologies.read_topology(job).nodes < 2:
        return
    if _asks_for_the_coordinator(job, site):
        for place in job.world:
            yield from _resolver(job, place)
    for name in _INTERFACES:
        yield from _interface(job, site, name)


def _resolver(job: Job, place: pods.Place) -> Iterator[Finding]:
    spec = place.pod_spec
    policy, config = spec.get("dnsPolicy") or "ClusterFirst", spec.get("dnsConfig") or {}
    if policy == "None":
        member, report, why = (
            "dnsPolicy",
            warning,
            "the pods ask only the resolvers of dnsConfig, without a search domain",
        )
        unknown = not config.get("searches")
    else:
        own = policy == "Default" or (policy == "ClusterFirst" and spec.get("hostNetwork") is True)
        member, report = "hostNetwork" if policy != "Default" else "dnsPolicy", error
        why = "the pods ask the resolver of their machine"
        unknown = own and not config.get("nameservers")
    if not unknown:
        return
    cure = "ClusterFirstWithHostNet" if spec.get("hostNetwork") is True else "ClusterFirst"
    message = f"{why}, which does not know the coordinator's name, so the nodes would never meet; set dnsPolicy: {cure}"
    where = paths.field(job.document, (*place.job_path, "template", "spec", "template", "spec"))
    if job.kind == "JobSet" or job.runtime is None:
        yield report(f"{where}.{member}", spec.get(member), message, rule="core/resolver")
    else:
        message = f"in the pods of this runtime, {member} is {spec.get(member)!r}: {message}"
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


def _interface(job: Job, site: Site, name: str) -> Iterator[Finding]:
    """Report a loopback as the interface of NCCL or Gloo, where the launch certainly uses it."""
    on_cpu = topologies.read_topology(job).on_cpu
    if name == "NCCL_SOCKET_IFNAME" and on_cpu:
        return  # NCCL connects GPUs
    launches: list[Launch | None] = [*site.reading.launches] or [None]
    for launch in itertools.islice(launches, 1):
        value, place = _value(job, site, launch, name)
        if _is_loopback(value):
            sure = (on_cpu or name == "NCCL_SOCKET_IFNAME") and launch is not None and launch.certain
            message = (
                f"is the loopback of each pod, on which {_INTERFACES[name]} reaches no other node; name the interface "
                "of the pod network, such as eth0, or remove it"
            )
            yield (error if sure else warning)(place, f"{name}={value}", message, rule="core/interface")


def _value(job: Job, site: Site, launch: Launch | None, name: str) -> tuple[str, str]:
    if launch is not None and name in launch.env:
        return launch.env[name] or "", f"{site.place}.command"
    entry: Mapping[str, Any] = next((each for each in reversed(site.env) if each.get("name") == name), {})
    own = {str(each.get("name")) for each in job.trainer.get("env") or ()} if job.kind == "TrainJob" else {name}
    place = "spec.runtimeRef.name"
    if name in own:
        place = f"spec.trainer.env[{name}]" if job.kind == "TrainJob" else f"{site.place}.env[{name}]"
    return str(entry.get("value") or ""), place


def _is_loopback(value: str) -> bool:
    """Whether a list of interfaces holds loopbacks alone; `^` excludes what it names, `=` asks for the whole name."""
    parts = [each.strip() for each in value.strip().removeprefix("=").split(",")]
    return not value.strip().startswith("^") and bool(parts) and set(parts) <= _LOOPBACKS
