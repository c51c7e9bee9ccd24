"""Worlds: how many nodes and processes a launch really brings together, by what its launcher reads.

A topology is what the job means; a world is what its command line makes of that: flags first, then the env that Trainer
and Muster set, then the launcher's defaults. Where a number cannot be seen, it is None and `unknown` says why. Sources:
torch `torch/distributed/run.py`, torchtune `torchtune/_cli/run.py`, deepspeed `launcher/runner.py`; for
accelerate see `muster.strategies.launches.accelerate`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from muster.strategies.documents import names
from muster.strategies.documents.findings import beginning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs.jobs import Job, once_for_part
from muster.strategies.launches import (
    accelerate,
    accelerate_files,
    expansions,
    launches,
    nestings,
    ranks,
    sites,
    spawns,
    topologies,
)
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.launches.topologies import Topology
from muster.strategies.platform.devices import Devices
from muster.strategies.trainer import recipes

__all__ = ["World", "counts_devices", "find_world", "read_world", "worlds_of"]

_REFERENCE = r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)"
_TRUE = frozenset({"1", "t", "true", "y", "yes"})
_UNSEEN = "$"
_HELP = frozenset({"h", "help"})
_Env = Mapping[str, str | None]


class World(NamedTuple):
    """What one launch makes of a job's pods; a tuple, since it is made again with each thing that is found out.

    Attributes:
        launch: the launch.
        nodes: pods that train together; None when that is not known, or decided at run time.
        processes: processes that the launcher starts in each pod; None when the number is not known.
        devices: devices that the processes of one pod see; None when the number is not known.
        own: whether the program may start more processes, or use several devices with one.
        waits: number of nodes that the launch waits for, where it is more than there are.
        fault: why the launch fails or its nodes cannot meet, as a clause; "" where nothing is known to be wrong.
        doubt: why it probably fails, as a clause; "" where nothing is doubtful.
        option: the launcher's option that the fault or the doubt is about; "" for the whole launch.
        unknown: why a number is None, as a clause; "" where all is known.
        assumed: variables of which a default in the shell's text was taken, since no document sets them.
    """

    launch: Launch
    nodes: int | None
    processes: int | None
    devices: int | None
    own: bool = False
    waits: int = 0
    fault: str = ""
    doubt: str = ""
    option: str = ""
    unknown: str = ""
    assumed: frozenset[str] = frozenset()

    @property
    def world_size(self) -> int | None:
        """Number of ranks; None when it is not known."""
        if self.nodes is None or self.processes is None or self.fault or self.waits:
            return None
        return self.nodes * self.processes

    @property
    def may_start_more(self) -> bool:
        """Whether the program may start processes itself, one for each of several devices."""
        return self.own and (self.devices is None or self.devices > 1)

    @property
    def must_meet(self) -> bool:
        """Whether the program itself has to make the ranks of several nodes meet, which no document shows."""
        return self.own and self.nodes != 1


def find_world(job: Job) -> World | None:
    """Return the world of the job's training; None where no launch, or more than one kind of world, was read."""
    if len(job.world) < 2:
        return _of_part(job)
    every = [_of_part(each) for each in job.views]
    same = len({(each.nodes, each.processes) for each in every if each is not None}) == 1
    return every[0] if same and None not in every else None


def _of_part(job: Job) -> World | None:
    site, topology = sites.find_site(job), topologies.read_topology(job)
    every = worlds_of(job) if site is not None and not site.reading.unread else ()
    if not every or any(not world.launch.certain or world.assumed for world in every):
        return None
    if len({(each.nodes, each.processes) for each in every}) != 1:
        return None
    if topology.uneven and every[-1].nodes != 1:
        return every[-1]._replace(nodes=None, unknown="the nodes do not all have as many devices")
    return every[-1]


def worlds_of(job: Job) -> tuple[World, ...]:
    """Return the world of each launch that the command line of `job.container` makes."""
    return _of_launches(job, topologies.read_topology(job), ranks.are_shared(job))


@once_for_part
def _of_launches(job: Job, topology: Topology, shared: bool) -> tuple[World, ...]:
    """Return the worlds of a part; whether its rank is that of other nodes decides what its env says."""
    site = sites.find_site(job)
    if site is None:
        return ()
    env = _environment(job, site, topology)
    closed = not (job.container and job.container.container.env_from)
    every = []
    for launch in site.reading.launches:
        ranked = launch if shared else _unranked(launch)
        world = _world_of(ranked, env, topology, closed=closed) if launch.through else read_world(ranked, env, topology)
        every.append(world if world.launch is launch else world._replace(launch=launch))
    return tuple(every)


def counts_devices(job: Job, site: Site, topology: Topology) -> bool:
    """Whether a launch of the site starts one process for each device that it sees."""
    env = {name: value for name, value in _environment(job, site, topology).items() if name != names.SHOWN_DEVICES}
    kinds = [replace(topology, devices=Devices(number, "gpu")) for number in (2, 3)]
    return any(len({read_world(each, env, kind).processes for kind in kinds}) > 1 for each in site.reading.launches)


def _world_of(launch: Launch, env: _Env, topology: Topology, *, closed: bool) -> World:
    """Return the world of a launch in a container with this env; `closed` where the documents name all of it."""
    seen: _Env = {} if launch.cleared else env
    taken = {name: expansions.take_defaults(value, env) for name, value in launch.values.items()} if closed else {}
    values = {name: expansions.expand(taken.get(name, (value,))[0], seen) for name, value in launch.values.items()}
    values = {name: expansions.compute(value, seen) for name, value in values.items()}
    own = {name: None if value is None else expansions.expand(value, seen) for name, value in launch.env.items()}
    world = read_world(replace(launch, values=values), {**seen, **own}, topology)
    assumed = frozenset[str]().union(*(names for _, names in taken.values()))
    if launch.cleared and "sudo" in launch.through:
        assumed |= {"what sudoers keeps"}
    return world._replace(launch=launch, assumed=assumed)


def _unranked(launch: Launch) -> Launch:
    """Return a launch without the number of its machine, which no other node of the training has."""
    named = {"machine_rank", "node_rank"} & set(launch.values)
    return replace(launch, values={**launch.values, **dict.fromkeys(named, _UNSEEN)}) if named else launch


def read_world(launch: Launch, env: Mapping[str, str | None], topology: Topology) -> World:
    """Return the world that a launch makes.

    Args:
        launch: one launch.
        env: its environment; None for a value that only the pod knows.
        topology: what the job means: its pods and devices.
    """
    world = World(launch, topology.nodes, None, _visible(env, topology))
    reader = _READERS.get(launch.launcher)
    if reader is not None:
        return _within(_nested(reader(world, env, topology)), env, topology)
    return world._replace(nodes=None, unknown=_UNREAD.format(launch.launcher.value))


_UNREAD = "Muster does not know how {} starts processes"


def _nested(world: World) -> World:
    """Tell of what stands behind a launcher; see `nestings`."""
    if world.fault:
        return world
    found = nestings.find(world.launch, world.processes)
    if found is None:
        return world
    if found.fault:
        return world._replace(nodes=None, fault=found.fault)
    return world._replace(doubt=found.doubt or world.doubt, own=found.own or world.own)


def _environment(job: Job, site: Site, topology: Topology) -> dict[str, str | None]:
    """Return the env with which the command line starts: that of the documents, with PET_* on top or below.

    Trainer writes its five variables over those of a runtime; on a JobSet of a user, Muster adds those that lack.
    """
    env = dict(site.values)
    if job.container and topologies.sees_others(job.container.container):
        env.setdefault(names.SHOWN_DEVICES, "all")
    processes = "auto" if topology.processes is None else str(topology.processes)
    if job.kind == "TrainJob":
        processes = str(topologies.trainer_processes(job))
    injected = {names.PET_NNODES: str(topology.nodes), names.PET_NPROC_PER_NODE: processes}
    if job.kind == "TrainJob":
        return {**env, **(injected if job.runtime is not None and job.runtime.is_torch else {})}
    untold = job.is_untouched and not (job.container and job.container.container.env_from)  # which may hold PET_*
    if untold or (job.container and ranks.is_a_sweep(job.container, site.reading.training or site.launch)):
        return env
    return {**injected, **env}


def _resolved(launch: Launch, env: _Env) -> dict[str, str]:
    return {name: expansions.resolve(value, env) for name, value in launch.values.items()}


def _setting(launch: Launch, env: _Env, name: str, default: str = "") -> str:
    """Return what torchrun reads for an option: its flag, else its PET_* variable, else the default."""
    if name in launch.values:
        return expansions.resolve(launch.values[name], env)
    variable = f"PET_{name.upper()}"
    if variable not in env:
        return default
    value = env[variable]
    return f"$({variable})" if value is None else expansions.resolve(value, env) or default


def _standalone(launch: Launch, env: _Env) -> bool:
    return "standalone" in launch.values or (env.get("PET_STANDALONE") or "").lower() in _TRUE


def _visible(env: _Env, topology: Topology) -> int | None:
    """Return the devices that processes see: those of the pod, or the part that CUDA_VISIBLE_DEVICES leaves."""
    return topologies.visible(topology.devices.count, env, maker=topology.devices.maker)


def _torchrun(world: World, env: _Env, topology: Topology) -> World:
    return _under_torchrun(world, env, topology, standalone=_standalone(world.launch, env))


def _under_torchrun(world: World, env: _Env, topology: Topology, *, standalone: bool) -> World:
    if not world.launch.target:
        return _without_program(world)
    text = _setting(world.launch, env, "nnodes", "1")
    if topology.on_cpu and _shows_others(env):
        world = world._replace(devices=None)
        topology = replace(topology, devices=Devices(None, "other"))
    world = _per_node(world, _setting(world.launch, env, "nproc_per_node", "1"), topology)
    low, _, high = text.partition(":")
    least, most = whole(low), whole(high if ":" in text else low)
    if least is None or most is None:
        return _no_number(world, "--nnodes", text)
    if least < 1 or most < least:
        fault = (
            f"{beginning(text, 60)!r} is not a number of nodes from 1 on and no range MIN:MAX, so torchrun would stop"
        )
        return world._replace(nodes=None, fault=fault, option="nnodes")
    if standalone and least > 1:
        return _waits_alone(world, env, least)
    return world._replace(nodes=1) if standalone or most == 1 else _spanning(world, env, topology, (least, most))


def _spanning(world: World, env: _Env, topology: Topology, span: tuple[int, int]) -> World:
    """Return the world of a launch that waits for at least and at most so many nodes."""
    least, most = span
    if _setting(world.launch, env, "rdzv_backend") == "static":
        least = most  # it waits for the upper number
    if least > topology.nodes:
        return world._replace(nodes=None, waits=least)
    if least < most < topology.nodes:
        doubt = f"takes {most} nodes at most, and the others of the job's {topology.nodes} wait idle; raise it"
        return world._replace(nodes=None, doubt=doubt, option="nnodes")
    return world._replace(nodes=None if least != most or topology.elastic else least)


def _shows_others(env: _Env) -> bool:
    """Whether a container sees devices of its machine that it did not ask for."""
    return env.get(names.SHOWN_DEVICES, "void") not in ("", "none", "void")


def _waits_alone(world: World, env: _Env, nodes: int) -> World:
    """Return the world of nodes that each wait for the others in their own pod; `tune run` does it by itself."""
    effect = f"makes each node wait in its own pod for {nodes} nodes, and end after the time-out"
    if _standalone(world.launch, env):
        return world._replace(nodes=None, fault=f"{effect}; remove it", option="standalone")
    cure = "write --rdzv_endpoint $(MASTER_ADDR):29500 before the recipe"
    return world._replace(nodes=None, fault=f"tune run without --rdzv_endpoint {effect}; {cure}")


def _is_literal(world: World, text: str) -> bool:
    """Whether a text with a variable stands outside of a shell in a form that Kubernetes does not expand."""
    return _UNSEEN in text and not world.launch.through and not re.search(_REFERENCE, text)


def _without_program(world: World) -> World:
    if _HELP & set(world.launch.values):
        return world._replace(nodes=None)
    return world._replace(nodes=None, fault="the command line names no program, and torchrun would not start; add one")


def _no_number(world: World, flag: str, text: str) -> World:
    if _is_literal(world, text):
        cure = "reaches the program as it is, because no shell expands it; write $(NAME), as in Kubernetes"
        fault = f"{beginning(text, 60)!r} {cure}"
        return world._replace(nodes=None, fault=fault, option=flag.lstrip("-"))
    if _UNSEEN in text:
        return world._replace(nodes=None, unknown=world.unknown or f"the value of {flag} is known only in the pod")
    fault = f"{text!r} is not a number, and the launch would not start; write a number"
    return world._replace(nodes=None, fault=fault, option=flag.lstrip("-"))


def _per_node(world: World, text: str, topology: Topology) -> World:
    if (number := whole(text)) is not None and number > 0:
        return world._replace(processes=number)
    if text in ("auto", "gpu", "cpu") or re.fullmatch(_PROCESSORS, text):
        return _counted(world, text, topology)
    if _is_literal(world, text):
        return _no_number(world, "--nproc_per_node", text)._replace(nodes=world.nodes)
    if text == "xpu" and topology.devices.maker in _CUDA:
        fault = "counts GPUs of Intel, and the pod has none, so torchrun would stop; write gpu or auto"
        return world._replace(fault=fault, option="nproc_per_node")
    if _UNSEEN in text or text == "xpu":
        return world._replace(unknown="the value of --nproc_per_node is known only in the pod")
    fault = f"{text!r} is neither a number nor auto, gpu or cpu, and torchrun would not start"
    return world._replace(fault=fault, option="nproc_per_node")


_PROCESSORS = r"\$\(\s*nproc\s*\)"


def _counted(world: World, text: str, topology: Topology) -> World:
    if text[-3:] != "gpu" and text != "auto" and world.devices:
        doubt = f"starts one process for each CPU of the machine, and the pod has {world.devices} GPUs; use gpu"
        return world._replace(doubt=doubt, option="nproc_per_node")
    if text == "gpu" and topology.on_cpu:
        doubt = "needs GPUs, and the job asks for none, so torchrun would not start; ask for GPUs, or write a number"
        return world._replace(doubt=doubt, option="nproc_per_node")
    if text != "cpu" and world.devices:
        return world._replace(processes=world.devices)
    per_cpu = topology.on_cpu or text == "cpu"
    why = "torchrun starts one process for each CPU of the machine" if per_cpu else "the number of devices is not known"
    return world._replace(unknown=why)


def _tune(world: World, env: _Env, topology: Topology) -> World:
    """Read `tune run`: one process without an option of torchrun, a standalone torchrun without an endpoint."""
    if world.launch.head[-1:] != ("run",) or not world.launch.target:
        return world._replace(nodes=None)  # `tune download` and others; a bare `tune run` is completed or refused
    if not world.launch.options and recipes.RECIPES.get(world.launch.target):
        fault = "has no option of torchrun, so this recipe finds no RANK and stops; add --nproc_per_node"
        return world._replace(nodes=1, processes=1, fault=fault)
    if not world.launch.options:
        return world._replace(nodes=1, processes=1)
    alone = not _setting(world.launch, env, "rdzv_endpoint") or _standalone(world.launch, env)
    return _under_torchrun(world, env, topology, standalone=alone)


def _accelerate(world: World, env: _Env, topology: Topology) -> World:
    values = _resolved(world.launch, env)
    if _starts_nothing(world.launch):
        return world._replace(nodes=None, own=True)
    config = _configured(world.launch, env)
    fault, doubt = (
        ("", "") if config is None else (accelerate_files.fault(config, values), accelerate_files.doubt(config))
    )
    if fault or doubt:
        option = next((name for name in accelerate_files.CONFIGS if name in values), "")
        return world._replace(nodes=None, fault=fault, doubt="" if fault else doubt, option=option)
    if world.launch.launcher is Launcher.TRL and config is None:
        flags, words = _with_settings(world.launch, values)
        found = accelerate.read_trl(flags, words, topology.nodes, world.devices, env)
    else:
        found = accelerate.read_accelerate(values, topology.nodes, world.devices, env, config)
    unknown = f"Muster cannot see {found.unknown}" if found.unknown else ""
    return world._replace(nodes=found.nodes, processes=found.per_node, fault=found.fault, unknown=unknown)


def _with_settings(launch: Launch, values: Mapping[str, str]) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return flags and words of `trl`, those of a file of settings that its own shell has written taken in.

    trl hands accelerate's flags of the file on before those of the command line (trl `cli/commands/training.py`).
    """
    at = launch.rest.index("--config") if "--config" in launch.rest[:-1] else None
    name = "" if at is None else launch.rest[at + 1]
    found = accelerate_files.read(launch.written[name], name) if name in launch.written else None
    held = {key: value for key, value in (found or {}).items() if key in launches.TRL_FLAGS.counts}
    if found is None or any(not isinstance(value, str) or "$" in value for value in held.values()):
        return values, launch.rest
    return {**held, **values}, (*launch.rest[:at], *launch.rest[(at or 0) + 2 :])


def _starts_nothing(launch: Launch) -> bool:
    """Whether it is `accelerate env`, `accelerate launch --help`, or a command of trl that is not a training."""
    if launch.launcher is Launcher.TRL:
        return launch.target in _NO_TRAINING
    return "help" in launch.values or not launch.target or launch.head[-1:] == ("accelerate",)


def _configured(launch: Launch, env: _Env) -> Mapping[str, Any] | None:
    """Return the content of a configuration file that the launch's own shell has written, None for another."""
    found = accelerate_files.of_launch(launch) if launch.written else None
    if found is None:
        return None
    known = {
        key: expansions.resolve(value, env) if isinstance(value, str) else value for key, value in found[1].items()
    }
    return {"machine_rank": "0", **known}


def _deepspeed(world: World, env: _Env, topology: Topology) -> World:
    """Read `deepspeed`: without a host file it starts the processes of its own node alone, one per device."""
    values = _resolved(world.launch, env)
    chosen = [name for name in ("include", "exclude") if name in values]
    others = [*chosen[1:], *(name for name in ("num_gpus", "num_nodes") if name in values)]
    if chosen and others:
        fault = f"does not go with --{others[0]}, and deepspeed stops; remove one of the two"
        return world._replace(nodes=None, fault=fault, option=chosen[0])
    if {"hostfile", "no_ssh", "autotuning"} & set(values):
        return _on_hosts(world, values, topology)
    asked = "-1" if topology.on_cpu else values.get("num_gpus", "-1")
    if chosen:
        return _chosen(world._replace(nodes=1), values)
    if asked == "-1":
        return _on_every_gpu(world, env, topology)
    if (number := whole(asked)) is None:
        return _no_number(world._replace(nodes=1), "--num_gpus", asked)
    return world._replace(nodes=1, processes=number)


def _on_hosts(world: World, values: Mapping[str, str], topology: Topology) -> World:
    """Read a launch whose hosts are in a file, which the launch's own shell may have written."""
    if "no_ssh" in values and "hostfile" not in values and topology.nodes > 1:
        doubt = "needs --hostfile, a file with all nodes, so every node but the first fails; start it with torchrun"
        return world._replace(nodes=None, doubt=doubt, option="no_ssh")
    hosts = _hosts(world.launch.written.get(values.get("hostfile", ""), ""))
    if hosts and "no_ssh" in values and not {"include", "exclude", "num_gpus", "num_nodes"} & set(values):
        return _listed(world, hosts, topology)
    return world._replace(nodes=None, unknown="the hosts of deepspeed are in a file that Muster cannot see")


def _hosts(text: str) -> list[int] | None:
    """Return the slots of each host, `name slots=4`; None for another form (`runner.py` _parse_hostfile)."""
    slots = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        count = whole(words[1].removeprefix("slots=")) if len(words) == len(("name", "slots")) else None
        if words and count is None:
            return None
        slots += [count or 0] if words else []
    return slots or None


def _listed(world: World, hosts: list[int], topology: Topology) -> World:
    """Return the world of a host file that each node reads for itself (`--no_ssh`)."""
    if len(hosts) > topology.nodes:
        return world._replace(nodes=None, waits=len(hosts))
    processes = hosts[0] if len(set(hosts)) == 1 else None
    return world._replace(nodes=len(hosts), processes=processes)


def _chosen(world: World, values: Mapping[str, str]) -> World:
    """Read `--include localhost:0,1` and `--exclude localhost:3` (deepspeed `runner.py` parse_resource_filter)."""
    keep, leave = (values.get(long) or values.get(short) or "" for long, short in (("include", "i"), ("exclude", "e")))
    host, colon, text = (keep or leave).partition(":")
    slots = _slots(text)
    if (keep and leave) or host != "localhost" or not colon or slots is None:
        return world._replace(unknown="the devices are chosen by --include or --exclude")
    option = "include" if keep else "exclude"
    if world.devices and max(slots) >= world.devices:
        fault = f"names GPU {max(slots)}, and the node has {world.devices}, from 0 on, so deepspeed would not start"
        return world._replace(fault=fault, option=option)
    if keep:
        return world._replace(processes=len(slots))
    return world._replace(processes=world.devices - len(slots)) if world.devices else world


def _slots(text: str) -> set[int] | None:
    """Return the numbers of `0,1` or `0-3`; None where one is not a number, or the text is long."""
    out = set[int]()
    for part in text.split(","):
        low, dash, high = part.partition("-")
        first, last = whole(low), whole(high if dash else low)
        if first is None or last is None or last < first or last - first > _MANY:
            return None
        out |= {*range(first, last + 1)}
    return out


_MANY = 64  # devices of one node


def _on_every_gpu(world: World, env: _Env, topology: Topology) -> World:
    if topology.on_cpu and _shows_others(env):
        return world._replace(nodes=1, devices=None, unknown="the launcher counts the GPUs of the machine")
    if topology.on_cpu:
        doubt = "the launcher starts one process for each GPU, and the job asks for none; ask for GPUs, or use torchrun"
        return world._replace(nodes=1, doubt=doubt)
    return world._replace(nodes=1, processes=world.devices)


def _fabric(world: World, env: _Env, topology: Topology) -> World:
    """Read `fabric run` (lightning_fabric `cli.py`): all its numbers are flags, and none comes from the env."""
    values = _resolved(world.launch, env)
    nodes, processes = whole(values.get("num_nodes", "1")), whole(values.get("devices", "1"))
    known = world._replace(nodes=nodes, processes=processes)
    if nodes is None or processes is None:
        return known._replace(unknown="the value of --num-nodes or --devices is known only in the pod")
    if nodes > topology.nodes:
        return known._replace(nodes=None, waits=nodes)
    if nodes > 1 and "main_address" not in values:
        return known._replace(fault="needs --main-address on several nodes, $(MASTER_ADDR); add it", option="num_nodes")
    if nodes > 1 and whole(values.get("node_rank", "0")) is not None:
        fault = "is the same on all nodes; set it to $(PET_NODE_RANK)"
        return known._replace(fault=fault, option="node_rank")
    return known


def _composer(world: World, env: _Env, topology: Topology) -> World:
    """Read `composer`: WORLD_SIZE counts all processes, and Muster sets it where the job does not."""
    values = world.launch.values
    text = values.get("nproc") or values.get("n") or env.get("LOCAL_WORLD_SIZE") or ""
    processes = whole(text) if text else world.devices
    size = values.get("world_size") or env.get("WORLD_SIZE", "") or ""
    if not size or not processes:
        nodes = topology.nodes if processes == topology.processes or topology.nodes == 1 else None
        return world._replace(nodes=nodes, processes=processes, unknown="" if nodes else _COMPOSER)
    if (every := whole(size)) is None:
        return world._replace(nodes=None, processes=processes, unknown=_COMPOSER)
    return world._replace(nodes=every // processes, processes=processes)


def _mpi(world: World, env: _Env, topology: Topology) -> World:
    """Read `mpirun` and `horovodrun` on one node, where all ranks are in this pod; several nodes are in a file.

    Source: mpirun(1) of Open MPI 5; horovod `runner/common/util/hosts.py` (get_host_assignments).
    """
    unseen = world._replace(nodes=None, unknown=_UNREAD.format(world.launch.launcher.value))
    values = _resolved(world.launch, env)
    asked, slots = whole(values.get("num_proc", "")), _mpi_slots(values.get("hosts", ""))
    if topology.nodes > 1 or asked is None or _ELSEWHERE & set(values):
        return unseen
    if slots is not None and asked > slots and not _SHARING & set(values):
        fault = f"{asked} processes find no place in the {slots} slots of the hosts, and it stops; correct one of them"
        if launches.program(world.launch.head[0]) == "horovodrun":
            return world._replace(nodes=None, fault=fault)
        return world._replace(nodes=None, doubt=fault)  # that of MPICH begins with the first host again
    if topology.on_cpu or (world.devices or 0) < asked:
        return unseen
    return world._replace(nodes=None, processes=asked, own=asked == 1)


def _mpi_slots(text: str) -> int | None:
    """Return the slots of `localhost:4,other:2`, None where a host does not say its own."""
    counts = [whole(each.rpartition(":")[2]) if ":" in each else None for each in text.split(",")]
    return None if None in counts else sum(count or 0 for count in counts)


_ELSEWHERE = frozenset({"hostfile", "host_discovery_script", "min_num_proc", "max_num_proc", "config_file", "app"})
_SHARING = frozenset({"oversubscribe", "map_by", "bind_to"})
_COMPOSER = "the number of all processes, WORLD_SIZE of composer, is known only in the pod"


def _python(world: World, env: _Env, topology: Topology) -> World:
    """Read a plain program: one process, whose number of peers is in WORLD_SIZE (`env://` of torch.distributed)."""
    if "starter" in world.launch.values:
        return _started(world, env, topology)
    size = env.get("WORLD_SIZE", str(topology.nodes) if topology.processes == 1 else "")
    nodes = whole(size)
    return world._replace(nodes=nodes, processes=1, own=True, unknown="" if nodes else "the program itself decides")


def _started(world: World, env: _Env, topology: Topology) -> World:
    """Read a program whose text says how many processes it starts; see `spawns`."""
    values = _own_numbers(world.launch.values, env)
    text = next(values[name] for name in ("devices", "num_processes", "nprocs") if name in values)
    processes = _devices(values, world.devices, topology) if text == "auto" else whole(text)
    nodes = whole(values.get("num_nodes", str(topology.nodes) if topology.nodes == 1 else ""))
    known = world._replace(nodes=nodes, processes=processes)
    if nodes is None or processes is None:
        return known._replace(unknown="the numbers of the program are known only in the pod")
    if nodes > topology.nodes:
        return known._replace(nodes=None, waits=nodes)
    if values.get("accelerator") == "cpu" and topology.devices.count:
        cure = "remove it, or ask for no GPUs"
        doubt = f"the program trains on the CPU (accelerator=cpu), and {topology.devices.count} GPUs are idle; {cure}"
        return known._replace(doubt=doubt)
    if values.get("accelerator") in ("gpu", "cuda") and topology.on_cpu and not _shows_others(env):
        return known._replace(doubt="the program needs GPUs (accelerator=gpu), and the job asks for none; ask for some")
    return known


def _own_numbers(values: Mapping[str, str], env: _Env) -> dict[str, str]:
    return {name: expansions.resolve(expansions.take_defaults(value, env)[0], env) for name, value in values.items()}


def _devices(values: Mapping[str, str], devices: int | None, topology: Topology) -> int | None:
    """Return the processes for `auto`: one for each device, on the CPU one (lightning 2.6 `accelerators/cpu.py`)."""
    return 1 if topology.on_cpu or values.get("accelerator") == "cpu" else devices


def _within(world: World, env: _Env, topology: Topology) -> World:
    """Compare what a program of Lightning's says with the processes that its launcher starts (`torchelastic.py`)."""
    text = world.launch.written.get(world.launch.target)
    values = _own_numbers(spawns.read(text), env) if text is not None and world.world_size else {}
    if values.get("starter") not in ("Trainer", "Fabric"):
        return world
    devices = _devices(values, world.devices, topology) if values["devices"] == "auto" else whole(values["devices"])
    nodes = whole(values["num_nodes"])
    if devices is None or nodes is None or devices * nodes == world.world_size:
        return world
    effect = "each process trains alone" if devices * nodes == 1 else "Lightning stops"
    said = spawns.call({**values, "devices": str(devices)})
    doubt = (
        f"{said} of the program means {devices * nodes} processes, and {world.launch.launcher.value} starts "
        f"{world.world_size}, so {effect}; write devices={world.processes} and num_nodes={world.nodes}"
    )
    return world._replace(doubt=doubt)


_CUDA = frozenset({"nvidia.com", "amd.com"})
_NO_TRAINING = frozenset({"", "env", "skills", "vllm-serve"})
"""Commands of trl that start no training (`trl/cli/commands/__init__.py`)."""
_READERS: Mapping[Launcher, Callable[[World, _Env, Topology], World]] = {
    Launcher.TORCHRUN: _torchrun,
    Launcher.TUNE: _tune,
    Launcher.TRL: _accelerate,
    Launcher.ACCELERATE: _accelerate,
    Launcher.DEEPSPEED: _deepspeed,
    Launcher.COMPOSER: _composer,
    Launcher.MPI: _mpi,
    Launcher.FABRIC: _fabric,
    Launcher.PYTHON: _python,
}
