"""Kinds: what a command line starts, as `muster.strategies.jobs.parts` needs it to find the training of a JobSet."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from muster.strategies.documents import names
from muster.strategies.jobs.containers import Kind, Program
from muster.strategies.launches import launches, readings
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.readings import Reading

__all__ = ["identify"]

_OTHERS = {
    Launcher.MPI: Kind.REMOTE,
    Launcher.VLLM: Kind.SERVER,
    Launcher.PYTHON: Kind.PYTHON,
    Launcher.NONE: Kind.UNKNOWN,
    Launcher.SHELL: Kind.UNKNOWN,
    Launcher.OTHER: Kind.UNKNOWN,
}
_SERVED = ("vllm.entrypoints", "sglang", "trl.scripts.vllm_serve")
_SERVERS = frozenset({"sglang", "text-generation-launcher", "tritonserver", "vllm-router"})
_REMOTE = frozenset({"mpirun", "mpiexec", "horovodrun", "orterun", "srun"})
_PODS = frozenset({"ray", "sshd"})
_IDLE = frozenset(
    {"sleep", "tail", "tensorboard", "cat", "pause", "fluent-bit", "fluentd", "pilot-agent"}
    | {"dcgm-exporter", "node-exporter", "nv-hostengine", "nvidia-cuda-mps-control"}
)
_TRL_TOOLS = frozenset({"vllm-serve", "env", "skills"})
_OWN = frozenset({"node_rank", "machine_rank"})
_OURS = f"$({names.PET_NODE_RANK})"
"""A rank that stands in env, which the job may have or not."""
_UNSEEN = "$"
_GIVEN = frozenset({"PET_NODE_RANK", "NODE_RANK", "RANK"})
_MASTERS = frozenset({"master_addr", "main_process_ip", "rdzv_endpoint"})
_NODES = ("nnodes", "num_machines")
_ASKED = "".join({name[0] for name in (*_OWN, *_NODES, *_MASTERS)})
_DIGITS = 9


def identify(argv: Sequence[str]) -> Program:
    """Return what a command line starts: of several programs a launcher of a training, else the last."""
    words = tuple(argv)
    return _remembered(words) if sum(map(len, words)) <= _SHORT else _identified(words)


_SHORT = 2_048  # characters of a command line that is remembered


def _identified(argv: tuple[str, ...]) -> Program:
    if not argv:
        return Program()
    reading = readings.read(argv)
    if reading.launches:
        launched = next((launch for launch in reading.launches if _kind(launch) >= Kind.LAUNCHER), None)
        if launched is not None:
            return _of_launch(launched)
        return _driver(reading) or _of_launch(reading.launches[-1])
    return Program(_by_name(launches.program(argv[0]), read=not reading.unread))


_remembered = functools.lru_cache(maxsize=256)(_identified)  # a decision asks some five times, and jobs are alike


def _driver(reading: Reading) -> Program | None:
    """Return the program that runs on the cluster of Ray which the command line starts, None where none does.

    Ray places its processes in all pods that joined (ray `ray/_private/worker.py`, `ray.init`). What runs before
    the cluster starts only prepares it.
    """
    every = (*reading.beside, *reading.launches)
    heads = [index for index, each in enumerate(every) if _is_head(each)]
    if not heads:
        return None
    after = [_of_launch(each) for each in every[heads[0] :]]
    drivers = [each for each in after if each.kind in (Kind.PYTHON, Kind.SERVER)]
    if drivers:
        return replace(drivers[-1], kind=Kind.REMOTE) if drivers[-1].kind is Kind.PYTHON else None
    return Program(Kind.REMOTE, Launcher.RAY.value) if reading.unread else None


def _is_head(launch: Launch) -> bool:
    return launch.launcher is Launcher.RAY and launch.target == "start" and "--head" in launch.rest


def _by_name(name: str, *, read: bool) -> Kind:
    if name in _SERVERS:
        return Kind.SERVER
    if name in _REMOTE:
        return Kind.REMOTE
    if name in _PODS:
        return Kind.CLUSTER
    return Kind.IDLE if read or name in _IDLE else Kind.UNKNOWN


def _of_launch(launch: Launch) -> Program:
    options = list(launch.values.items()) or list(_options((*launch.options, *launch.rest), _ASKED))
    given = [value for name, value in options if name in _OWN and _OURS not in value]
    given += [value or _UNSEEN for name, value in launch.env.items() if name in _GIVEN]
    return Program(
        kind=_kind(launch),
        launcher=launch.launcher.value,
        target=launch.target,
        nodes=next((int(value) for name, value in options if name in _NODES and _is_count(value)), None),
        rank=given[0] if given else "",
        master=next((value for name, value in options if name in _MASTERS), ""),
    )


def _is_count(value: str) -> bool:
    return value.isdecimal() and len(value) <= _DIGITS


def _kind(launch: Launch) -> Kind:
    if launch.launcher is Launcher.TRL and launch.target in _TRL_TOOLS:
        return Kind.SERVER if launch.target == "vllm-serve" else Kind.IDLE
    if launch.launcher is Launcher.RAY:
        return Kind.REMOTE if "submit" in launch.head else Kind.CLUSTER
    if launch.module and launch.target.startswith(_SERVED):
        return Kind.SERVER
    if launch.launcher is Launcher.DEEPSPEED and "hostfile" in launch.values and "no_ssh" not in launch.values:
        return Kind.REMOTE
    return _OTHERS.get(launch.launcher, Kind.LAUNCHER)


def _options(words: Sequence[str], initials: str) -> Iterator[tuple[str, str]]:
    """Yield the words that look like options with these initials, by name with _ for -, and the value beside each."""
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        if word.startswith("-") and word.lstrip("-")[:1] in initials:
            name, equals, value = word.lstrip("-").partition("=")
            yield name.replace("-", "_"), value if equals else following
