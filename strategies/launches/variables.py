"""Variables: settings of Accelerate, torch and torchrun that a job writes into its env, where others write flags.

torchrun reads PET_* as the defaults of its flags (torch `distributed/argparse_util.py`). Accelerate reads
ACCELERATE_* and FSDP_* in the training itself, and stops at words that it does not know (accelerate `state.py`,
`utils/dataclasses.py` FullyShardedDataParallelPlugin, `utils/environment.py` str_to_bool); `accelerate launch` writes
its own values over most of them (`utils/launch.py`). torch.distributed reads TORCH_DISTRIBUTED_DEBUG at its import
(torch `csrc/distributed/c10d/debug.cpp`).
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.strategies.documents.findings import Finding, beginning, error, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import launcher_settings, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["check", "refused"]

_YES = frozenset({"y", "yes", "t", "true", "on", "1"})
_USE_CPU, _USE_FSDP, _DEVICE = "ACCELERATE_USE_CPU", "ACCELERATE_USE_FSDP", "ACCELERATE_TORCH_DEVICE"
_READ = launcher_settings.read_variables("accelerate") | {_DEVICE}
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
    judged = {
        name: value
        for name, value in env.items()
        if not (name.startswith(_OVERWRITTEN) and launch.launcher in (Launcher.ACCELERATE, Launcher.TRL))
        and (sharded or not name.startswith("FSDP_"))
    }
    wrong = {name: message for name, _, message in launcher_settings.refused_variables(launch, judged, "accelerate")}
    for name, value in judged.items():
        message = wrong.get(name) or (_on_cpu(job) if value is not None and _hides(name, value) else "")
        if message:
            yield warning(_field(job, site, launch, name), beginning(value or "", 80), message, rule=_RULE)


def refused(job: Job, site: Site, launch: Launch) -> Iterator[Finding]:
    """Report PET_* that stand for flags of torchrun and have a value at which it stops."""
    if launch.launcher is not Launcher.TORCHRUN:
        return
    named = {*(() if launch.cleared else site.variables), *launch.env} & _OF_TORCHRUN
    env = {name: value for name in sorted(named) if (value := _value(site, launch, name))}
    for name, value, message in launcher_settings.refused_variables(launch, env, "torch"):
        report = error if launch.certain else warning
        yield report(_field(job, site, launch, name), beginning(value, 80), message, rule="core/launch")


_OF_TORCHRUN = launcher_settings.read_variables("torch")


def _value(site: Site, launch: Launch, name: str) -> str | None:
    return launch.env[name] if name in launch.env else site.values[name]


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
    return sites.locate_variable(job, site, name)
