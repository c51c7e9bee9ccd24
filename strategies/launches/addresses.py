"""Addresses: where each launcher says that the nodes meet, and whether that is a pod of the job.

A pod gets its address when it starts, and its name from JobSet. torchrun's static store and the launchers on top of it
listen at rank 0, a store of c10d in the pod whose name or address is the endpoint's, and etcd anywhere (torch
`distributed/run.py`, `elastic/rendezvous/utils.py` _matches_machine_hostname; accelerate `utils/launch.py`;
lightning_fabric `cli.py`; mosaicml `composer/cli/launcher.py`; deepspeed `launcher/runner.py`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, beginning, error, note, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import accelerate_files, coordinators, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.written import LOOPBACK, REFERENCE, Seen, Written

__all__ = ["OPTIONS", "VARIABLES", "Place", "check", "find", "host_of", "is_number", "judge", "will_be_c10d"]


class _Meeting(NamedTuple):
    """The options by which a launcher is told where its nodes meet, by full name; "" for none.

    Attributes:
        host: the host of rank 0.
        port: the port there.
        endpoint: a host with a port, which wins.
        machines: the number of nodes; with one, the launcher leaves all to torchrun's own variables.
        hosts: a file with the hosts of all nodes.
        variables: the variable that stands for each option that is not given.
    """

    host: str = ""
    port: str = ""
    endpoint: str = ""
    machines: str = ""
    hosts: str = ""
    variables: Mapping[str, str] = {}


_TORCHRUN = _Meeting(
    "master_addr",
    "master_port",
    "rdzv_endpoint",
    variables={option: f"PET_{option.upper()}" for option in ("master_addr", "master_port", "rdzv_endpoint")},
)
_PLAIN = {"master_addr": names.MASTER_ADDR, "master_port": names.MASTER_PORT}
_ACCELERATE = _Meeting("main_process_ip", "main_process_port", machines="num_machines")
_MEETINGS: Mapping[Launcher, _Meeting] = {
    Launcher.TORCHRUN: _TORCHRUN,
    Launcher.TUNE: _TORCHRUN,
    Launcher.ACCELERATE: _ACCELERATE,
    Launcher.TRL: _ACCELERATE,
    Launcher.FABRIC: _Meeting("main_address", "main_port"),
    Launcher.COMPOSER: _Meeting("master_addr", "master_port", variables=_PLAIN),
    Launcher.DEEPSPEED: _Meeting("master_addr", "master_port", hosts="hostfile"),
    Launcher.PYTHON: _Meeting("master_addr", "master_port", variables=_PLAIN),
}
OPTIONS = frozenset(
    option for each in _MEETINGS.values() for option in (each.host, each.endpoint, each.hosts) if option
)
"""Options of all launchers that say where nodes meet."""
VARIABLES = frozenset({names.PET_RDZV_ENDPOINT, names.PET_MASTER_ADDR, names.MASTER_ADDR})
"""Variables that do."""
_ARGUMENTS = frozenset({"dist_url", "init_method", "dist_init_method", "master_addr", "master_address", "master_ip"})
"""Arguments of scripts that become the `init_method` of torch.distributed, by their usual names."""
_OUTSIDE = ("etcd", "etcd-v2")
_WITHOUT_STORES = (Launcher.FABRIC, Launcher.COMPOSER, Launcher.DEEPSPEED, Launcher.PYTHON)
_POD = r".+-(\d{1,6})-(\d{1,6})"
_COORDINATOR = "jobset.sigs.k8s.io/coordinator"
_NETWORKS = "k8s.v1.cni.cncf.io/networks"
_MOST = 64
_Report = Callable[..., Finding]


def will_be_c10d(job: Job, launch: Launch) -> bool:
    """Whether Muster will choose c10d, which assigns ranks itself; see `rendezvous.choose`."""
    annotated = job.annotation(names.RENDEZVOUS_ANNOTATION)
    if annotated is not None:
        return annotated[0] == "c10d"
    low, _, high = launch.values.get("nnodes", "").partition(":")
    return job.settings.rendezvous == "c10d" or bool(high and low != high) or "max_restarts" in launch.values


def _meeting_of(seen: Seen, launch: Launch) -> _Meeting | None:
    meeting = _MEETINGS.get(launch.launcher)
    if meeting is None or not meeting.machines:
        return meeting
    machines = _read(seen, launch, meeting.machines, {})
    if machines is None or whole(machines.text) == 1:
        return _TORCHRUN._replace(port=meeting.port)
    return meeting


def _read(seen: Seen, launch: Launch, option: str, variables: Mapping[str, str]) -> Written | None:
    """Return what a launcher reads for an option: its flag, else its file, else a variable."""
    if option in launch.values:
        return seen.setting(launch, option)
    name, settings = (accelerate_files.of_launch(launch) if launch.written else None) or ("", {})
    if option in settings:
        text = str(settings[option])
        return Written(lambda: f"{seen.site.place}.command", f"{option}: {text} in {name}", seen.expand(text))
    found = seen.variable(launch, variables[option]) if option in variables else None
    return None if found is None else Written(found.place, found.shown, seen.expand(found.text))


class Place(NamedTuple):
    """Where the nodes of a launch meet.

    Attributes:
        backend: the kind of store, as it is written.
        address: the host, or the endpoint.
        port: the port of a host; None for an endpoint.
        is_endpoint: whether the address holds the port.
    """

    backend: Written | None
    address: Written | None = None
    port: Written | None = None
    is_endpoint: bool = False

    @property
    def kind(self) -> str:
        """The kind of store, "" for that of the launcher."""
        return self.backend.text if self.backend is not None else ""

    @property
    def number(self) -> str:
        """The port as it is written, "" where the launcher takes its own."""
        written = self.address if self.is_endpoint else self.port
        return written.text.rpartition(":")[2].strip() if written is not None else ""


def find(seen: Seen, launch: Launch) -> Place:
    """Return where the nodes of a launch of the site are told to meet."""
    kept: Place | None = seen.meetings.get(id(launch))
    if kept is None:
        kept = seen.meetings[id(launch)] = _find(seen, launch)
    return kept


def _find(seen: Seen, launch: Launch) -> Place:
    meeting = _meeting_of(seen, launch)
    backend = seen.setting(launch, "rdzv_backend") if launch.launcher not in _WITHOUT_STORES else None
    if meeting is None:
        return Place(backend)
    endpoint = _read(seen, launch, meeting.endpoint, meeting.variables) if meeting.endpoint else None
    if endpoint is not None or (meeting.endpoint and backend is not None and backend.text not in ("", "static")):
        return Place(backend, endpoint, is_endpoint=True)
    host = _read(seen, launch, meeting.host, meeting.variables)
    if launch.starts_torchrun and will_be_c10d(seen.job, launch):
        return Place(backend, host)
    return Place(backend, host, _read(seen, launch, meeting.port, meeting.variables))


def check(seen: Seen, launch: Launch) -> Iterator[Finding]:
    """Judge where the nodes of a launch are told to meet."""
    if launch.launcher is Launcher.TUNE and not launch.options:
        return
    counted = launch.launcher in (Launcher.ACCELERATE, Launcher.TRL)  # what `accelerate` says of loopbacks and port 0
    place = find(seen, launch)
    address, sure = place.address, launch.certain or launch.launcher is Launcher.PYTHON
    if address is not None:
        if not (counted and "PET_" not in address.shown and re.fullmatch(LOOPBACK, address.text)):
            yield from judge(seen, address, place.kind, sure=sure, conf=launch.values.get("rdzv_conf", ""))
        host, _, number = address.text.partition(":")
        report = error if sure else warning
        if host and number.isdecimal() and not place.is_endpoint:
            message = (
                "is a host and a port, which has a variable or a flag of its own, so no name is found; remove the port"
            )
            yield report(address.field, address.shown, message, rule="core/address-with-port")
        elif place.is_endpoint and address.text.endswith(":0"):
            yield report(address.field, address.shown, _NO_PORT, rule="core/own-port")
    if place.port is not None:
        yield from _port(seen, place.port, error if launch.certain else warning, counted=counted)
    yield from _others(seen, launch)


_NO_PORT = "makes rank 0 listen to a port that the other nodes do not know; name a port, or remove it"


def _port(seen: Seen, port: Written, report: _Report, *, counted: bool) -> Iterator[Finding]:
    if whole(port.text) == 0 and not counted:
        yield report(port.field, port.shown, _NO_PORT, rule="core/own-port")
    elif seen.is_of_one_pod(port.text) or seen.is_shifted(port.text):
        message = "differs from node to node, so the nodes would never meet; use the same port on all, or remove it"
        yield report(port.field, port.shown, message, rule="core/own-port")


def _others(seen: Seen, launch: Launch) -> Iterator[Finding]:
    """Judge hosts in a file of deepspeed, and addresses among the arguments of a plain program."""
    for line in launch.written.get(launch.values.get("hostfile", ""), "").splitlines()[:_MOST]:
        for host in line.partition("#")[0].split()[:1]:
            written = Written(lambda: seen.site.locate_option(launch, "hostfile"), f"{host} in --hostfile", host)
            yield from _surely_wrong(judge(seen, written, "c10d", sure=False))
    words = launch.rest if launch.launcher is Launcher.PYTHON else ()
    for word, following in zip(words, (*words[1:], ""), strict=False):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--") and name.replace("-", "_") in _ARGUMENTS:
            text = (value if equals else following).removeprefix("tcp://")
            written = Written(lambda: f"{seen.site.place}.command", f"--{name} {text}", seen.expand(text))
            yield from _surely_wrong(judge(seen, written, "static", sure=False))


def _surely_wrong(found: Iterable[Finding]) -> Iterator[Finding]:
    """Leave out what may be meant for one node alone, or is only not known."""
    return (each for each in found if each.rule in ("core/fixed-address", "core/other-coordinator"))


def judge(seen: Seen, written: Written, kind: str, *, sure: bool, conf: str = "") -> Iterator[Finding]:
    """Judge one address.

    Args:
        seen: the job.
        written: the address, with or without a port.
        kind: the store: "" or static at rank 0, c10d at any pod of the training, another one outside of the job.
        sure: whether the launch certainly uses the address.
        conf: `--rdzv_conf`.
    """
    report: _Report = error if sure else warning
    text = written.text.strip()
    if not text or "store_type=file" in conf:
        return
    if re.fullmatch(LOOPBACK, text):
        message = (
            f"is an address of the pod itself, so each of the {seen.nodes} nodes would wait for the others in its own "
            "pod; use the address of pod 0, $(MASTER_ADDR)"
        )
        yield report(written.field, written.shown, message, rule="core/loopback")
    elif kind in _OUTSIDE:
        return
    elif seen.is_of_one_pod(text):
        message = "is another address on each node, so the nodes would never meet; remove it"
        yield report(written.field, written.shown, message, rule="core/loopback")
    elif "$" in text:
        yield from _unseen(seen, written, text, report)
    elif kind in ("", "static", "c10d"):
        yield from _host(seen, written, host_of(text), kind, hosted="is_host" in conf)


def host_of(text: str) -> str:
    """Return the host of `host:port`, `[address]:port` or an address alone."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text if text.count(":") > 1 else text.partition(":")[0]


def _unseen(seen: Seen, written: Written, text: str, report: _Report) -> Iterator[Finding]:
    """Judge an address of which a part is known only in the pod."""
    named = re.findall(REFERENCE, text)
    if names.PET_MASTER_ADDR in named and seen.job.kind == "TrainJob" and not coordinators.is_trainers(seen.job):
        message = (
            "Trainer sets PET_MASTER_ADDR to the address of a replicated job called node, without the subdomain of "
            "the runtime, and no pod has that name; use MASTER_ADDR, which Muster sets"
        )
        yield report(written.field, beginning(written.shown, 80), message, rule="core/other-coordinator")
    elif namespace := _other_namespace(seen.job, text.partition(":")[0]):
        yield _in_another(seen, written, namespace)
    elif any(name in text for name in VARIABLES) or any(_COORDINATOR in seen.field_path(each) for each in named):
        return  # Trainer, Muster and JobSet set these
    elif not named or any(each in seen.site.variables for each in named):  # `counts` tells of others
        message = "is known only in the pod, and Muster cannot see whether it is the address of a pod of this job"
        yield note(written.field, beginning(written.shown, 80), message, rule="core/unknown-address")


def _host(seen: Seen, written: Written, host: str, kind: str, *, hosted: bool) -> Iterator[Finding]:
    """Judge a host that is written out: an address, a pod, a Service or a machine."""
    job, coordinator = seen.job, coordinators.find_coordinator(seen.job)
    if is_number(host):
        yield _fixed(seen, written, host, hosted=hosted)
        return
    label, _, rest = host.rstrip(".").partition(".")
    if coordinator is None and re.fullmatch(_POD, label) and job.name is None:
        message = "is the name of a pod, and the name of the job is generated, so no name of a pod is known; remove it"
        yield warning(written.field, written.shown, message, rule="core/other-coordinator")
    if coordinator is None or coordinator.host == "localhost":
        return
    first, _, domain = coordinator.host.partition(".")
    inside = rest == domain or rest.startswith(f"{domain}.")
    if inside and (label == first or (kind == "c10d" and _trains(job, label))):
        if namespace := _other_namespace(job, host):
            yield _in_another(seen, written, namespace)
    elif re.fullmatch(_POD, label) and (inside or label.startswith((f"{rest.partition('.')[0]}-", f"{job.name}-"))):
        is_any = kind == "c10d"
        what = "the name of a pod of this training" if is_any else "the address of pod 0, at which rank 0 listens"
        message = f"is not {what} ({coordinator.host}); remove it, or write that"
        yield warning(written.field, written.shown, message, rule="core/other-coordinator")
    elif label == domain and (not rest or rest.split(".")[1:2] == ["svc"]):
        message = f"is the name of all pods of the job, so each node may find another pod; write {coordinator.host}"
        yield warning(written.field, written.shown, message, rule="core/other-coordinator")
    else:
        at = "a pod of the training" if kind == "c10d" else "pod 0, at which rank 0 listens"
        message = f"Muster cannot see whether this name leads to {at}; {coordinator.host} does"
        yield note(written.field, written.shown, message, rule="core/unknown-address")


def is_number(host: str) -> bool:
    """Whether a host is an address of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _fixed(seen: Seen, written: Written, host: str, *, hosted: bool) -> Finding:
    """Judge an address of IPv4 or IPv6, which is a machine's on the network of machines, and nobody's in a pod network.

    Annotations can give a pod a network of its own, or an address; a store that no pod hosts may be outside of the job.
    """
    coordinator = coordinators.find_coordinator(seen.job)
    cure = f"write the name of pod 0, {coordinator.host if coordinator is not None else '$(MASTER_ADDR)'}"
    for place in seen.job.world:
        found = templates.find_template(seen.job, place.job_path)
        annotations = found.annotations if found is not None else {}
        if place.pod.host_network or hosted or _NETWORKS in annotations or host in str(annotations):
            message = f"is a fixed address, and Muster cannot see whether a node of the job starts there; {cure}"
            return note(written.field, written.shown, message, rule="core/fixed-address")
    message = f"is a fixed address, and pods get theirs when they start, so no node is known to have this one; {cure}"
    return warning(written.field, written.shown, message, rule="core/fixed-address")


def _trains(job: Job, label: str) -> bool:
    """Whether a name is that of a pod of the training."""
    found = re.fullmatch(_POD, label)
    for place in job.world if found is not None else ():
        replicas = 1 if job.kind == "TrainJob" else place.job.jobs
        count = topologies.pods_of(job) if job.kind == "TrainJob" else place.job.at_once
        if found is not None and label == f"{job.name}-{place.job_name}-{found[1]}-{found[2]}":
            return int(found[1]) < replicas and int(found[2]) < count
    return False


def _other_namespace(job: Job, host: str) -> str:
    """Return the namespace in the full name of pod 0, `<pod>.<subdomain>.<namespace>.svc...`, where it is another."""
    coordinator = coordinators.find_coordinator(job)
    if coordinator is None or not job.namespace or not host.startswith(f"{coordinator.host}."):
        return ""
    namespace = host.removeprefix(f"{coordinator.host}.").partition(".")[0]
    return "" if "$" in namespace or namespace in ("", job.namespace) else namespace


def _in_another(seen: Seen, written: Written, namespace: str) -> Finding:
    message = f"is the address of a pod in namespace {namespace}, and the job is in {seen.job.namespace}; remove it"
    return warning(written.field, written.shown, message, rule="core/other-coordinator")
