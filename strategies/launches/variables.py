"""Variables: settings of Accelerate, torch and torchrun that a job writes into its env, where others write flags.

torchrun reads PET_* as the defaults of its flags (torch 2.13 `distributed/argparse_util.py`). Accelerate reads
ACCELERATE_* and FSDP_* in the training itself, and stops at words that it does not know (accelerate 1.15 `state.py`,
`utils/dataclasses.py` FullyShardedDataParallelPlugin, `utils/environment.py` str_to_bool); `accelerate launch` writes
its own values over most of them (`utils/launch.py`). torch.distributed reads TORCH_DISTRIBUTED_DEBUG at its import
(torch 2.13 `csrc/distributed/c10d/debug.cpp`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.strategies.documents import pods
from muster.strategies.documents.findings import Finding, beginning, error, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import choices, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["check", "refused"]

_YES, _NO = frozenset({"y", "yes", "t", "true", "on", "1"}), frozenset({"n", "no", "f", "false", "off", "0"})
_USE_CPU, _USE_FSDP, _DEVICE = "ACCELERATE_USE_CPU", "ACCELERATE_USE_FSDP", "ACCELERATE_TORCH_DEVICE"
_DEBUG = "TORCH_DISTRIBUTED_DEBUG"
_TRUTHS = frozenset(
    {_USE_CPU, _USE_FSDP, "ACCELERATE_DEBUG_MODE", "ACCELERATE_CPU_AFFINITY"}
    | {f"FSDP_{name}" for name in ("OFFLOAD_PARAMS", "USE_ORIG_PARAMS", "SYNC_MODULE_STATES", "FORWARD_PREFETCH")}
    | {f"FSDP_{name}" for name in ("ACTIVATION_CHECKPOINTING", "CPU_RAM_EFFICIENT_LOADING")}
    | {"FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD"}
)
_WORDS: Mapping[str, tuple[str, ...]] = {
    "FSDP_SHARDING_STRATEGY": ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"),
    "FSDP_AUTO_WRAP_POLICY": ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"),
    "FSDP_BACKWARD_PREFETCH": ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"),
    "FSDP_STATE_DICT_TYPE": ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"),
    "FSDP_VERSION": ("1", "2"),
    _DEBUG: ("OFF", "INFO", "DETAIL"),
}
_NUMBERED = frozenset({"FSDP_SHARDING_STRATEGY", "FSDP_BACKWARD_PREFETCH"})
_NUMBERS = frozenset({"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "FSDP_MIN_NUM_PARAMS"})
_READ = _TRUTHS | _WORDS.keys() | _NUMBERS | {_DEVICE}
_OVERWRITTEN = ("FSDP_", _USE_FSDP)
_RULE = "core/accelerate-env"
_JUDGED = frozenset({Launcher.TORCHRUN, Launcher.PYTHON, Launcher.ACCELERATE, Launcher.TRL, Launcher.DEEPSPEED})


def check(job: Job) -> Iterator[Finding]:
    """Check the settings of Accelerate in the env of a job that Trainer did not make."""
    site = sites.find_site(job) if job.owner is None else None
    if site is None:
        return
    own = any(each.env and _READ & each.env.keys() for each in site.reading.launches)
    if not own and _READ.isdisjoint(site.variables):
        return
    launch = site.reading.training
    if launch is None or launch.launcher not in _JUDGED:
        return
    named = _READ & {*(site.variables.keys() if not launch.cleared else ()), *launch.env}
    env = {name: _value(site, launch, name) for name in sorted(named)}
    sharded = (env.get(_USE_FSDP) or "").lower() in _YES
    for name, value in env.items():
        overwritten = launch.launcher in (Launcher.ACCELERATE, Launcher.TRL) and name.startswith(_OVERWRITTEN)
        if value is None or "$" in value or overwritten or (name.startswith("FSDP_") and not sharded):
            continue
        message = _wrong(name, value) or _alone(name, value, env)
        if not message and _hides(name, value):
            message = _on_cpu(job)
        if message:
            yield warning(_field(job, site, launch, name), beginning(value, 80), message, rule=_RULE)


def refused(job: Job, site: Site, launch: Launch) -> Iterator[Finding]:
    """Report PET_* that stand for flags of torchrun and have a value at which it stops; see `choices`."""
    if launch.launcher is not Launcher.TORCHRUN:
        return
    named = frozenset() if launch.cleared else _KNOWN.intersection(site.variables)
    if launch.env:
        named |= _KNOWN.intersection(launch.env)
    for name in sorted(named) if named else ():
        value = _value(site, launch, name)
        for message in choices.refused_variable(launch, name, value) if value else ():
            report = error if launch.certain else warning
            yield report(_field(job, site, launch, name), beginning(value or "", 80), message, rule="core/launch")


_KNOWN: frozenset[str] = frozenset(choices.VARIABLES)


def _value(site: Site, launch: Launch, name: str) -> str | None:
    if name in launch.env:
        return launch.env[name]
    entry = site.variables[name]
    return None if entry.get("valueFrom") is not None else str(entry.get("value") or "")


def _wrong(name: str, value: str) -> str:
    """Return why Accelerate stops at a value, "" where it takes it."""
    if name in _TRUTHS and value.lower() not in _YES | _NO:
        return "is neither true nor false, and Accelerate stops at its start; write one of them"
    if name in _NUMBERS and whole(value) is None:
        return "is not a whole number, and Accelerate stops at its start; correct it"
    known = _WORDS.get(name, ())
    fits = value.upper() in map(str.upper, known) or (name in _NUMBERED and value.isdecimal())
    if known and not fits:
        reader = "torch.distributed" if name == _DEBUG else "Accelerate"
        return f"is not one of {', '.join(known)}, and {reader} stops at its start; use one"
    return ""


def _alone(name: str, value: str, env: Mapping[str, str | None]) -> str:
    """Return what a setting needs beside it, "" where it has that (FullyShardedDataParallelPlugin)."""
    if name != _OFFLOADING or value.lower() not in _YES:
        return ""
    if (env.get(_CHECKPOINTING, "false") or "true").lower() in _NO:
        return f"needs {_CHECKPOINTING}, and Accelerate stops at its start; set both to true"
    return (
        "" if env.get("FSDP_VERSION", "1") != "1" else "needs FSDP_VERSION 2, and Accelerate stops at its start; set it"
    )


_CHECKPOINTING = "FSDP_ACTIVATION_CHECKPOINTING"
_OFFLOADING = f"{_CHECKPOINTING}_OFFLOAD"


def _hides(name: str, value: str) -> bool:
    """Whether a setting lets Accelerate use the processor."""
    return (name == _USE_CPU and value.lower() in _YES) or (name == _DEVICE and value == "cpu")


def _on_cpu(job: Job) -> str:
    count = topologies.read_topology(job).devices.count
    if not count:
        return ""
    return f"tells Accelerate to use the processor, and the {count} GPUs of each node are idle; remove it"


def _field(job: Job, site: Site, launch: Launch, name: str) -> str:
    if name in launch.env:
        return site.locate_option(launch, "")
    if job.kind == "TrainJob" and pods.find_env(job.trainer.get("env"), name) is None:
        return "spec.runtimeRef.name"
    return f"{site.place}.env[{name}]"
