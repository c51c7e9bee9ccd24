"""Counts: the processes and nodes that a launch makes, compared with the devices and pods that the job has.

A smaller number is waste and warned about, a larger one cannot run and is an error. A plain program is left alone: one
process may use all devices of its node (DataParallel, `device_map`), or start the others itself (Lightning).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from muster.strategies.documents import model, names, quantities
from muster.strategies.documents.findings import OPEN, Finding, beginning, error, note, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import (
    launches,
    quotes,
    ranks,
    sites,
    spawns,
    topologies,
    variables,
    visibilities,
    worlds,
)
from muster.strategies.launches.launches import Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.launches.topologies import Topology
from muster.strategies.launches.worlds import World
from muster.strategies.trainer import resources

__all__ = ["check_counts", "compare", "idle"]


def check_counts(job: Job) -> Iterator[Finding]:
    """Compare every launch of a job that Trainer did not make with the job's pods and devices."""
    if job.kind == "TrainJob" and not (job.runtime is not None and job.runtime.is_torch):
        return  # Trainer sets no PET_* for such a runtime, see `written`
    yield from compare(job)


def compare(job: Job) -> Iterator[Finding]:
    """Do the same whatever sets the env of the launch; see `check_counts`."""
    site = sites.find_site(job) if job.owner is None else None
    if site is None:
        return
    topology = topologies.read_topology(job)
    if topology.nodes < 1:
        return  # reported as a number; there is nothing to count
    every = worlds.worlds_of(job)
    for world in every:
        yield from _twice(site, world)
        yield from _refused(job, site, world)
        yield from _faults(job, site, world, topology)
        yield from _too_many(job, site, world, topology)
        yield from _hidden(site, world, topology)
        if world.launch.env and not visibilities.VARIABLES.isdisjoint(world.launch.env):
            yield from visibilities.check(job, site, world, topology)
        yield from visibilities.check_named(site, world, topology)
        yield from _unset(job, site, world)
        yield from _word(job, site, world) if world.launch.launcher is not Launcher.PYTHON else ()
        yield from _unknown(site, world, topology)
    yield from visibilities.check_others(job, site, topology, lambda: worlds.counts_devices(job, site, topology))
    yield from _numbered(job, site, every)
    yield from _apart(site, every, topology)
    if len(every) > 1:
        yield from _side_by_side(site, every, topology)
    if every and all(world.launch.certain for world in every):
        if job.container is None or not ranks.is_a_sweep(job.container, every[0].launch):
            yield from _alone(job, site, every, topology)
        yield from _idle(job, site, every, topology)
        yield from _unequal(site, every)
    elif every and topology.is_distributed:
        yield from _uncertain(site, every)
    if not every and site.reading.unread and topology.explicit:
        yield from _written(job, topology)


def _side_by_side(site: Site, every: Sequence[World], topology: Topology) -> Iterator[Finding]:
    """Report launches that run at the same time, and together have more processes than there are devices."""
    waves: dict[int, list[World]] = {}
    for world in every:
        if world.launch.wave and world.processes and visibilities.VARIABLES.isdisjoint(world.launch.env):
            waves.setdefault(world.launch.wave, []).append(world)
    for together in waves.values():
        total = sum(world.processes or 0 for world in together)
        devices = topology.devices.count
        if len(together) > 1 and devices and total > devices:
            last = together[-1].launch
            message = (
                f"{len(together)} launches run at the same time and start {total} processes, and the node has "
                f"{devices} devices, so that several share one; run them one after the other, or give each its own "
                "with CUDA_VISIBLE_DEVICES"
            )
            yield warning(site.locate_option(last, ""), quotes.launch(last), message, rule="core/side-by-side")


def idle(used: int, devices: int, nodes: int) -> str:
    """Return `3 of 4 GPUs idle on each node`, or `... idle` for one node."""
    return f"{devices - used} of {devices} GPUs idle{' on each node' if nodes > 1 else ''}"


def _severity(world: World) -> Callable[..., Finding]:
    """Return `error`; `warning` where the launch may not run, or the image or a program's text decides."""
    sure = world.launch.certain and not world.assumed and world.launch.launcher is not Launcher.PYTHON
    return error if sure else warning


def _twice(site: Site, world: World) -> Iterator[Finding]:
    for name, values in world.launch.repeated.items():
        said = " and ".join(beginning(f"--{name}={value}", 80) for value in values[:3])
        message = f"is given twice with different values ({said}), and the last one wins; remove one"
        report = warning if any("$" in value for value in values) else error  # they may be equal in the pod
        yield report(site.locate_option(world.launch, name), values[-1], message, rule="core/flag-twice")


def _refused(job: Job, site: Site, world: World) -> Iterator[Finding]:
    """Report options that the launcher does not have, so that it stops before it starts anything.

    The image of a user may hold another version; there it is a warning.
    """
    if world.launch.launcher not in _CLOSED:
        return
    ours = not job.brings_image
    for option in world.launch.unknown[:_SHOWN]:
        sure = ours
        message = f"is not an option of {world.launch.launcher.value}, which would not start; remove it"
        if option.lstrip("-").replace("-", "_").startswith("use_env"):
            message, sure = "is an option of python -m torch.distributed.launch, and torchrun stops; remove it", True
        report = error if world.launch.certain and sure else warning
        yield report(
            site.locate_option(world.launch, option.lstrip("-")), beginning(option, 80), message, rule="core/option"
        )
    for option, value, message in variables.refused_settings(world.launch):
        sure = ours or world.launch.launcher is not Launcher.ACCELERATE  # those of torchrun are the same for years
        report = error if world.launch.certain and sure else warning
        shown = beginning(f"--{option} {value}", 80)
        yield report(site.locate_option(world.launch, option), shown, message, rule="core/launch")
    yield from variables.refused(job, site, world.launch)


_SHOWN = 5
_CLOSED = (Launcher.TORCHRUN, Launcher.TUNE, Launcher.ACCELERATE)
"""Launchers whose options are read from their installed parsers."""


def _faults(job: Job, site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    report = _severity(world)
    if world.fault and not _is_for_one_node(site, world):
        shown = f"--{world.option}" if world.option else _shown(world)
        rule = "core/standalone" if world.option == "standalone" else "core/launch"
        yield report(site.locate_option(world.launch, world.option), shown, world.fault, rule=rule)
    if world.doubt:
        place, shown = site.locate_option(world.launch, world.option), f"--{world.option}" * bool(world.option)
        yield warning(place, shown or _shown(world), world.doubt, rule="core/launch")
    if world.waits:
        # Another replicated job of a JobSet may bring the missing ones.
        others = job.kind == "JobSet" and len(job.jobset.replicated_jobs) > 1
        report = warning if others or world.launch.wave else report  # as may a launch that runs beside it
        shown = f"--nnodes {world.launch.values['nnodes']}" if "nnodes" in world.launch.values else f"{world.waits}"
        have = f"the job has {topology.nodes}"
        message = f"the launch would wait for {world.waits} nodes, and {have}; set numNodes, or remove the flag"
        yield report(site.locate_option(world.launch, "nnodes"), shown, message, rule="core/nodes")


def _is_for_one_node(site: Site, world: World) -> bool:
    """Whether it is the branch of a shell for one node: --standalone under a condition, and another launch without."""
    others = (each for each in site.reading.launches if "standalone" not in each.values)
    return (
        world.option == "standalone"
        and not world.launch.certain
        and any(each.launcher is world.launch.launcher for each in others)
    )


def _unset(job: Job, site: Site, world: World) -> Iterator[Finding]:
    """Report a number or an address that comes from a variable which nothing in the pod sets."""
    if "$" not in "".join(world.launch.values.values()) or world.launch.launcher is Launcher.PYTHON:
        return
    is_open = job.container is not None and job.container.container.env_from
    known = _ALWAYS_SET | site.variables.keys() | world.launch.env.keys() | names.RESERVED_ENV
    if job.is_untold:
        known = known - (names.RESERVED_ENV | {names.MASTER_ADDR, names.MASTER_PORT}) | _told(job, site)
    held: _Held | None = None
    for option in _NUMBERS:
        yield from _literal(site, world, option)
        for name in re.findall(_REFERENCE, world.launch.values.get(option, "")):
            if name in known:
                held = _held(site, world) if held is None else held
                yield from _unexpanded(site, world, option, name, held) if name in held else ()
                continue
            if world.launch.unseen or re.search(_OF_SERVICES, name):
                continue  # a file that the shell reads may, or a Service of the namespace
            if is_open and name not in _NEVER_SET:
                continue  # the ConfigMap or the Secret may
            if name != name.upper() and not launches.SHELLS.isdisjoint(world.launch.through) and _runs(site, name):
                continue  # a program, whose output the shell takes: Kubernetes leaves what names no variable
            report = error if name in _NEVER_SET and not is_open else warning
            cure = _cure_of_others(job) if job.is_untold else _CURE
            message = f"no env of the job sets {name}, so the launch would fail unless the image does; {cure}"
            place, shown = site.locate_option(world.launch, option), f"--{option} {world.launch.values[option]}"
            yield report(place, beginning(shown, 80), message, rule="core/unset-variable")


def _runs(site: Site, name: str) -> bool:
    """Whether a text of the command line runs a program of this name, rather than reads a variable."""
    return any(f"$({name})" in word for word in site.argv)


def _told(job: Job, site: Site) -> frozenset[str]:
    """Return the variables of the container that the documents or Trainer's other plugins set."""
    policy = job.runtime.policy if job.runtime is not None else model.MLPolicy()
    plugins = (names.SET_BY[name] for name in names.SET_BY if getattr(policy, name) is not None)
    return frozenset(site.variables).union(*plugins)


def _unexpanded(site: Site, world: World, option: str, name: str, held: _Held) -> Iterator[Finding]:
    """Report a variable whose own value names one that the list of variables has behind it.

    Kubernetes expands $(NAME) of what stands before alone, and leaves the others as they are written; what Trainer or
    Muster write is left out (kubernetes `pkg/kubelet/kubelet_pods.go` makeEnvironmentVariables).
    """
    index, value = held[name]
    for inner in re.findall(_REFERENCE, value)[:_SHOWN]:
        if inner in held and held[inner][0] > index and inner not in names.RESERVED_ENV:
            said = f"{name} is {beginning(value, 80)}, and {inner} stands behind {name} in the list of variables"
            message = f"{said}, so Kubernetes leaves $({inner}) as it is written; put {inner} before it"
            place, shown = site.locate_option(world.launch, option), f"--{option} {world.launch.values[option]}"
            yield _severity(world)(place, beginning(shown, 80), message, rule="core/unset-variable")


_Held = Mapping[str, tuple[int, str]]
"""Variables of a container, the last of each name: place in the list, and value, "" for one from elsewhere."""


def _held(site: Site, world: World) -> _Held:
    """Return the variables of the container that the command line has not set anew."""
    anew = {*world.launch.env, *world.launch.assigned}
    return {each.name: (index, each.value) for index, each in enumerate(site.env) if each.name not in anew}


def _word(job: Job, site: Site, world: World) -> Iterator[Finding]:
    """Report PET_NPROC_PER_NODE as a number where Trainer sets it to `auto`, which only torchrun reads."""
    if job.kind != "TrainJob" or names.PET_NPROC_PER_NODE in world.launch.env:
        return
    if topologies.trainer_processes(job) != resources.AUTO:
        return
    for option in () if world.launch.values.keys().isdisjoint(_NUMBERS) else _NUMBERS:
        text = world.launch.values.get(option, "")
        if not re.search(_COUNTED, text) or (option in ("nproc_per_node", "devices") and "$((" not in text):
            continue
        count = topologies.read_topology(job).processes
        message = (
            "Trainer sets PET_NPROC_PER_NODE to auto for a job with GPUs, which is not a number here (0 in a shell's "
            f"arithmetic); set numProcPerNode{f': {count}' if count else ''}"
        )
        place, shown = site.locate_option(world.launch, option), f"--{option} {text}"
        yield _severity(world)(place, beginning(shown, 80), message, rule="core/auto")


_COUNTED = r"\bPET_NPROC_PER_NODE\b"


def _literal(site: Site, world: World, option: str) -> Iterator[Finding]:
    """Report `$NAME` where no shell is: the launcher gets it as it stands."""
    value = world.launch.values.get(option, "")
    found = re.search(_OF_SHELLS, value) if not world.launch.through else None
    if found is not None:
        name, whole = beginning(found[1], 60), beginning(found[0], 60)
        message = f"no shell is there to replace {whole}, and Kubernetes replaces only $(NAME); write $({name})"
        place, shown = site.locate_option(world.launch, option), f"--{option} {value}"
        yield error(place, beginning(shown, 80), message, rule="core/unset-variable")


_OF_SHELLS = r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?"
_REFERENCE = r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)"
_NUMBERS = (
    *("nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port", "rdzv_endpoint"),
    *("num_machines", "num_processes", "machine_rank", "main_process_ip", "main_process_port"),
    *("num_nodes", "num_gpus", "devices", "main_address", "nproc", "world_size"),
)
_OF_SERVICES = r"_SERVICE_(HOST|PORT)(_|$)"
_ALWAYS_SET = frozenset({"MASTER_ADDR", "MASTER_PORT", "JOB_COMPLETION_INDEX", "HOSTNAME", "RANDOM", "UID", "HOME"})
"""Kubernetes, Muster and shells set these."""
_NEVER_SET = frozenset(
    {"RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "SLURM_NODEID", "SLURM_NNODES", "SLURM_PROCID"}
)
"""Other platforms set these, and no image can hold their right value."""


def _cure_of_others(job: Job) -> str:
    if job.is_untouched:
        return f"Muster sets PET_* only in a JobSet with the label {names.FRAMEWORK_LABEL}; add it, or write the flags"
    return "Trainer sets PET_* only in a runtime with mlPolicy.torch; use one, or another variable"


_CURE = "use PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK and MASTER_ADDR, or remove the flag"


def _unknown(site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    if world.unknown and not world.own and not world.fault and topology.is_distributed:
        message = f"{world.unknown}; whether {topology.size} start is {OPEN}"
        yield note(site.locate_option(world.launch, ""), _shown(world), message, rule="core/unknown-world")


def _too_many(job: Job, site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    processes, devices = world.processes, world.devices
    if world.own or processes is None or devices is None or topology.on_cpu or processes <= devices:
        return
    seen = f"{devices} GPU{'s' if devices != 1 else ''}"
    if devices < (topology.devices.count or 0):
        hides = f"{topologies.hiding(topology.devices.maker)} leaves {devices} of {topology.devices.count}"
        seen += f", because {hides} (a container numbers its own from 0)"
    message = f"each node would start {processes} processes on {seen}; start at most {devices}, or ask for more GPUs"
    if topology.devices.kind == "mig":
        message = f"each node would start {processes} processes, and a pod can use only one MIG slice; start 1"
    report = _severity(world)
    if not topology.devices.exact:
        report = note
        message = f"each node would start {processes} processes on {seen}, which is right where each has several parts"
    yield report(_number_field(job, site, world), processes, message, rule="core/too-many-processes")


def _hidden(site: Site, world: World, topology: Topology) -> Iterator[Finding]:
    """Warn about a launch to which CUDA_VISIBLE_DEVICES shows no device, where no number of processes says so."""
    count = topology.devices.count
    if world.devices == 0 and count and (world.own or world.processes is None):
        message = (
            f"{topologies.hiding(topology.devices.maker)} shows none of the container's {count} GPUs, numbered "
            "from 0, so this would run on the CPU; remove it"
        )
        yield warning(site.locate_option(world.launch, ""), _shown(world), message, rule="core/idle-devices")


def _numbered(job: Job, site: Site, every: Sequence[World]) -> Iterator[Finding]:
    """Compare PET_NNODES of a JobSet that Trainer did not make with its pods, where one Job has all of them."""
    if job.kind != "JobSet" or names.PET_NNODES not in site.variables:
        return
    if job.container is None or len(job.world) != 1 or job.container.job.jobs != 1:
        return
    first = next(each for each in site.env if each.name == names.PET_NNODES)
    written, count = quantities.whole(first.value), topologies.pods_of(job)
    readers = [each.launch for each in every if each.launch.starts_torchrun and "nnodes" not in each.launch.values]
    if not readers or written is None or written >= count:
        return
    field = f"{site.place}.env[{names.PET_NNODES}]"
    backends = [each.values.get("rdzv_backend") or site.values.get("PET_RDZV_BACKEND") for each in readers]
    if any(each in (None, "", "static") for each in backends):
        message = f"is not the number of pods, {count}, so that the others find no place; remove it, and Muster sets it"
        yield error(field, written, message, rule="core/nodes")
    else:
        message = f"is not the number of pods, {count}; the others wait until one ends, and their GPUs are idle"
        yield warning(field, written, message, rule="core/nodes")


def _apart(site: Site, every: Sequence[World], topology: Topology) -> Iterator[Finding]:
    """Warn about a launch to which a condition of the shell lets only some nodes come."""
    if not any(world.launch.chosen for world in every):
        return
    fixed = {each.name for each in site.env if each.literal is not None}
    own = {each.name for each in site.env if each.literal is None}
    for world in every:
        found = sorted(world.launch.chosen & (own | (_OF_NODES - fixed)))
        if found and topology.nodes > 1:
            message = (
                f"a condition on {found[0]} decides which nodes come to this launch, and the others of the job's "
                f"{topology.nodes} nodes start no training; start it on all nodes"
            )
            yield warning(site.locate_option(world.launch, ""), _shown(world), message, rule="core/part-of-nodes")
            return


_OF_NODES = frozenset(
    {"PET_NODE_RANK", "JOB_COMPLETION_INDEX", "HOSTNAME", "hostname", "RANK", "NODE_RANK", "GROUP_RANK"}
    | {"SLURM_NODEID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"}
)
"""Variables, and a program, from which a script takes the number of its node."""


def _alone(job: Job, site: Site, every: Sequence[World], topology: Topology) -> Iterator[Finding]:
    world = max(every, key=lambda each: each.nodes or topology.nodes)
    if world.own or world.fault or world.waits or world.nodes is None or world.nodes >= topology.nodes:
        return
    alone = world.nodes == 1 and world.launch.launcher is not Launcher.PYTHON
    trained = "each of them would train alone" if alone else "the others would not take part"
    message = f"the launch spans {world.nodes} of the job's {topology.nodes} nodes: {trained}"
    flag = next((name for name in ("nnodes", "num_machines") if name in world.launch.values), "")
    cure = "remove the flag" if flag else "start it with torchrun, which reads what Trainer sets"
    if job.is_untold:
        cure = f"write {topology.nodes}" if flag and job.is_untouched else _cure_of_others(job)
    if job.is_untouched and "standalone" in world.launch.values:
        cure = "where they train together, write --nnodes and the flags of a rendezvous instead of --standalone"
    if world.launch.launcher is Launcher.PYTHON:
        cure = f"write num_nodes={topology.nodes} in the program"
    shown = f"--{flag} {world.launch.values[flag]}" if flag else _shown(world)
    if world.assumed:
        cause = "sudo takes variables away" if "sudo" in world.launch.through and world.launch.cleared else ""
        message = f"{cause or f'no env of the job sets {min(world.assumed)}'}, so {message}"
    report = warning if job.is_untouched and not flag else _severity(world)  # its image may hold PET_*
    yield report(site.locate_option(world.launch, flag), shown, f"{message}; {cure}", rule="core/nodes")


def _idle(job: Job, site: Site, every: Sequence[World], topology: Topology) -> Iterator[Finding]:
    if any(world.own or world.processes is None or world.fault for world in every):
        return
    if len(every) > 1 and any("CUDA_VISIBLE_DEVICES" in world.launch.env for world in every):
        return  # each has its own part of the devices
    world = every[-1]  # what runs before it may prepare something
    devices, processes = topology.devices.count, world.processes
    if not devices or processes is None or processes >= devices:
        return
    started = f"the launch starts {processes} process{'es' if processes != 1 else ''}"
    message = f"{started}{' on each node' if topology.nodes > 1 else ''}: {idle(processes, devices, topology.nodes)}"
    cure = f"start {devices}, or ask for fewer GPUs"
    yield warning(_number_field(job, site, world), processes, f"{message}; {cure}", rule="core/idle-devices")


def _unequal(site: Site, every: Sequence[World]) -> Iterator[Finding]:
    sizes = {(world.nodes, world.processes) for world in every}
    if len(sizes) > 1 and not any(world.own for world in every):
        message = (
            f"{len(every)} launches run one after another and make different numbers of processes; the last is judged"
        )
        yield note(site.locate_option(every[-1].launch, ""), _shown(every[-1]), message, rule="core/unknown-world")


def _uncertain(site: Site, every: Sequence[World]) -> Iterator[Finding]:
    """Tell that a shell decides whether a launch runs: under a condition, in a loop, or in the background."""
    world = next(world for world in every if not world.launch.certain)
    message = (
        f"the shell runs this launch under a condition or in the background; whether it runs, and to its end, is {OPEN}"
    )
    yield note(site.locate_option(world.launch, ""), _shown(world), message, rule="core/unknown-world")


def _written(job: Job, topology: Topology) -> Iterator[Finding]:
    """Judge `numProcPerNode` alone, where the launch was not read: it is what a launcher in it would take."""
    devices, processes = topology.devices.count, topology.processes
    if not devices or processes is None or processes == devices or job.kind != "TrainJob":
        return
    message = f"a launch that starts as many as this says leaves {idle(processes, devices, topology.nodes)}"
    if processes > devices:
        message = f"each node has {devices} devices, so a launch that starts as many as this says would fail"
    rule = "core/too-many-processes" if processes > devices else "core/idle-devices"
    yield note("spec.trainer.numProcPerNode", processes, message, rule=rule)


def _number_field(job: Job, site: Site, world: World) -> str:
    """Return where the number of processes is written: a flag, the job's own number, or the launch."""
    for name in ("nproc_per_node", "num_processes", "num_gpus", "nproc"):
        if name in world.launch.values and "$" not in world.launch.values[name]:
            return site.locate_option(world.launch, name)
    if job.kind == "TrainJob" and job.trainer.num_proc_per_node == world.processes:
        return "spec.trainer.numProcPerNode"
    return site.locate_option(world.launch, "")


def _shown(world: World) -> str:
    shown = quotes.launch(world.launch)
    return f"{shown}: {spawns.call(world.launch.values)}" if "starter" in world.launch.values else shown
