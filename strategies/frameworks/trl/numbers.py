"""Numbers: how many processes the flags of accelerate ask for on one node.

`--num_processes` counts the processes of all machines, and `--num_machines` is the number of machines, by default 1. So
a launch that was written for one node means its number for each node when the job has several, unless the number is
that of all nodes together.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.strategies.documents.findings import beginning
from muster.strategies.frameworks.trl import flags, parsing
from muster.strategies.launches.topologies import Topology

__all__ = ["ContradictionError", "compare", "compare_own", "machines", "per_node", "whole", "words"]


_LONG = 10


class ContradictionError(ValueError):
    """Numbers that contradict each other; the message says which and what to do."""


def machines(parsed: parsing.ParsedArgs) -> int | None:
    """Return `--num_machines`, None when it is missing or its value is known only in the pod."""
    return whole(parsed.launcher_values.get("num_machines"))


def per_node(parsed: parsing.ParsedArgs, topology: Topology, *, single: bool) -> str | None:
    """Return the processes of one node as text for torchrun, None where the flags leave them to the job.

    Args:
        parsed: the arguments.
        topology: topology of the job.
        single: whether the preset in use is the one for one process.

    Raises:
        ContradictionError: the numbers do not fit each other or the nodes.
    """
    count = machines(parsed)
    if count not in (None, 1, topology.nodes):
        nodes = f"{topology.nodes} node{'s' if topology.nodes != 1 else ''}"
        raise ContradictionError(f"--num_machines is {count}, and the job has {nodes}; remove the flag")
    written = parsed.launcher_values.get("num_processes")
    if not isinstance(written, str) or written == "0":
        chosen = parsed.launcher_values.get("gpu_ids")
        if isinstance(chosen, str) and chosen != "all" and "$(" not in chosen:
            return str(len(chosen.split(",")))
        return "1" if single else None
    if written == str(topology.world_size):
        return None
    if count in (None, 1):
        return written
    total = whole(written)
    if total is None or total % topology.nodes:
        raise ContradictionError(f"--num_processes {written} cannot be divided among {topology.nodes} nodes; remove it")
    return str(total // topology.nodes)


def compare(parsed: parsing.ParsedArgs, topology: Topology, asked: str | None) -> None:
    """Compare the processes of one node with its devices, where both are known; `asked` is what `per_node` returned.

    Raises:
        ContradictionError: there are more processes than devices, or too few for a mode that needs several.
    """
    devices = topology.devices.count
    if "multi_gpu" in parsed.launcher_values and whole(parsed.launcher_values.get("num_processes")) in (0, 1):
        raise ContradictionError("--multi_gpu needs a --num_processes of 2 or more, and accelerate stops; remove both")
    if not devices or (whole(asked) or 0) <= devices:
        return
    flag = "num_processes" if "num_processes" in parsed.launcher_values else "gpu_ids"
    kind = "MIG slice that a process can use" if topology.devices.kind == "mig" else "GPU"
    each, node = (" on each node", "each") if topology.nodes > 1 else ("", "the node")
    right = f", or set {topology.nodes * devices}" if flag == "num_processes" else ""
    raise ContradictionError(
        f"--{flag} {beginning(str(parsed.launcher_values[flag]), 40)} asks for {whole(asked)} processes{each}, "
        f"and {node} has {devices} {kind}{'s' if devices != 1 else ''}; remove it{right}"
    )


def whole(written: object) -> int | None:
    """Return the number that a flag's value is; None where it is none. A very long one counts as 10^9."""
    if not isinstance(written, str) or not written.isdecimal():
        return None
    return int(written) if len(written) < _LONG else 10 ** (_LONG - 1)


def words(args: Sequence[str], parsed: parsing.ParsedArgs, wanted: frozenset[str]) -> set[int]:
    """Return the indexes of the wanted launcher flags and of their values."""
    starts = dict(parsed.launcher)
    out: set[int] = set()
    taking = False
    for index in range(len(args)):
        if index not in parsed.launcher_tokens:
            taking = False
        elif index in starts:
            found = flags.launcher_spec(starts[index])
            taking = found is not None and found.name in wanted
        if taking:
            out.add(index)
    return out


def compare_own(topology: Topology) -> None:
    """Compare the job's own number of processes, which torchrun would take, with the devices of a node.

    Raises:
        ContradictionError: there are more processes than devices.
    """
    devices, asked = topology.devices.count, topology.processes
    if devices and asked is not None and asked > devices:
        message = f"numProcPerNode asks for {asked} processes on each node, and a node has {devices} devices; lower it"
        raise ContradictionError(message)
