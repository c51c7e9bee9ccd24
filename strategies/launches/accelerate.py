"""Accelerate: how many processes `accelerate launch` starts on each node, and whether those of all nodes meet.

It follows accelerate (`commands/launch.py`: `_validate_launch_command`, `launch_command`; `utils/launch.py`:
`prepare_simple_launcher_cmd_env`, `prepare_multi_gpu_env`, `prepare_deepspeed_cmd_env`) and torch
(`distributed/run.py`). Three facts decide most cases:

* Only `--multi_gpu`, `--use_fsdp`, `--use_deepspeed`, `--use_megatron_lm`, or more than one device together with more
  than one process, make it start torchrun. Otherwise it starts one plain program, whatever `--num_processes` says.
* `--num_processes` counts all machines. With `--num_machines` above 1 each gets its share (rounded down), and the rank
  and the address come from flags alone.
* With one machine it leaves torchrun's `--nnodes`, `--node_rank` and `--master_addr` unset, so their PET_* variables
  hold: the nodes meet, and each starts `--num_processes`. The port is 29500 or `--main_process_port`.

`trl <method>` is the same launcher. The default configuration file of accelerate is taken to be absent, as in images.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from muster.strategies import upstream
from muster.strategies.documents.findings import beginning

__all__ = ["AccelerateWorld", "read_accelerate", "read_trl"]

_MODES = ("multi_gpu", "cpu", "tpu", "use_deepspeed", "use_fsdp")
_SPANNING = ("multi_gpu", "use_fsdp", "use_deepspeed", "use_megatron_lm")
_OF_TYPES = {"FSDP": "use_fsdp", "DEEPSPEED": "use_deepspeed", "MEGATRON_LM": "use_megatron_lm", "XLA": "tpu"}
_VARIABLE = r"\$\((\w+)\)|\$\{(\w+)\}|\$(\w+)"
_WHOLE = ("num_processes", "num_machines", "machine_rank", "main_process_port")
_INTEGER = r"\s*[+-]?\d+(_\d+)*\s*"
_LOOPBACK = r"localhost(\.localdomain)?|127\.\d+\.\d+\.\d+|::1|\[::1\]|0\.0\.0\.0"
_LONG = 10
_SAID = ("num_machines", "num_processes", "machine_rank", "distributed_type", "deepspeed_config")
"""What a configuration packaged in TRL says about processes."""
_ADD_ALL = "--machine_rank $(PET_NODE_RANK) --main_process_ip $(PET_MASTER_ADDR) --main_process_port $(PET_MASTER_PORT)"


class AccelerateWorld(Struct, frozen=True):
    """What one `accelerate launch` makes on the nodes of a job.

    Attributes:
        per_node: processes on each node; None when it cannot be known at admission.
        nodes: nodes whose processes meet; 1 where each node trains alone; None when unknown.
        fault: why it cannot start, or cannot be one training, and what to do; "" when it can. A clause without a
            subject for the launch: `no --machine_rank is given, so ...; add ...`.
        unknown: what Muster cannot see, a noun phrase; "" when it sees everything. Then there may still be a `fault`.
    """

    per_node: int | None
    nodes: int | None
    fault: str = ""
    unknown: str = ""


def read_accelerate(
    values: Mapping[str, str],
    nodes: int,
    devices: int | None,
    env: Mapping[str, str | None],
    config: Mapping[str, Any] | None = None,
) -> AccelerateWorld:
    """Return what the options of `accelerate launch` make.

    Args:
        values: the options by full name with _, as in `Launch.values`; a flag without a value has "".
        nodes: pods that run this command line.
        devices: devices that each of them sees, 0 on CPU, None when unknown.
        env: env of the container, None for a value that cannot be read. What Trainer or Muster add (PET_NNODES,
            PET_NODE_RANK, PET_MASTER_ADDR) is taken to be right where it is absent here.
        config: the content of the configuration file, where it is known; else `config_file` in `values` is unseen.
    """
    return _Case(values, nodes, devices, env, config).world()


def read_trl(
    values: Mapping[str, str], words: Sequence[str], nodes: int, devices: int | None, env: Mapping[str, str | None]
) -> AccelerateWorld:
    """Return what `trl <method>` makes: accelerate's launch, with a packaged configuration or a file of its own.

    Args:
        values: the flags of accelerate among the arguments, by full name; `accelerate_config` is TRL's own.
        words: all arguments; a file of `--config` may hold flags of accelerate too.
        nodes: pods that run this command line.
        devices: devices that each of them sees, 0 on CPU, None when unknown.
        env: env of the container, as for `read_accelerate`.
    """
    named = "" if "config_file" in values else values.get("accelerate_config", "")
    packaged = cast("Mapping[str, Mapping[str, Mapping[str, Any]]]", upstream.data("trl", "flags"))["presets"]
    if named and named not in packaged:
        return read_accelerate({"config_file": named, **values}, nodes, devices, env)
    if "--config" in words[:-1] and not named:
        file = words[words.index("--config") + 1]
        return read_accelerate({"config_file": file, **values}, nodes, devices, env)
    said = {key: value for key, value in packaged[named].items() if key in _SAID} if named else None
    return read_accelerate(values, nodes, devices, env, said)


class _Case:
    """One command line on its nodes."""

    def __init__(
        self,
        values: Mapping[str, str],
        nodes: int,
        devices: int | None,
        env: Mapping[str, str | None],
        config: Mapping[str, Any] | None,
    ) -> None:
        self.values = values
        self.nodes = nodes
        self.env = env
        self.config = config or {}
        self.file = "" if config is not None else values.get("config_file", "")
        self.devices = _visible(env, devices) if devices else devices

    def world(self) -> AccelerateWorld:
        refused = self.refusal()
        if refused:
            return AccelerateWorld(None, None, refused)
        foreign = next((name for name in ("tpu", "mpirun_hostfile") if self.has(name)), "")
        if foreign:
            return AccelerateWorld(None, None, unknown=f"what --{foreign} starts")
        if self.has("cpu"):
            return self.simple()
        spans = self.spans()
        if spans is None:
            return self.unseen()
        return self.torchrun() if spans else self.simple()

    def refusal(self) -> str:
        """Return why accelerate ends at once with a ValueError, "" when it does not."""
        modes = [f"--{name}" for name in _MODES if name in self.values]
        if len(modes) > 1:
            return f"accelerate takes only one of {', '.join(modes)}, and stops; remove the others"
        processes = self.number("num_processes") if "num_processes" in self.values else None
        wrong = next((name for name in _WHOLE if not _readable(self.text(name))), "")
        if wrong:
            shown = beginning(self.text(wrong), 40)
            return f"--{wrong} {shown} is not a whole number, and accelerate stops; write a number"
        if "multi_gpu" in self.values and processes is not None and processes < 2:  # upstream's number
            total = f"--num_processes {self.values['num_processes']}"
            return f"{total} with --multi_gpu makes accelerate stop; it counts the processes of all nodes, at least 2"
        sharded = "use_fsdp" in self.values and self.values.get("fsdp_version", "1") != "1"
        if "use_parallelism_config" in self.values and not sharded:
            return "--use_parallelism_config makes accelerate stop without --use_fsdp --fsdp_version 2; add both"
        return ""

    def spans(self) -> bool | None:
        """Return whether torchrun starts the processes; None where that cannot be known."""
        if any(self.has(name) for name in _SPANNING):
            return True
        if self.file:
            return None
        if self.config:
            kind = str(self.config.get("distributed_type", "NO"))
            return kind.startswith("MULTI_") and kind != "MULTI_CPU"
        processes = self.processes()
        if self.devices in (0, 1) or (processes is not None and processes < 2):  # upstream's number
            return False
        return None if processes is None or self.devices is None else True

    def unseen(self) -> AccelerateWorld:
        """Tell what is certain although the configuration file, or the number of devices, is not known."""
        unknown = f"the settings in {self.file}" if self.file else "the number of processes"
        machines = self.number("num_machines")
        if machines is None or machines < 2:  # one machine is another path upstream
            return AccelerateWorld(None, None, unknown=unknown)
        found = self.machines(machines)
        return AccelerateWorld(found.per_node, found.nodes, found.fault, found.unknown or unknown)

    def simple(self) -> AccelerateWorld:
        """One plain program on each node; it finds the others only by env that somebody else set."""
        machines = self.number("num_machines") or 1
        missing = [name for name in ("main_process_ip", "main_process_port") if not self.has(name)]
        if machines > 1 and missing and not self.file:
            return AccelerateWorld(
                1, 1, f"--{missing[0]} is missing, and accelerate stops with an AssertionError; add it"
            )
        if self.nodes == 1 or {"RANK", "WORLD_SIZE", "LOCAL_RANK"} <= set(self.env):
            return AccelerateWorld(1, self.nodes)
        if self.has("cpu") or self.devices == 0:
            cure = "start it by torchrun, which reads Trainer's PET_* env" + (
                "; remove --cpu" if self.has("cpu") else ""
            )
        elif self.devices == 1:
            total = f"--multi_gpu --num_machines {self.nodes} --num_processes {self.nodes} {_ADD_ALL}"
            cure = f"start it by torchrun, which reads Trainer's PET_* env, or add {total}"
        else:
            cure = "start it by torchrun, which reads Trainer's PET_* env, or remove what limits it to one process"
        alone = f"accelerate starts one plain process on each of the {self.nodes} nodes, and each would train alone"
        return AccelerateWorld(1, 1, f"{alone}; {cure}")

    def torchrun(self) -> AccelerateWorld:
        machines = self.number("num_machines")
        if machines is None and (self.has("num_machines") or self.file):
            return AccelerateWorld(
                None, None, unknown="the settings in " + self.file if self.file else "--num_machines"
            )
        found = self.machines(machines) if machines is not None and machines > 1 else self.leaking()
        if found.per_node == 0 and not found.fault:
            return AccelerateWorld(0, None, "accelerate finds no device and starts no process; set --num_processes")
        chosen = self.text("gpu_ids")
        ids = len(chosen.split(",")) if chosen not in ("", "all") and "$" not in chosen else None
        if ids is not None and found.per_node is not None and found.per_node > ids and not found.fault:
            more = f"{found.per_node} processes would share the {ids} of --gpu_ids {chosen}, which fails"
            return AccelerateWorld(
                found.per_node, found.nodes, f"{more}; set --num_processes {ids * max(machines or 1, 1)}"
            )
        return found

    def leaking(self) -> AccelerateWorld:
        """One machine: torchrun takes nodes, rank and address from PET_*, and accelerate gives the processes."""
        processes, written = self.processes(), self.env.get("PET_NNODES", str(self.nodes))
        unknown = "" if processes is not None else "the number of processes"
        if self.nodes == 1:
            return AccelerateWorld(processes, 1, unknown=unknown)
        if written is None or not written.isdecimal():
            return AccelerateWorld(processes, None, unknown=unknown or "the value of PET_NNODES")
        if int(written) != self.nodes:
            fault = f"PET_NNODES is {written}, and the job has {self.nodes} nodes; remove it"
            return AccelerateWorld(processes, 1 if written == "1" else None, fault, unknown)
        return AccelerateWorld(processes, self.nodes, self.port(), unknown)

    def machines(self, machines: int) -> AccelerateWorld:
        """Several machines: rank and address come from flags."""
        processes = self.processes()
        per_node = None if processes is None else processes // machines
        if self.has("use_deepspeed") and self.launcher() != "standard":
            return self.ssh(per_node)
        unknown = "" if processes is not None else "the number of processes"
        fault = self.unable(machines, per_node)
        return AccelerateWorld(per_node, None if fault else machines, fault, unknown)

    def unable(self, machines: int, per_node: int | None) -> str:
        """Return why so many machines cannot be one training."""
        if machines != self.nodes:
            plural = "s" if self.nodes != 1 else ""
            wanted = f"accelerate waits for {machines} machines, and the job has {self.nodes} node{plural}"
            return f"{wanted}; set --num_machines {self.nodes}, or remove it"
        if per_node == 0:
            return (
                f"the processes are too few for {machines} machines; set --num_processes to that of all nodes together"
            )
        return self.rank() or self.address() or self.port()

    def launcher(self) -> str:
        nested = self.config.get("deepspeed_config") or {}
        return self.values.get("deepspeed_multinode_launcher") or nested.get("deepspeed_multinode_launcher") or "pdsh"

    def ssh(self, per_node: int | None) -> AccelerateWorld:
        """DeepSpeed's own launcher: it reaches the machines of a hostfile by ssh, and without one only its own."""
        if self.file or self.has("deepspeed_hostfile"):
            return AccelerateWorld(per_node, None, unknown="what DeepSpeed's launcher starts on other machines")
        alone = f"each of the {self.nodes} nodes would train alone"
        reason = f"DeepSpeed's launcher {self.launcher()} has no hostfile, so {alone}"
        fault = "" if self.nodes == 1 else f"{reason}; add --deepspeed_multinode_launcher standard"
        return AccelerateWorld(per_node, 1, fault)

    def rank(self) -> str:
        written = self.text("machine_rank")
        if not written and self.file:
            return ""
        if not written:
            return (
                "--machine_rank is missing, and accelerate stops with a TypeError; add --machine_rank $(PET_NODE_RANK)"
            )
        static = written.isdecimal() and self.values.get("rdzv_backend", "") in ("", "static")  # a file's is not taken
        every = f"--machine_rank {written} makes every node the same one, and they cannot meet"
        return f"{every}; set --machine_rank $(PET_NODE_RANK)" if static else ""

    def address(self) -> str:
        written = self.text("main_process_ip")
        if not written and not self.file:
            return "--main_process_ip is missing, so the nodes cannot meet; add --main_process_ip $(PET_MASTER_ADDR)"
        if re.fullmatch(_LOOPBACK, written):
            own = f"--main_process_ip {written} is each node's own address, so the nodes cannot meet"
            return f"{own}; set --main_process_ip $(PET_MASTER_ADDR)"
        return ""

    def port(self) -> str:
        if self.text("main_process_port") != "0":
            return ""
        return "--main_process_port 0 is another port on each node, so they cannot meet; set $(PET_MASTER_PORT)"

    def processes(self) -> int | None:
        """Return the processes that are asked for, on all machines; without any, one for each device of this one."""
        if "num_processes" in self.values or "num_processes" in self.config:
            return self.number("num_processes")
        return None if self.file else self.devices

    def has(self, name: str) -> bool:
        """Return whether a flag or the configuration file sets this option."""
        if any(mode in self.values for mode in (*_SPANNING, "tpu")) or name not in (*_SPANNING, "tpu"):
            return name in self.values or self.config.get(name) is not None
        return _OF_TYPES.get(str(self.config.get("distributed_type", ""))) == name

    def text(self, name: str) -> str:
        """Return an option's value with its variables replaced where their values are known; "" where it is absent."""
        written = self.values.get(name, self.config.get(name))
        if written is None:
            return ""
        known = {"PET_NNODES": str(self.nodes), **self.env}
        return re.sub(_VARIABLE, lambda found: known.get(next(filter(None, found.groups()))) or found[0], str(written))

    def number(self, name: str) -> int | None:
        """Return an option's number, None where it is absent or cannot be read; a very long one counts as 10^9."""
        written = self.text(name)
        if not written.isdecimal():
            return None
        return int(written) if len(written) < _LONG else 10 ** (_LONG - 1)


def _visible(env: Mapping[str, str | None], devices: int) -> int | None:
    """Return how many devices CUDA_VISIBLE_DEVICES leaves to see; None where it cannot be read."""
    chosen = env.get("CUDA_VISIBLE_DEVICES", "all")
    if chosen == "all":
        return devices
    if chosen is None or "$" in chosen:
        return None
    return min(devices, len([each for each in chosen.split(",") if each.strip() not in ("", "-1", "NoDevFiles")]))


def _readable(written: str) -> bool:
    """Return whether argparse would take this as a whole number, or may once its variables are replaced."""
    return not written or "$" in written or "`" in written or re.fullmatch(_INTEGER, written) is not None
