"""Plans: the launch that an invocation is replaced by, so that all its processes train together.

torchrun is the only launcher that reads what Trainer injects; `trl sft` under the same env trains alone on every node
and exits with 0. Beside process counts, accelerate's packaged presets add a fixed set of env, so they translate
exactly. A launch with other flags of accelerate keeps `trl <method>` and gets all of accelerate's multi-node flags.

`trl <method>` stops at a key of its `--config` file that it does not know, and its scripts do not when they are run as
modules. So torchrun runs the parser and the training of the script by a text, which reads the file as `trl` does.

On one node `trl <method>` finds the devices by itself. There a launch stays as it is where torchrun might not do the
same: with flags of accelerate, or with a `--config` file that may hold such flags.

`--num_processes` counts the processes of all machines, and `--num_machines` is the number of machines, by default 1. So
a launch that was written for one node means its number for each node when the job has several, unless the number is
that of all nodes together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from muster.strategies.documents import names
from muster.strategies.documents.findings import beginning
from muster.strategies.frameworks.trl import flags
from muster.strategies.frameworks.trl.invocations import Form, Invocation
from muster.strategies.launches.launches import STRICT
from muster.strategies.launches.topologies import Topology

__all__ = ["LaunchPlan", "Refused", "plan"]

_TOPOLOGY_FLAGS = frozenset(
    {
        "accelerate_config",
        "machine_rank",
        "main_process_ip",
        "main_process_port",
        "multi_gpu",
        "num_machines",
        "num_processes",
        "rdzv_backend",
        "same_network",
    }
)
_TORCHRUN_FLAGS = frozenset({"max_restarts", "monitor_interval", "rdzv_conf", "role", "tee"})
_KEPT = frozenset({"accelerate_config", "rdzv_backend", "same_network"})
_OWN_DISTRIBUTION = frozenset({"use_fsdp", "use_deepspeed", "use_megatron_lm", "use_parallelism_config", "config_file"})
_OF_TRL = frozenset({Form.TRL, Form.TORCHRUN_TRL})
_SINGLE = "single_gpu"
"""The preset whose launch starts one process, whatever its number of processes."""
_LONG = 10


class LaunchPlan(Struct, frozen=True):
    """A new command line and its reason.

    Attributes:
        head: words up to the script's arguments.
        args: arguments of the script.
        rule: rule id without the framework's prefix.
        reason: why the launch is replaced, one sentence.
        env: env variables to add, by name.
        caveat: what the user has to check, "" for nothing.
    """

    head: tuple[str, ...]
    args: tuple[str, ...]
    rule: str
    reason: str
    env: Mapping[str, str] = field(default_factory=dict)
    caveat: str = ""


class Refused(Struct, frozen=True):
    """No launch of this job would be right; `message` says why and what to do."""

    message: str


def plan(found: Invocation, topology: Topology, *, subdomain: bool) -> LaunchPlan | Refused | None:
    """Return the launch to use instead, None when the invocation is right as it is.

    Args:
        found: the invocation.
        topology: topology of the job, with torchrun's own flags applied.
        subdomain: whether a subdomain or the name of the replicated job makes Trainer's PET_MASTER_ADDR wrong.
    """
    if found.form is Form.TORCHRUN:
        return _torchrun(found, flags.ParsedArgs(), topology, None) if found.said_by else None
    parsed = flags.parse(found.method, found.args)
    if _stays(found, parsed, topology) or _is_faulty(parsed):
        return None
    preset = _preset_name(parsed)
    try:
        per_node = _per_node(parsed, topology, single=preset == _SINGLE)
        if not _counted(found):
            _compare(parsed, topology, per_node)
            if topology.explicit and per_node is None:
                _compare_own(topology)
    except _ContradictionError as contradiction:
        return Refused(str(contradiction))
    used = set(parsed.launcher_values) - _TORCHRUN_FLAGS
    if found.is_program:
        return _torchrun(found, parsed, topology, per_node)  # no `trl` passes flags on to accelerate
    if used <= _TOPOLOGY_FLAGS and ("accelerate_config" not in used or preset):
        return _torchrun(found, parsed, topology, per_node)
    return _accelerate(found, parsed, topology, per_node, subdomain=subdomain)


def _is_faulty(parsed: flags.ParsedArgs) -> bool:
    """Whether accelerate stops at a flag that a new launch would leave out; the launch stays, and is refused for it."""
    return any(fault.index in parsed.launcher_tokens for fault in parsed.faults)


def _counted(found: Invocation) -> bool:
    """Whether torchrun's own options give the number of processes."""
    return any(option.startswith("--nproc") for option in found.options)


def _stays(found: Invocation, parsed: flags.ParsedArgs, topology: Topology) -> bool:
    """Whether the launch is right without a change."""
    if found.said_by or found.form not in (Form.TRL, Form.MODULE):
        return False
    if found.form is Form.MODULE:
        return topology.processes == 1 and not parsed.launcher_values
    if topology.nodes > 1 or _machines(parsed) not in (None, 1):
        return False
    preset = _preset_name(parsed)
    if parsed.launcher_values:
        return preset in ("", _SINGLE)
    if topology.processes == 1:
        return topology.devices.count in (0, 1, None)  # on more devices, trl would start more than the one process
    return topology.processes is None or parsed.config_file is not None


def _preset_name(parsed: flags.ParsedArgs) -> str:
    """Return the packaged preset that is named, "" for none and for the user's own file."""
    name = str(parsed.launcher_values.get("accelerate_config", ""))
    return name if name in flags.presets() else ""


def _torchrun(found: Invocation, parsed: flags.ParsedArgs, topology: Topology, per_node: str | None) -> LaunchPlan:
    preset = _preset_name(parsed)
    options = [*found.options, *_translated(parsed)]
    if per_node is None and topology.devices.kind == "claim" and topology.processes is None:
        per_node = "gpu"  # torchrun counts the devices of a claim of unknown size
    if per_node is not None and per_node != str(topology.processes) and not _counted(found):
        options.append(f"--nproc_per_node={per_node}")
    args = [arg for index, arg in enumerate(found.args) if index not in parsed.launcher_tokens]
    return LaunchPlan(
        head=(*found.torchrun, *options, *_script(found, parsed)),
        args=tuple(args),
        rule="accelerate-preset" if preset else "launch",
        reason=_reason(found, preset, topology, per_node),
        env=flags.preset_environment(preset) if preset else {},
        caveat=_hidden(parsed) if found.form in _OF_TRL else "",
    )


def _script(found: Invocation, parsed: flags.ParsedArgs) -> tuple[str, ...]:
    """Return the words by which torchrun runs the script, as strict about a file of settings as the author's launch."""
    if found.form in _OF_TRL and parsed.config_file is not None:
        return ("--", "-c", STRICT.format(found.module))
    return ("-m", found.module)


def _reason(found: Invocation, preset: str, topology: Topology, per_node: str | None) -> str:
    """Return why torchrun is used, as it is for this job: nothing about nodes that train alone where there is one."""
    alone = topology.nodes == 1
    ignored = "the number of processes" if alone or topology.processes != 1 else "the nodes and processes"
    why = {
        Form.TRL: f"trl starts accelerate, which ignores {ignored} in Trainer's PET_* env",
        Form.TORCHRUN: f"the method {found.method} comes from the {found.said_by}",
        Form.TORCHRUN_TRL: "torchrun around trl starts a launcher in every rank, and the job hangs",
        Form.MODULE: f"python alone starts one process{'' if alone else ' on each node'}",
        Form.IMPLIED: f"the job has no command, and the method {found.method} comes from the {found.said_by}",
    }[found.form]
    if preset:
        why += f"; accelerate's preset {preset} is kept as its env, without its number of processes"
    if not alone:
        return f"{why}; torchrun reads PET_* and spans all nodes"
    count = per_node or str(topology.processes or "")
    started = f"{count} process{'es' if count != '1' else ''}" if count.isdecimal() else "the processes of this job"
    return f"{why}; torchrun starts {started}"


def _translated(parsed: flags.ParsedArgs) -> list[str]:
    """Return the flags that accelerate would pass to torchrun unchanged."""
    handed = {name: value for name, value in parsed.launcher_values.items() if name in _TORCHRUN_FLAGS}
    if parsed.launcher_values.get("rdzv_backend", "static") != "static":
        handed["rdzv_backend"] = parsed.launcher_values["rdzv_backend"]
    return [f"--{name}={value}" for name, value in handed.items()]


def _hidden(parsed: flags.ParsedArgs) -> str:
    if parsed.config_file is None:
        return ""
    file = parsed.config_file
    return f"Muster cannot read {file}; the launch stops at settings of accelerate in it, so write them here"


def _accelerate(
    found: Invocation, parsed: flags.ParsedArgs, topology: Topology, per_node: str | None, *, subdomain: bool
) -> LaunchPlan | Refused:
    head = (*found.prefix, *(found.head if found.form is Form.TRL else ("trl",)), found.method)
    lacking = "the launch uses flags of accelerate that torchrun lacks"
    if topology.nodes == 1 and not _preset_name(parsed):
        return LaunchPlan(head, found.args, "accelerate", lacking)
    if (topology.on_cpu or "cpu" in parsed.launcher_values) and topology.is_distributed:
        return Refused(
            "accelerate's flags do not reliably span processes on CPU; remove them, and Muster uses torchrun"
        )
    processes = topology.processes if per_node is None else _whole(per_node)
    if processes is None:
        return Refused("the number of processes is not known, so accelerate's flags cannot be set; set numProcPerNode")
    drop = _words(found.args, parsed, _TOPOLOGY_FLAGS - _KEPT)
    kept = [arg for index, arg in enumerate(found.args) if index not in drop]
    config = str(parsed.launcher_values.get("accelerate_config", ""))
    own = bool(config and config not in flags.presets())
    caveat = f"Muster cannot read {config}; check its distributed_type" if own else ""
    all_ = f"{lacking}, so all of accelerate's multi-node flags are set"
    one = f"{lacking}, and its preset {_preset_name(parsed)} alone would start 8 processes, so their number is set"
    reason = all_ if topology.nodes > 1 else one
    added = _multi_node(parsed, topology.nodes, processes, subdomain=subdomain)
    return LaunchPlan(head, (*kept, *added), "accelerate", reason, caveat=caveat)


def _multi_node(parsed: flags.ParsedArgs, nodes: int, processes: int, *, subdomain: bool) -> Sequence[str]:
    """Return all flags that `accelerate launch` needs; `--multi_gpu` only where no other mode distributes."""
    host, port = (names.MASTER_ADDR, names.MASTER_PORT) if subdomain else (names.PET_MASTER_ADDR, names.PET_MASTER_PORT)
    values = parsed.launcher_values
    env = flags.preset_environment(_preset_name(parsed)) if _preset_name(parsed) else {}
    own_file = "accelerate_config" in values and not _preset_name(parsed)
    sharded = (
        own_file or _OWN_DISTRIBUTION & set(values) or {"ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"} & {*env}
    )
    ssh = "use_deepspeed" in values and "deepspeed_multinode_launcher" not in values and nodes > 1
    return (
        *(() if sharded or nodes * processes == 1 else ("--multi_gpu",)),
        *(("--deepspeed_multinode_launcher", "standard") if ssh else ()),
        *("--num_machines", str(nodes), "--num_processes", str(nodes * processes)),
        *("--machine_rank", f"$({names.PET_NODE_RANK})"),
        *("--main_process_ip", f"$({host})", "--main_process_port", f"$({port})"),
    )


class _ContradictionError(ValueError):
    """Numbers that contradict each other; the message says which and what to do."""


def _machines(parsed: flags.ParsedArgs) -> int | None:
    """Return `--num_machines`, None when it is missing or its value is known only in the pod."""
    return _whole(parsed.launcher_values.get("num_machines"))


def _per_node(parsed: flags.ParsedArgs, topology: Topology, *, single: bool) -> str | None:
    """Return the processes of one node as text for torchrun, None where the flags leave them to the job.

    Args:
        parsed: the arguments.
        topology: topology of the job.
        single: whether the preset in use is the one for one process.

    Raises:
        _ContradictionError: the numbers do not fit each other or the nodes.
    """
    count = _machines(parsed)
    if count not in (None, 1, topology.nodes):
        nodes = f"{topology.nodes} node{'s' if topology.nodes != 1 else ''}"
        raise _ContradictionError(f"--num_machines is {count}, and the job has {nodes}; remove the flag")
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
    total = _whole(written)
    if total is None or total % topology.nodes:
        raise _ContradictionError(
            f"--num_processes {written} cannot be divided among {topology.nodes} nodes; remove it"
        )
    return str(total // topology.nodes)


def _compare(parsed: flags.ParsedArgs, topology: Topology, asked: str | None) -> None:
    """Compare the processes of one node with its devices, where both are known; `asked` is what `_per_node` returned.

    Raises:
        _ContradictionError: there are more processes than devices, or too few for a mode that needs several.
    """
    devices = topology.devices.count
    if "multi_gpu" in parsed.launcher_values and _whole(parsed.launcher_values.get("num_processes")) in (0, 1):
        raise _ContradictionError("--multi_gpu needs a --num_processes of 2 or more, and accelerate stops; remove both")
    if not devices or (_whole(asked) or 0) <= devices:
        return
    flag = "num_processes" if "num_processes" in parsed.launcher_values else "gpu_ids"
    kind = "MIG slice that a process can use" if topology.devices.kind == "mig" else "GPU"
    each, node = (" on each node", "each") if topology.nodes > 1 else ("", "the node")
    right = f", or set {topology.nodes * devices}" if flag == "num_processes" else ""
    raise _ContradictionError(
        f"--{flag} {beginning(str(parsed.launcher_values[flag]), 40)} asks for {_whole(asked)} processes{each}, "
        f"and {node} has {devices} {kind}{'s' if devices != 1 else ''}; remove it{right}"
    )


def _whole(written: object) -> int | None:
    """Return the number that a flag's value is; None where it is none. A very long one counts as 10^9."""
    if not isinstance(written, str) or not written.isdecimal():
        return None
    return int(written) if len(written) < _LONG else 10 ** (_LONG - 1)


def _words(args: Sequence[str], parsed: flags.ParsedArgs, wanted: frozenset[str]) -> set[int]:
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


def _compare_own(topology: Topology) -> None:
    """Compare the job's own number of processes, which torchrun would take, with the devices of a node.

    Raises:
        _ContradictionError: there are more processes than devices.
    """
    devices, asked = topology.devices.count, topology.processes
    if devices and asked is not None and asked > devices:
        message = f"numProcPerNode asks for {asked} processes on each node, and a node has {devices} devices; lower it"
        raise _ContradictionError(message)
