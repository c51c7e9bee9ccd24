"""Slots: what a command line makes of the host file that Trainer writes for a runtime of MPI.

One pod, the launcher, runs the command. The file has a line for each node, with numProcPerNode slots, and Open MPI
finds it by an environment variable (trainer `plugins/mpi/mpi.go` EnforceMLPolicy, buildHostFileConfigMap). Open
MPI starts a rank in each slot, and no more unless it is told to (mpirun(1)). Nothing else reads that variable:
deepspeed takes `--hostfile`, by default /job/hostfile, and torchrun and its like start the processes of their own pod.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from muster.strategies.documents import model, names
from muster.strategies.documents.findings import OPEN, Finding, beginning, error, note, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import launches, quotes, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.platform import devices
from muster.strategies.trainer import resources

__all__ = ["HOSTFILE", "check"]

HOSTFILE = "/etc/mpi/hostfile"
_OPEN_MPI = frozenset({"mpirun", "mpiexec", "orterun", "prterun", "mpirun.openmpi"})
_OWN_HOSTS = frozenset({"app", "rankfile"})
_PLACED = frozenset({"oversubscribe", "map_by", "npernode", "pernode"})
_PER_NODE = r"ppr:(\d{1,6}):(?:node|numa-node)\b"
_LOCAL = r"(?:localhost|127\.0\.0\.1)(?::\d+)?"
_OF_ONE_POD = frozenset(
    {Launcher.TORCHRUN, Launcher.ACCELERATE, Launcher.TRL, Launcher.TUNE, Launcher.COMPOSER, Launcher.FABRIC}
)
_JOB = "/job"


class _Hosts(Struct, frozen=True):
    """The host file: its lines, the slots of each, the nodes that the job asks for, and the GPUs of each, or 0."""

    lines: int
    slots: int
    nodes: int
    gpus: int

    @property
    def all_slots(self) -> int:
        return self.lines * self.slots


def check(job: Job) -> Iterator[Finding]:
    """Check the launches of a TrainJob whose runtime is one of MPI."""
    policy = job.runtime.policy.mpi if job.runtime is not None and job.kind == "TrainJob" else None
    site = sites.find_site(job) if policy is not None else None
    if site is None or policy is None or site.reading.unread:
        return
    hosts = _hosts(job, policy)
    if not policy.run_launcher_as_node:
        yield from _misplaced(job, hosts)
    for launch in site.reading.launches:
        report = error if launch.certain else warning
        if launch.launcher is Launcher.MPI:
            yield from _ranks(site, launch, hosts)
            yield from _root(job, site, launch, report)
            if launch.target.endswith(".py") and "/" not in launch.target:
                message = "is a script, and mpirun looks for a program of this name in PATH; put python before it"
                yield report(site.locate_option(launch, ""), launch.target, message, rule="core/launch")
        elif launch.launcher is Launcher.DEEPSPEED:
            yield from _deepspeed(job, site, launch, hosts, report)
        elif launch.launcher in _OF_ONE_POD and hosts.nodes > 1:
            yield from _alone(site, launch, hosts, report)
    training = site.reading.training
    if training is not None and training.launcher is Launcher.PYTHON and hosts.nodes > 1:
        message = (
            f"only the launcher's pod runs this plain program; whether it starts processes on the others of the job's "
            f"{hosts.nodes} nodes is {OPEN}; mpirun would"
        )
        yield note(site.locate_option(training, ""), quotes.launch(training), message, rule="core/nodes")


def _root(job: Job, site: Site, launch: Launch, report: Callable[..., Finding]) -> Iterator[Finding]:
    """Report an Open MPI that runs as root, which it refuses (mpirun(1), Running as root)."""
    place, program = job.container, launches.program(launch.head[0]) if launch.head else ""
    if place is None or program not in _OPEN_MPI or "allow_run_as_root" in launch.values:
        return
    allowed = {name: launch.env.get(name) or site.values.get(name) for name in _AS_ROOT}
    if place.user == 0 and any(value != "1" for value in allowed.values()):
        message = "does not run as root, and the runtime's container is root's; add --allow-run-as-root"
        yield report(site.locate_option(launch, ""), quotes.launch(launch), message, rule="core/launch")


_AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


def _hosts(job: Job, policy: model.MPIPolicy) -> _Hosts:
    nodes, named = max(topologies.pods_of(job), 1), job.trainer.num_nodes is not None
    if not policy.run_launcher_as_node:
        lines, gpus = nodes if named else _workers(job), _gpus_of_workers(job)
    else:  # the launcher is one of the nodes that the job names, and there is at least one other
        lines, gpus = max(nodes, 2) if named else _workers(job) + 1, _gpus(job)
    return _Hosts(lines, _per_node(job, policy.num_proc_per_node), nodes, gpus)


def _workers(job: Job) -> int:
    """Return the pods of the runtime's replicated job `node`, whose number a job without numNodes leaves as it is."""
    every = templates.list_templates(job)
    return sum(each.job.at_once for each in every if each.job.name == names.CONTAINER_NODE) or 1


def _ranks(site: Site, launch: Launch, hosts: _Hosts) -> Iterator[Finding]:
    """Compare the ranks of `mpirun` with the slots, the nodes and their GPUs."""
    values, program = launch.values, launches.program(launch.head[0]) if launch.head else ""
    if program not in _OPEN_MPI or _OWN_HOSTS & set(values) or values.get("hostfile", HOSTFILE) != HOSTFILE:
        return
    if "hosts" in values:
        if hosts.nodes > 1 and all(re.fullmatch(_LOCAL, each.strip()) for each in values["hosts"].split(",")):
            message = f"names the launcher's pod alone, and the job has {hosts.nodes} nodes; remove it"
            yield warning(site.locate_option(launch, "host"), values["hosts"], message, rule="core/nodes")
        return
    asked, each = whole(values.get("num_proc", "")), _each(values)
    if asked is None and ("num_proc" in values or ("map_by" in values and each is None)):
        return  # known only in the pod, or placed in a way that says nothing about their number
    if asked is not None and asked > hosts.all_slots and not _PLACED & set(values):
        message = f"the host file of Trainer has {hosts.all_slots} slots, and mpirun finds no place for the others"
        where = site.locate_option(launch, "np")
        yield warning(where, asked, f"{message}; lower it", rule="core/too-many-processes")
        return
    places = hosts.lines * each if each is not None else None
    if asked is not None and places is not None and asked > places and "oversubscribe" not in values:
        message = (
            f"there are {places} places for ranks on {hosts.lines} nodes, and mpirun stops; lower it, or raise them"
        )
        yield warning(site.locate_option(launch, "np"), asked, message, rule="core/too-many-processes")
        return
    ranks = asked if asked is not None else hosts.lines * (hosts.slots if each is None else each)
    inner = launches.parse((launch.target, *launch.rest)).launcher
    yield from _idle(site, launch, hosts, ranks, inner)
    if inner in _OF_ONE_POD - {Launcher.TRL} and ranks > hosts.lines:
        name = launches.program(launch.target)
        message = f"each of its {ranks} ranks would start a launcher of its own, {name}; start one of the two alone"
        yield warning(site.locate_option(launch, ""), quotes.launch(launch), message, rule="core/launch")


def _each(values: Mapping[str, str]) -> int | None:
    """Return the ranks of each node, None where no option says so."""
    if "pernode" in values:
        return 1
    found = re.match(_PER_NODE, values.get("map_by", ""))
    return int(found[1]) if found else whole(values.get("npernode", ""))


def _idle(site: Site, launch: Launch, hosts: _Hosts, ranks: int, inner: Launcher) -> Iterator[Finding]:
    """Report nodes without a rank, and GPUs that no rank has; a rank that starts others may use all of them."""
    option = next((name for name in ("map_by", "npernode", "num_proc") if name in launch.values), "")
    where, shown = site.locate_option(launch, _SPELLED.get(option, "")), launch.values.get(option)
    if ranks < hosts.nodes:
        message = f"{ranks} ranks for the job's {hosts.nodes} nodes leave some of them idle; start more"
        yield warning(where, shown or quotes.launch(launch), message, rule="core/nodes")
    elif inner in (Launcher.PYTHON, Launcher.OTHER) and ranks < hosts.nodes * hosts.gpus:
        idle = hosts.nodes * hosts.gpus - ranks
        message = (
            f"{ranks} ranks, and the job's {hosts.nodes} nodes have {hosts.gpus} GPUs each, so that {idle} are idle; "
            "start one rank for each GPU, or ask for fewer"
        )
        yield warning(where, shown or quotes.launch(launch), message, rule="core/idle-devices")


_SPELLED = {"map_by": "map-by", "npernode": "npernode", "num_proc": "np"}


def _deepspeed(
    job: Job, site: Site, launch: Launch, hosts: _Hosts, report: Callable[..., Finding]
) -> Iterator[Finding]:
    """Judge the hosts of `deepspeed` (0.19 `launcher/runner.py`, DLTS_HOSTFILE and parse_args)."""
    values = launch.values
    if hosts.nodes < 2:
        return
    if "no_ssh" in values:
        message = "makes each node wait to be started by hand, and only the launcher's pod runs the command; remove it"
        yield report(site.locate_option(launch, "no_ssh"), "--no_ssh", message, rule="core/nodes")
    elif "hostfile" not in values:
        if not _is_mounted(job):
            message = (
                f"reads /job/hostfile, and Trainer writes {HOSTFILE}, so that only the launcher's pod of the job's "
                f"{hosts.nodes} nodes trains; add --hostfile {HOSTFILE}"
            )
            find = warning if job.brings_image else report
            yield find(site.locate_option(launch, ""), quotes.launch(launch), message, rule="core/nodes")
    else:
        asked = whole(values.get("num_nodes", ""))
        if asked is not None and 0 < asked < hosts.nodes:
            message = f"uses {asked} of the job's {hosts.nodes} nodes, and the others are idle; remove it"
            yield warning(site.locate_option(launch, "num_nodes"), asked, message, rule="core/nodes")
        yield from _named_hosts(job, site, launch)
        used = whole(values.get("num_gpus", ""))
        if used is not None and 0 < used < hosts.gpus:
            message = f"uses {used} of the {hosts.gpus} GPUs of each node; remove it, or ask for fewer GPUs"
            yield warning(site.locate_option(launch, "num_gpus"), used, message, rule="core/idle-devices")


def _named_hosts(job: Job, site: Site, launch: Launch) -> Iterator[Finding]:
    """Report hosts of --include and --exclude that are not a line of Trainer's host file (parse_resource_filter)."""
    if job.name is None or launch.values.get("hostfile") != HOSTFILE:
        return
    known = (f"{job.name}-launcher-", f"{job.name}-{names.CONTAINER_NODE}-")
    for option in ("include", "exclude"):
        for part in launch.values.get(option, "").split("@"):
            host = part.partition(":")[0].strip()
            if host and "$" not in host and not host.startswith(known):
                message = f"names {beginning(host, 60)}, which Trainer's host file does not have, so deepspeed stops"
                where, shown = site.locate_option(launch, option), beginning(launch.values[option], 80)
                yield warning(where, shown, f"{message}; use {job.name}-node-0-0 and its like", rule="core/launch")
                break


def _is_mounted(job: Job) -> bool:
    """Whether a volume may bring the file that deepspeed reads by default."""
    mounts = job.container.container.volume_mounts if job.container is not None else ()
    return any(each.mount_path.startswith(_JOB) for each in mounts)


def _alone(site: Site, launch: Launch, hosts: _Hosts, report: Callable[..., Finding]) -> Iterator[Finding]:
    """Report a launcher that starts the processes of its own pod, where Trainer starts only one pod's command."""
    if {"deepspeed_hostfile", "mpirun_hostfile", "config_file", "accelerate_config"} & set(launch.values):
        return  # or its file may name the hosts
    name = launch.launcher.value
    message = (
        f"{name} starts the processes of its own pod, and in a runtime of MPI only the launcher's pod runs it, so the "
        f"others of the job's {hosts.nodes} nodes are idle; start it with mpirun, or use a runtime with mlPolicy.torch"
    )
    yield report(site.locate_option(launch, ""), beginning(quotes.launch(launch), 200), message, rule="core/nodes")


def _gpus(job: Job) -> int:
    """Return the GPUs of each node; 0 where there are none, or their number is not known."""
    found = topologies.read_topology(job).devices
    return (found.count or 0) if found.exact else 0


def _gpus_of_workers(job: Job) -> int:
    """Return the GPUs of the nodes of a runtime whose launcher is none of them; only the runtime gives them some."""
    for template in templates.list_templates(job):
        for container in template.pod.containers:
            if template.job.name == container.name == names.CONTAINER_NODE:
                return devices.gpus(container.resources)
    return 0


def _misplaced(job: Job, hosts: _Hosts) -> Iterator[Finding]:
    """Report GPUs that Trainer gives to the launcher alone (`pkg/runtime/core/trainingruntime.go` newRuntimeInfo)."""
    asked = devices.gpus(job.trainer.resources_per_node or model.Resources())
    if asked and not hosts.gpus:
        message = (
            "Trainer gives it to the launcher alone, which is not a node of this runtime, so that the nodes have no "
            "GPU; use a runtime with runLauncherAsNode, or one whose nodes ask for GPUs"
        )
        yield warning("spec.trainer.resourcesPerNode", None, message, rule="core/idle-devices")


def _per_node(job: Job, written: int | None) -> int:
    """Return the slots of one node: those of the job, else of the runtime, where 1 stands for the number of GPUs."""
    own = job.trainer.num_proc_per_node
    if type(own) is int:
        return own
    if written is not None and written != 1:
        return written
    inherited = job.container.container.resources if job.container is not None else model.Resources()
    override = job.trainer.resources_per_node
    return resources.count_gpus(inherited if override is None else override) or 1
