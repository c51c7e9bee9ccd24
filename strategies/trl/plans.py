"""Plans: what an invocation has to become so that all its processes train together.

torchrun is the one launcher that reads what Trainer injects (facts: `trl sft` under the same env trains alone on every
node, exit 0). What accelerate's packaged presets add beside process counts is a fixed set of env, so they translate
exactly. A launch with other flags of accelerate keeps `trl <method>`, and gets all of its multi-node flags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strategies import names
from strategies.topologies import Topology
from strategies.trl import flags
from strategies.trl.invocations import SCRIPTS, Form, Invocation

__all__ = ["Plan", "Refused", "plan"]

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
_OWN_DISTRIBUTION = frozenset({"use_fsdp", "use_deepspeed", "use_megatron_lm", "use_parallelism_config", "config_file"})


@dataclass(frozen=True, slots=True)
class Plan:
    """A command line to be, and why.

    Attributes:
        head: words up to the script's arguments.
        args: of the script.
        env: to be added, by name.
        rule: without the framework's prefix.
        reason: one sentence.
        caveat: what stays uncertain, "" for nothing.
    """

    head: tuple[str, ...]
    args: tuple[str, ...]
    rule: str
    reason: str
    env: Mapping[str, str] = field(default_factory=dict)
    caveat: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """No launch of this job can be right; `message` says why and what to do."""

    message: str


def plan(found: Invocation, topology: Topology, *, subdomain: bool) -> Plan | Refused | None:
    """Return what to launch instead, None when the invocation is right as it is.

    Args:
        found: the invocation.
        topology: of the job.
        subdomain: whether the JobSet's network has one, so that Trainer's PET_MASTER_ADDR is wrong.
    """
    parsed = flags.parse(found.method, found.args)
    used = set(parsed.launcher_values)
    if found.form is Form.TORCHRUN:
        return _torchrun(found, found.args, {}, "") if found.said_by else None
    if not used:
        unchanged = found.form is Form.TRL and not found.said_by and not topology.is_distributed
        alone = found.form is Form.MODULE and topology.processes == 1 and not found.said_by
        return None if unchanged or alone else _torchrun(found, found.args, {}, "")
    preset = str(parsed.launcher_values.get("accelerate_config", ""))
    if used <= _TOPOLOGY_FLAGS and (not preset or preset in flags.presets()):
        kept = [arg for index, arg in enumerate(found.args) if index not in parsed.launcher_tokens]
        return _torchrun(found, kept, flags.preset_environment(preset) if preset else {}, preset)
    return _accelerate(found, parsed, topology, subdomain=subdomain)


def _torchrun(found: Invocation, args: Sequence[str], env: Mapping[str, str], preset: str) -> Plan:
    why = {
        Form.TRL: "trl starts accelerate, which ignores the PET_* env that Trainer injects, so each node would train alone",
        Form.TORCHRUN: f"the method {found.method} was chosen by {found.said_by}",
        Form.TORCHRUN_TRL: "torchrun around trl starts a launcher in every rank, and the job hangs",
        Form.MODULE: "python alone starts one process per node; torchrun starts as many as were asked for",
        Form.IMPLIED: f"no command was written; the method {found.method} was named by {found.said_by}",
    }[found.form]
    if preset:
        why += f"; accelerate's preset {preset} is kept as the env that it stands for, without its 8 processes"
    head = ("torchrun", *found.options, "-m", f"{SCRIPTS}{found.method}")
    rule = "accelerate-preset" if preset else "launch"
    return Plan(head, tuple(args), rule, f"{why}; torchrun reads PET_* and spans all nodes", env)


def _accelerate(found: Invocation, parsed: flags.ParsedArgs, topology: Topology, *, subdomain: bool) -> Plan | Refused:
    if topology.on_cpu and topology.is_distributed:
        return Refused("accelerate starts one process per node on CPU whatever its flags say; take its flags out")
    if topology.world_size is None:
        return Refused("the number of processes is not known, so accelerate's flags cannot be set; set numProcPerNode")
    host, port = (names.MASTER_ADDR, names.MASTER_PORT) if subdomain else (names.PET_MASTER_ADDR, names.PET_MASTER_PORT)
    drop = _spans(found.args, parsed, _TOPOLOGY_FLAGS - {"accelerate_config"})
    kept = [arg for index, arg in enumerate(found.args) if index not in drop]
    config = str(parsed.launcher_values.get("accelerate_config", ""))
    own = bool(config and config not in flags.presets()) or bool(_OWN_DISTRIBUTION & set(parsed.launcher_values))
    sharded = own or "ACCELERATE_USE_FSDP" in _preset(config) or "ACCELERATE_USE_DEEPSPEED" in _preset(config)
    topology_flags = (
        *(() if sharded or not topology.is_distributed else ("--multi_gpu",)),
        *("--num_machines", str(topology.nodes), "--num_processes", str(topology.world_size)),
        *("--machine_rank", f"$({names.PET_NODE_RANK})"),
        *("--main_process_ip", f"$({host})", "--main_process_port", f"$({port})"),
    )
    reason = "flags of accelerate are used that torchrun has no words for, so its own multi-node flags are all set"
    caveat = f"Muster cannot see into {config or 'the configuration file'}; check its distributed_type" if own else ""
    return Plan(("trl", found.method), (*kept, *topology_flags), "accelerate", reason, caveat=caveat)


def _preset(name: str) -> Mapping[str, str]:
    return flags.preset_environment(name) if name in flags.presets() else {}


def _spans(args: Sequence[str], parsed: flags.ParsedArgs, wanted: frozenset[str]) -> set[int]:
    """Return the indexes of the wanted launcher flags and of their values."""
    starts = {index: token for index, token in parsed.launcher}
    out: set[int] = set()
    taking = False
    for index in range(len(args)):
        if index not in parsed.launcher_tokens:
            taking = False
        elif index in starts:
            spec = flags.launcher_spec(starts[index])
            taking = spec is not None and spec.name in wanted
        if taking:
            out.add(index)
    return out
