"""Meetings: whether the nodes of a job can find each other, by the addresses, ranks and env that the job itself writes.

Trainer and Muster set all that a launch needs; what a job writes beside that wins, and is judged here, where its author
reads it. Each launcher reads other variables: torchrun its flags and PET_*, a plain program MASTER_ADDR, RANK and
WORLD_SIZE (torch `torch/distributed/run.py`, `rendezvous.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from muster.strategies.documents import names
from muster.strategies.documents.findings import OPEN, Finding, beginning, error, note, warning
from muster.strategies.documents.model import Container
from muster.strategies.documents.paths import field
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import addresses, coordinators, ranks, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.launches.written import LOOPBACK, REFERENCE, Seen, Written

__all__ = ["check_meetings"]

_COPIED = r"\$\(\( ?\$?\{?\w{1,60}\}? ?\)\)"
_BACKENDS = ("", "c10d", "static", "etcd", "etcd-v2")
"""What torch registers (2.13 `torch/distributed/elastic/rendezvous/registry.py`); a package may register others."""
_READ_BY_PROGRAM = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK")
_READ_BY_TORCHRUN = ("PET_RDZV_ENDPOINT", "PET_NODE_RANK", "PET_NNODES", "PET_STANDALONE", "PET_MASTER_ADDR")


def check_meetings(job: Job) -> Iterator[Finding]:
    """Check what a job of several nodes writes about its rendezvous; each launch is judged by what it reads."""
    if job.owner is not None or topologies.pods_of(job) < 2:
        return
    site, place, nodes = sites.find_site(job), job.container, topologies.read_topology(job).nodes
    if site is None or place is None or nodes < 2:
        return
    if job.kind == "TrainJob" and not (job.runtime is not None and job.runtime.is_torch):
        return
    seen = Seen(job, site, place, nodes)
    reading = site.reading
    for launch in reading.launches:
        yield from _launch(seen, launch)
    if reading.unread or not reading.launches:
        yield from _unread(seen)
    if not job.is_untouched:
        yield from _from_elsewhere(seen)


def _launch(seen: Seen, launch: Launch) -> Iterator[Finding]:
    yield from addresses.check(seen, launch)
    if launch.launcher is Launcher.TORCHRUN or (launch.launcher is Launcher.TUNE and launch.options):
        yield from _torchrun(seen, launch)
        yield from _probes(seen, launch)
    elif launch.launcher in (Launcher.ACCELERATE, Launcher.TRL):
        yield from _accelerate(seen, launch)
    elif launch.launcher is Launcher.PYTHON:
        yield from _program(seen, launch)
    if launch.launcher in _WITH_IDS:
        yield from _identity(seen, launch)
    if launch.certain:
        yield from _read_rank(seen, launch)
    for name, value, message in _left_as_written(seen.job, seen.site, launch) if "$(" in seen.texts else ():
        report = error if launch.launcher is Launcher.TORCHRUN and launch.certain else warning
        yield report(seen.where(name), value, message, rule="core/unset-variable")


def _torchrun(seen: Seen, launch: Launch) -> Iterator[Finding]:
    report = error if launch.certain else warning
    meeting = addresses.find(seen, launch)
    backend, kind = meeting.backend, meeting.kind
    if backend is not None and kind not in _BACKENDS and "$" not in kind:
        known = " or ".join(_BACKENDS[1:])
        message = f"is not a rendezvous of torch, and torchrun stops unless the image brings it; use {known}"
        yield warning(backend.field, backend.shown, message, rule="core/launch")
    static = kind in ("", "static") and not meeting.is_endpoint and not addresses.will_be_c10d(seen.job, launch)
    yield from _rank(seen, launch, kind, report, numbered=static)
    yield from _own_address(seen, launch, kind, report)
    if kind not in ("", "static", "c10d") and meeting.address is None:
        message = f"needs --rdzv_endpoint, the address of the {kind} store; add it, or use c10d"
        yield report(backend.field if backend else "", f"--rdzv_backend {kind}", message, rule="core/endpoint")


_WITH_IDS = (Launcher.TORCHRUN, Launcher.TUNE, Launcher.ACCELERATE, Launcher.TRL)


def _identity(seen: Seen, launch: Launch) -> Iterator[Finding]:
    """Judge the id by which torchrun finds the other nodes of its training, among all that use a store of etcd."""
    meeting, identity = addresses.find(seen, launch), seen.setting(launch, "rdzv_id")
    backend = meeting.backend if meeting.address is not None and meeting.kind.startswith("etcd") else None
    if identity is not None and seen.is_of_one_pod(identity.text):
        message = "differs from node to node, so the nodes would never meet; use the same value on all, or remove it"
        report = error if launch.certain else warning
        yield report(identity.field, identity.shown, message, rule="core/rdzv-id")
    elif backend is not None and _is_none(seen, launch, identity):
        message = (
            "keeps all trainings of this etcd under the id none, so the nodes of several would meet each other; add "
            "an id of the job, --rdzv-id or PET_RDZV_ID"
        )
        yield warning(backend.field, backend.shown, message, rule="core/rdzv-id")


def _is_none(seen: Seen, launch: Launch, identity: Written | None) -> bool:
    named = identity.text if identity is not None else seen.reference(launch, names.PET_RDZV_ID)
    return named in ("", "none") and not seen.place.container.env_from


def _rank(
    seen: Seen, launch: Launch, kind: str, report: Callable[..., Finding], *, numbered: bool
) -> Iterator[Finding]:
    """Judge the rank that torchrun reads; `numbered` where the nodes are told apart by it and nothing else."""
    rank = seen.setting(launch, "node_rank")
    if rank is not None and seen.is_a_name(rank.text):
        message = "is a name or an address of the pod and no number, so torchrun would not start; use $(PET_NODE_RANK)"
        yield report(rank.field, rank.shown, message, rule="core/named-rank")
    # In a branch of a shell, each node may take its own.
    if kind in ("", "static") and not addresses.will_be_c10d(seen.job, launch) and rank is not None and launch.certain:
        assumed = "${" in launch.values.get("node_rank", "")
        yield from _fixed_rank(seen, rank, warning if assumed else report)
    if rank is not None and launch.certain and numbered and (low := seen.is_shifted(rank.text)):
        message = f"gives the ranks from {low} on, and the nodes wait for rank 0; use the index itself"
        yield report(rank.field, rank.shown, message, rule="core/fixed-rank")
    elif rank is not None and "$((" in rank.text and not re.search(_COPIED, rank.text):
        message = f"is computed in the shell; whether each node gets its own rank, from 0 on, is {OPEN}"
        yield note(rank.field, rank.shown, message, rule="core/unknown-world")


def _probes(seen: Seen, launch: Launch) -> Iterator[Finding]:
    """Report probes that ask each node for the port at which the first alone listens."""
    own = seen.place.container
    if own.liveness_probe is None and own.startup_probe is None:
        return
    text = addresses.find(seen, launch).number
    number = whole(text) if text else coordinators.find_port(seen.job)
    for member, kind in _probes_of(own, number) if number else ():
        message = (
            f"asks each node for port {number}, at which the first of the {seen.nodes} nodes alone listens, so the "
            "kubelet ends the others; remove it, or ask for what each node has"
        )
        field_of = f"{seen.site.place}.{member}.{kind}" if seen.job.kind == "JobSet" else "spec.runtimeRef.name"
        yield warning(field_of, None, message, rule="core/meeting-probe")


def _probes_of(container: Container, port: int) -> Iterator[tuple[str, str]]:
    """Yield the member and the kind of each probe of a container that asks a port, and ends the container without it.

    Args:
        container: of the training.
        port: at which the nodes meet.
    """
    for member, probe in (("livenessProbe", container.liveness_probe), ("startupProbe", container.startup_probe)):
        asking = (("tcpSocket", probe.tcp_socket), ("httpGet", probe.http_get)) if probe else ()
        for kind, asked in asking:
            if asked is not None and not asked.host and _number(asked.port, container) == port:
                yield member, kind


def _number(port: int | str, container: Container) -> int | None:
    """Return the number of a port, which a probe may name (kubelet `prober.go` ResolveContainerPort)."""
    if isinstance(port, int):
        return port
    named = next((each.container_port for each in container.ports if each.name == port), None)
    return named or whole(port)


def _own_address(seen: Seen, launch: Launch, kind: str, report: Callable[..., Finding]) -> Iterator[Finding]:
    """Report a loopback that the first node gives to the others (torch `elastic/rendezvous/api.py`, build)."""
    own = seen.setting(launch, "local_addr")
    if own is not None and kind == "c10d" and re.fullmatch(LOOPBACK, own.text):
        message = "is what the first node tells the others as its address, so they never meet; remove it"
        yield report(own.field, own.shown, message, rule="core/loopback")


def _accelerate(seen: Seen, launch: Launch) -> Iterator[Finding]:
    """Judge what a shell does to PET_NODE_RANK, which accelerate hands to torchrun where no flag names the machine."""
    rank = seen.variable(launch, names.PET_NODE_RANK) if names.PET_NODE_RANK in launch.env else None
    if rank is not None and "machine_rank" not in launch.values and launch.certain:
        yield from _fixed_rank(seen, rank, error)
    shifted = seen.is_shifted(launch.values.get("machine_rank", ""))
    if (
        shifted
        and whole(launch.values.get("num_machines", "1")) != 1
        and launch.values.get("rdzv_backend", "static") == "static"
    ):
        message = f"gives the ranks from {shifted} on, and the machines wait for rank 0; use the index itself"
        shown, report = f"--machine_rank {launch.values['machine_rank']}", error if launch.certain else warning
        place = seen.site.locate_option(launch, "machine_rank")
        yield report(place, beginning(shown, 80), message, rule="core/fixed-rank")


def _fixed_rank(seen: Seen, written: Written, report: Callable[..., Finding]) -> Iterator[Finding]:
    if (
        (whole(written.text) is not None or written.is_unset)
        and topologies.pods_of(seen.job) > 1
        and ranks.are_shared(seen.job)
    ):
        message = (
            f"is the same on all {seen.nodes} nodes, and each needs a rank of its own; remove it, and each node's "
            "index is used"
        )
        yield report(written.field, written.shown, message, rule="core/fixed-rank")


def _read_rank(seen: Seen, launch: Launch) -> Iterator[Finding]:
    """Report a rank that is read from a field which several nodes share."""
    if launch.starts_torchrun and _numbers_itself(seen, launch):
        return
    spanned = whole(launch.values.get("nnodes", launch.values.get("num_machines", "")))
    if spanned is not None and spanned < seen.nodes:
        return  # several trainings, each with ranks of its own; the check of counts says so
    options = [name for name in ("node_rank", "machine_rank") if name in launch.values]
    variables = () if options else _RANKS_OF.get(launch.launcher, ())
    places = [(f"--{name} {launch.values[name]}", launch.values[name], name) for name in options]
    texts = [(shown, text, partial(seen.site.locate_option, launch, name)) for shown, text, name in places]
    texts += [
        (f"{name}={text}", text, partial(seen.where, name))
        for name in variables
        if (text := seen.reference(launch, name))
    ]
    for shown, text, place in texts:
        clash = ranks.find_clash(seen.job, seen.source(text))
        if clash:
            cure = "remove it, and each node's index is used"
            if ranks.find_rank(seen.job) is None:
                cure = f"remove it, and use the annotation {names.RENDEZVOUS_ANNOTATION}: c10d"
            message = f"{clash}, so several nodes would have one rank; {cure}"
            report = warning if launch.launcher is Launcher.PYTHON else error
            yield report(place(), beginning(shown, 80), message, rule="core/fixed-rank")
        elif first := ranks.find_start(seen.job, seen.source(text)):
            message = (
                f"counts the Jobs of other parts too, so the ranks begin at {first}, and no node has rank 0; "
                "remove it, and each node's index is used"
            )
            yield warning(place(), beginning(shown, 80), message, rule="core/fixed-rank")


_RANKS_OF = {
    Launcher.TORCHRUN: (names.PET_NODE_RANK,),
    Launcher.TUNE: (names.PET_NODE_RANK,),
    Launcher.PYTHON: ("RANK", "NODE_RANK"),
    Launcher.COMPOSER: ("NODE_RANK",),
}
"""The variables from which a launch without a flag takes the rank of its node."""


def _numbers_itself(seen: Seen, launch: Launch) -> bool:
    backend = seen.setting(launch, "rdzv_backend")
    return addresses.will_be_c10d(seen.job, launch) if backend is None else backend.text not in ("", "static")


def _program(seen: Seen, launch: Launch) -> Iterator[Finding]:
    for name in ("RANK", "NODE_RANK"):
        rank = seen.variable(launch, name)
        if rank is not None:
            yield from _fixed_rank(seen, rank, error)
            yield from _shifted(seen, rank)
    size = seen.variable(launch, "WORLD_SIZE")
    topology = topologies.read_topology(seen.job)
    number = whole(size.text) if size is not None else None
    if size is not None and number is not None and topology.processes == 1 and number != seen.nodes:
        effect = "would wait for more" if number > seen.nodes else "would leave the others out"
        message = f"is not the number of nodes, {seen.nodes}, so the ranks {effect}; remove it, and Muster sets it"
        yield error(size.field, size.shown, message, rule="core/world-size")


def _shifted(seen: Seen, rank: Written) -> Iterator[Finding]:
    """Report ranks of plain programs that begin above 0 (torch `distributed/rendezvous.py`, env://)."""
    if low := seen.is_shifted(rank.text):
        message = f"gives the ranks from {low} on, and the processes wait for rank 0; use the index itself"
        yield error(rank.field, rank.shown, message, rule="core/fixed-rank")


def _unread(seen: Seen) -> Iterator[Finding]:
    """Warn where the launch cannot be read: an address or a rank of the job is then probably what it uses."""
    for name in (names.MASTER_ADDR, names.PET_RDZV_ENDPOINT, names.PET_MASTER_ADDR):
        written = seen.variable(None, name)
        if written is not None:
            yield from addresses.judge(seen, written, "c10d", sure=False)
    for name in ("RANK", "NODE_RANK", names.PET_NODE_RANK):
        written = seen.variable(None, name)
        if written is not None:
            yield from _fixed_rank(seen, written, warning)


def _from_elsewhere(seen: Seen) -> Iterator[Finding]:
    """Note env that comes whole from a ConfigMap: a name in it may be one that decides the meeting."""
    base = f"{field(seen.job.document, seen.place.path)}.envFrom" if seen.job.kind == "JobSet" else ""
    for index, source in enumerate(seen.place.container.env_from):
        named = source.config_map_ref.name if source.config_map_ref else ""
        if not named or not any(name.startswith(source.prefix) for name in (*_READ_BY_PROGRAM, *_READ_BY_TORCHRUN)):
            continue
        message = (
            f"Muster cannot see which variables ConfigMap {named} holds: MASTER_ADDR, MASTER_PORT and PET_* of Trainer "
            "and Muster win over it, and RANK, WORLD_SIZE or NODE_RANK in it would win over the launcher's"
        )
        yield note(f"{base}[{index}]" if base else "spec.runtimeRef.name", named, message, rule="core/env-from")


_READ_BY = {
    Launcher.PYTHON: (names.MASTER_ADDR, names.MASTER_PORT, "RANK", "WORLD_SIZE", "NODE_RANK"),
    Launcher.TORCHRUN: (*sorted(names.RESERVED_ENV), "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID"),
}
_WRITTEN_LATER = names.RESERVED_ENV | {names.MASTER_ADDR, names.MASTER_PORT}


class _Left(NamedTuple):
    """A variable that is not expanded: its name, its value, and why, as a clause with a cure."""

    name: str
    value: str
    message: str


def _left_as_written(job: Job, site: Site, launch: Launch) -> Iterator[_Left]:
    """Yield the variables that a launch reads, and whose value stays as it is written.

    Kubernetes expands $(NAME) in the value of a variable only where NAME stands before it in the list, and leaves the
    others as they are written (kubernetes `pkg/kubelet/kubelet_pods.go` makeEnvironmentVariables). Trainer writes
    PET_* behind the variables of the job and of its runtime (`plugins/torch/torch.go`), and Muster behind all.
    """
    read = () if launch.cleared else _READ_BY.get(launch.launcher, ())
    named = [name for name in read if "$(" in (site.values.get(name) or "") and name not in launch.env]
    if not named or (job.container is not None and job.container.container.env_from):
        return
    first: dict[str, int] = {}
    for index, entry in enumerate(site.env):
        first.setdefault(entry.name, index)
    of_trainer = job.kind == "TrainJob"
    for name in named:
        if of_trainer and name in names.RESERVED_ENV:
            continue  # Trainer writes its own over it
        text = site.values[name] or ""
        for inner in re.findall(REFERENCE, text):
            behind = first.get(inner, len(site.env) if of_trainer and inner in _WRITTEN_LATER else -1) > first[name]
            if behind and f"$$({inner})" not in text:
                where = "is written behind it" if inner not in first else f"stands behind {name} in the list"
                message = (
                    f"names {inner}, which {where}, so Kubernetes leaves $({inner}) as text; remove the variable, or "
                    f"write $({inner}) into the command, where all are known"
                )
                yield _Left(name, beginning(text, 80), message)
                break
