"""What launchers really make of pods: a small model, written from their sources and not from Muster's.

`outcome` takes the command line and env of each node and says which processes meet. It knows no wrapper and no shell:
what those do to env and words is for its caller. Sources:

* torch 2.13.0 `torch/distributed/run.py` (parser, `run`, `config_from_args`), `argparse_util.py` (PET_* defaults),
  `elastic/rendezvous/static_tcp_rendezvous.py`, `elastic/rendezvous/dynamic_rendezvous.py` and
  `c10d_rendezvous_backend.py` (who is host), `torch/distributed/rendezvous.py` (`env://`);
* accelerate 1.15.0 `commands/launch.py` (`_validate_launch_command`, `launch_command`), `utils/launch.py`
  (`prepare_multi_gpu_env`, `_filter_args`);
* trl 1.16.0 `trl/cli/commands/training.py`, `trl/cli/accelerate_config.py`, `trl/accelerate_configs/*.yaml`;
* torchtune 0.6.1 `torchtune/_cli/run.py`; deepspeed 0.18.2 `launcher/runner.py`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Broken", "Node", "Worlds", "outcome"]

PRESETS = {"multi_gpu": "multi_gpu", "single_gpu": "", "fsdp1": "fsdp", "fsdp2": "fsdp", "zero1": "ds", "zero2": "ds"}
PRESETS["zero3"] = "ds"
SINGLE_DEVICE, DISTRIBUTED = "_single_device", "_distributed"
_LOOPBACK = ("localhost", "127.", "::1", "[::1]")


@dataclass(frozen=True)
class Node:
    """A pod: its DNS name, its command line and env, what it sees of devices, and its CPUs."""

    host: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    devices: int = 0
    cpus: int = 4


@dataclass(frozen=True)
class Worlds:
    """The groups that meet, each as (nodes, processes); sorted, the largest first."""

    groups: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int | None:
        """The size of the only world; None where there are several."""
        return self.groups[0][1] if len(self.groups) == 1 else None


@dataclass(frozen=True)
class Broken:
    """The launch ends with an error, or waits for ever."""

    why: str


class _StopError(Exception):
    pass


@dataclass(frozen=True)
class _Agent:
    """What one node brings to a meeting: torchrun's agent, or a plain process."""

    node: int
    processes: int
    place: object  # those who name the same place meet there
    low: int
    high: int
    rank: int | None  # None: the store hands out the ranks
    serves: bool  # whether the store, if it is this node's to open, opens where the others look for it


def outcome(nodes: Sequence[Node]) -> Worlds | Broken:
    """Return which processes of the nodes meet."""
    try:
        agents = [_start(number, node, nodes) for number, node in enumerate(nodes)]
        return _meet(agents)
    except _StopError as stopped:
        return Broken(str(stopped))


def _meet(agents: Iterable[_Agent]) -> Worlds:
    places: dict[object, list[_Agent]] = defaultdict(list)
    for agent in agents:
        places[agent.place].append(agent)
    groups = []
    for meeting in places.values():
        first = meeting[0]
        if len({(each.low, each.high, each.rank is None) for each in meeting}) > 1:
            raise _StopError("the nodes expect different numbers of nodes")
        if first.rank is None:
            if not first.low <= len(meeting) <= first.high:
                raise _StopError(f"{len(meeting)} nodes came, {first.low} to {first.high} are wanted")
        elif sorted(each.rank or 0 for each in meeting) != list(range(first.high)):
            raise _StopError("the ranks of the nodes are not 0, 1, ...")
        if not any(each.serves for each in meeting):
            raise _StopError("nobody opens the store where the others look for it")
        groups.append((len(meeting), sum(each.processes for each in meeting)))
    return Worlds(tuple(sorted(groups, reverse=True)))


def _start(number: int, node: Node, nodes: Sequence[Node]) -> _Agent:
    name = node.argv[0].rsplit("/", 1)[-1]
    words = list(node.argv[1:])
    if name == "torchrun":
        return _torchrun(number, node, nodes, _parse_torchrun(words, node.env))
    if name == "tune" and words[:1] == ["run"]:
        return _tune(number, node, nodes, words[1:])
    if name in ("accelerate", "accelerate-launch"):
        return _accelerate(number, node, nodes, words[1:] if name == "accelerate" else words)
    if name == "trl":
        return _trl(number, node, nodes, words[1:])
    if name == "deepspeed":
        return _deepspeed(number, node, words)
    if name.startswith("python"):
        return _python(number, node, nodes, words)
    raise _StopError(f"the model does not know {name}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # argparse says that it never returns
        raise _StopError(message)


# torch/distributed/run.py get_args_parser: option, default, type.
_TORCHRUN = {
    "nnodes": ("1:1", str), "nproc-per-node": ("1", str), "rdzv-backend": ("static", str), "rdzv-endpoint": ("", str),
    "rdzv-id": ("none", str), "rdzv-conf": ("", str), "max-restarts": (0, int), "monitor-interval": (0.1, float),
    "start-method": ("spawn", str), "event-log-handler": ("null", str), "role": ("default", str),
    "log-dir": (None, str), "redirects": ("0", str), "tee": ("0", str), "local-ranks-filter": ("", str),
    "node-rank": (0, int), "master-addr": ("127.0.0.1", str), "master-port": (None, int), "local-addr": (None, str),
}  # fmt: skip


def _torchrun_parser(env: Mapping[str, str], script: str = "script") -> _Parser:
    parser = _Parser(add_help=False)
    for option, (default, kind) in _TORCHRUN.items():
        under = option.replace("-", "_")
        spellings = {f"--{option}", f"--{under}"}
        shorts = {"redirects": ["-r"], "tee": ["-t"]}.get(option, [])
        # class env of argparse_util.py: a text as default, which argparse converts by `type`.
        value = env.get(f"PET_{under.upper()}", default)
        parser.add_argument(*shorts, *sorted(spellings), dest=under, type=kind, default=value)
    for option in ("standalone", "no-python", "run-path"):
        under = option.replace("-", "_")
        value = bool(int(env.get(f"PET_{under.upper()}", "0")))
        parser.add_argument(*sorted({f"--{option}", f"--{under}"}), dest=under, action="store_true", default=value)
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument(script)
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    return parser


def _parse_torchrun(words: Sequence[str], env: Mapping[str, str]) -> argparse.Namespace:
    return _torchrun_parser(env).parse_args(list(words))


def _torchrun(number: int, node: Node, nodes: Sequence[Node], args: argparse.Namespace) -> _Agent:
    """`run` and `config_from_args`."""
    low, high = _range(args.nnodes)
    own = args.standalone or (
        args.rdzv_backend == "static" and not args.rdzv_endpoint and args.master_port is None and high == 1
    )
    processes = _per_node(args.nproc_per_node, node)
    if own:
        return _checked(node, _Agent(number, processes, ("own store", number), low, high, None, serves=True))
    port = 29500 if args.master_port is None else args.master_port
    if args.rdzv_backend == "static":
        endpoint = args.rdzv_endpoint or f"{args.master_addr}:{port}"
        place = _resolve(endpoint, number, nodes)
        serves = args.node_rank == 0 and place[0] == number
        return _checked(node, _Agent(number, processes, ("static", *place), low, high, args.node_rank, serves))
    if args.rdzv_backend != "c10d":
        raise _StopError(f"the model does not know the backend {args.rdzv_backend}")
    place = _resolve(args.rdzv_endpoint or "localhost", number, nodes)
    serves = place[0] == number
    return _checked(node, _Agent(number, processes, ("c10d", *place, args.rdzv_id), low, high, None, serves))


def _checked(node: Node, agent: _Agent) -> _Agent:
    if node.devices and agent.processes > node.devices:
        raise _StopError(f"{agent.processes} processes on {node.devices} devices")
    return agent


def _range(text: str) -> tuple[int, int]:
    parts = text.split(":")
    try:
        numbers = [int(part) for part in parts]
    except ValueError as error:
        raise _StopError(f"nnodes {text}") from error
    low, high = numbers[0], numbers[-1]
    if len(parts) > 2 or not 0 < low <= high:
        raise _StopError(f"nnodes {text}")
    return low, high


def _per_node(text: str, node: Node) -> int:
    """`determine_local_world_size`."""
    if text.lstrip("-").isdigit():
        if int(text) < 1:
            raise _StopError("no processes")
        return int(text)
    if text == "auto":
        return node.devices or node.cpus
    if text == "cpu":
        return node.cpus
    if text == "gpu" and node.devices:
        return node.devices
    raise _StopError(f"nproc_per_node {text}")


def _resolve(endpoint: str, number: int, nodes: Sequence[Node]) -> tuple[int, str]:
    """Return the node that an address means to a node, and the port."""
    host, _, port = endpoint.rpartition(":") if ":" in endpoint.rsplit("]", 1)[-1] else (endpoint, "", "29400")
    if host.startswith(_LOOPBACK):
        return number, port
    for other, each in enumerate(nodes):
        if host == each.host:
            return other, port
    raise _StopError(f"nobody is called {host}")


def _plain(number: int, node: Node, nodes: Sequence[Node]) -> _Agent:
    """One process that asks `env://`, or trains alone where nothing tells it of others."""
    needed = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if not all(name in node.env for name in needed) or int(node.env.get("LOCAL_RANK", "-1")) == -1:
        return _Agent(number, 1, ("alone", number), 1, 1, None, serves=True)
    place = _resolve(f"{node.env['MASTER_ADDR']}:{node.env['MASTER_PORT']}", number, nodes)
    rank, size = int(node.env["RANK"]), int(node.env["WORLD_SIZE"])
    serves = rank == 0 and place[0] == number
    return _Agent(number, 1, ("env", *place), size, size, rank, serves)


def _python(number: int, node: Node, nodes: Sequence[Node], words: list[str]) -> _Agent:
    while words and words[0].startswith("-") and words[0] != "-m":
        words = words[1:]
    module = words[1] if words[:1] == ["-m"] else ""
    if module == "torch.distributed.run":
        return _torchrun(number, node, nodes, _parse_torchrun(words[2:], node.env))
    if module == "accelerate.commands.launch":
        return _accelerate(number, node, nodes, words[2:])
    return _plain(number, node, nodes)


# accelerate/commands/launch.py launch_command_parser: what decides how many processes start, and flags beside it.
_NUMBERS = ("num_processes", "num_machines", "machine_rank", "main_process_port", "num_cpu_threads_per_process")
_TEXTS = ("main_process_ip", "mixed_precision", "config_file", "gpu_ids", "dynamo_backend", "rdzv_conf")
_SWITCHES = ("multi_gpu", "cpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "same_network", "no_python", "quiet")


def _accelerate_parser() -> _Parser:
    parser = _Parser(add_help=False)
    for name in _NUMBERS:
        parser.add_argument(*_both(name), dest=name, type=int)
    for name in _TEXTS:
        parser.add_argument(*_both(name), dest=name)
    for name in _SWITCHES:
        parser.add_argument(*_both(name), dest=name, action="store_true")
    parser.add_argument(*_both("rdzv_backend"), dest="rdzv_backend", default="static")
    parser.add_argument(*_both("max_restarts"), dest="max_restarts", type=int, default=0)
    parser.add_argument("-m", "--module", action="store_true")
    return parser


def _both(name: str) -> list[str]:
    return sorted({f"--{name}", f"--{name.replace('_', '-')}"})


def _accelerate(number: int, node: Node, nodes: Sequence[Node], words: Sequence[str]) -> _Agent:
    parser = _accelerate_parser()
    parser.add_argument("training_script")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    return _accelerated(number, node, nodes, parser.parse_args(list(words)))


def _accelerated(number: int, node: Node, nodes: Sequence[Node], args: argparse.Namespace) -> _Agent:
    """`_validate_launch_command`, then the launcher that `launch_command` picks."""
    if sum([args.multi_gpu, args.cpu, args.use_deepspeed, args.use_fsdp]) > 1:
        raise _StopError("only one of --cpu, --multi_gpu, --use_deepspeed, --use_fsdp")
    if args.multi_gpu and args.num_processes is not None and args.num_processes < 2:
        raise _StopError("at least 2 processes to use --multi_gpu")
    preset = PRESETS.get(args.config_file or "")
    if args.config_file is not None and preset is None:
        raise _StopError("the model does not know this file")
    if preset is not None:  # `defaults`: the file fills what the flags leave open
        args.multi_gpu = args.multi_gpu or preset == "multi_gpu"
        args.use_fsdp = args.use_fsdp or preset == "fsdp"
        args.use_deepspeed = args.use_deepspeed or preset == "ds"
        args.num_processes = 8 if args.num_processes is None else args.num_processes
        args.num_machines = 1 if args.num_machines is None else args.num_machines
        args.machine_rank = 0 if args.machine_rank is None else args.machine_rank
    else:
        args.num_processes = node.devices if args.num_processes is None else args.num_processes
        args.multi_gpu = args.multi_gpu or (args.num_processes > 1 and node.devices > 1)
        args.num_machines = 1 if args.num_machines is None else args.num_machines
    spans = args.multi_gpu or args.use_fsdp or args.use_deepspeed or args.use_megatron_lm
    if args.cpu or not spans:
        if args.num_machines > 1 and (args.main_process_ip is None or args.main_process_port is None):
            raise _StopError("the IP and the port of the main process")
        return _plain(number, node, nodes)
    return _elastic(number, node, nodes, args)


def _elastic(number: int, node: Node, nodes: Sequence[Node], args: argparse.Namespace) -> _Agent:
    """`prepare_multi_gpu_env` and `_filter_args`: torchrun's parser with PET_* defaults, overwritten here and there."""
    run = _torchrun_parser(node.env).parse_args(["--", "script"])
    run.rdzv_backend, run.max_restarts = args.rdzv_backend, args.max_restarts
    port = 29500 if args.main_process_port is None else args.main_process_port
    if args.num_machines > 1:
        if args.machine_rank is None:
            raise _StopError("int(None): no --machine_rank")
        run.nproc_per_node = str(args.num_processes // args.num_machines)
        run.nnodes, run.node_rank = str(args.num_machines), args.machine_rank
        if args.same_network:
            run.master_addr, run.master_port = str(args.main_process_ip), port
        else:
            run.rdzv_endpoint = f"{args.main_process_ip}:{port}"
    else:
        run.nproc_per_node, run.master_port = str(args.num_processes), port
    return _torchrun(number, node, nodes, run)


def _trl(number: int, node: Node, nodes: Sequence[Node], words: Sequence[str]) -> _Agent:
    """`TrainingCommand.run`: accelerate gets what TRL's own parser leaves, and a preset by its name."""
    args, _ = _accelerate_parser().parse_known_args(_own(list(words)))
    return _accelerated(number, node, nodes, args)


def _own(words: list[str]) -> list[str]:
    if "--accelerate_config" in words:  # `resolve_accelerate_config_argument`
        place = words.index("--accelerate_config")
        words = ["--config_file", words[place + 1], *words[:place], *words[place + 2 :]]
    return words


def _tune(number: int, node: Node, nodes: Sequence[Node], words: Sequence[str]) -> _Agent:
    """`_run_cmd`: torchrun where a flag of it stands before the recipe, and standalone without an endpoint."""
    args = _torchrun_parser(node.env, "recipe").parse_args(list(words))
    if "--config" not in args.rest:
        raise _StopError("The '--config' argument is required.")
    distributed = len(words) > len(args.rest) + 1
    if args.recipe.endswith(SINGLE_DEVICE):
        if distributed:
            raise _StopError("does not support distributed training")
        return _Agent(number, 1, ("alone", number), 1, 1, None, serves=True)
    if not distributed and not args.recipe.endswith(DISTRIBUTED):
        return _plain(number, node, nodes)
    if not distributed:
        found = _plain(number, node, nodes)
        if found.place == ("alone", number):
            raise _StopError("a distributed recipe without RANK")
        return found
    if not args.rdzv_endpoint:
        args.standalone = True
    return _torchrun(number, node, nodes, args)


def _deepspeed(number: int, node: Node, words: Sequence[str]) -> _Agent:
    """`main` without a hostfile: local resources only."""
    parser = _Parser(add_help=False)
    parser.add_argument("--num_gpus", type=int, default=-1)
    parser.add_argument("--num_nodes", type=int, default=-1)
    parser.add_argument("--master_port", type=int, default=29500)
    parser.add_argument("--master_addr", default="")
    parser.add_argument("script")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    args = parser.parse_args(list(words))
    if args.num_nodes > 1:
        raise _StopError("Num nodes is >1 but no extra nodes available via hostfile")
    if not node.devices:
        raise _StopError("no devices")
    if args.num_gpus > node.devices:
        raise _StopError(f"{args.num_gpus} processes on {node.devices} devices")
    processes = args.num_gpus if args.num_gpus > 0 else node.devices
    return _Agent(number, processes, ("own store", number), 1, 1, None, serves=True)
