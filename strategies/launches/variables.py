"""Variables: settings of Accelerate, torch and torchrun that a job writes into its env, where others write flags.

torchrun reads PET_* as the defaults of its flags (torch `distributed/argparse_util.py`). Accelerate reads
ACCELERATE_* and FSDP_* in the training itself, and stops at words that it does not know (accelerate `state.py`,
`utils/dataclasses.py` FullyShardedDataParallelPlugin, `utils/environment.py` str_to_bool); `accelerate launch` writes
its own values over most of them (`utils/launch.py`). torch.distributed reads TORCH_DISTRIBUTED_DEBUG at its import
(torch `csrc/distributed/c10d/debug.cpp`).

The options of torchrun and accelerate, and the variables that stand for them, as rows see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from muster.strategies.documents.findings import Finding, beginning, error, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.rules import UNKNOWN, Value, judge, load

__all__ = ["LauncherSettings", "check", "read_variables", "refused", "refused_settings", "refused_variables"]


_PACKAGES = {Launcher.TORCHRUN: "torch", Launcher.TUNE: "torch", Launcher.ACCELERATE: "accelerate"}
_NUMBER = r"\s*-?\d+\s*"
_LONGEST, _DIGITS = 4_096, 18  # characters of a text, and of a number, that are read
_TORCHRUN = "env.PET_"

Fault = tuple[str, str, str]
"""The name of an option or a variable, its value, and what is wrong with it."""


class LauncherSettings(Struct, frozen=True):
    """A view (`muster.strategies.rules.View`) of one launch; the field of a setting is its name.

    Attributes:
        values: its options, as in `Launch.values`.
        env: variables of its container that rows are about, None for a value that only the pod knows.
        facts: what rows ask beside them.
    """

    values: Mapping[str, str]
    env: Mapping[str, str | None] = field(default_factory=dict)
    facts: Mapping[str, Value] = field(default_factory=dict)

    @property
    def written(self) -> Sequence[str]:
        """The options that are given, and `env.NAME` of each variable."""
        return [*self.values, *(f"env.{name}" for name in self.env)]

    def value(self, name: str) -> Value:
        """Return the value of an option or a variable, as a number where torchrun or accelerate read one."""
        if name in self.facts:
            return self.facts[name]
        variable = name.removeprefix("env.") if name.startswith("env.") else ""
        held: Mapping[str, str | None] = self.env if variable else self.values
        if (variable or name) not in held:
            return None
        text = held[variable or name]
        if text is None or "$" in text or len(text) > _LONGEST:
            return UNKNOWN
        is_read = not variable or name.startswith(_TORCHRUN)
        return int(text[:_DIGITS]) if is_read and re.fullmatch(_NUMBER, text) else text

    def shown(self, name: str, value: Value) -> str:  # noqa: ARG002 - a text has no items
        """Return the value as it is written."""
        return (self.env.get(name[4:]) if name.startswith("env.") else self.values.get(name)) or ""

    def field(self, name: str) -> str:
        """Return the name; who asks knows where it stands."""
        return name


def refused_settings(launch: Launch) -> Iterator[Fault]:
    """Yield each option whose value the launcher does not take; one with a variable is known only in the pod."""
    package = _PACKAGES.get(launch.launcher, "")
    return _faults(package, LauncherSettings(launch.values, {}, _facts(launch))) if package else iter(())


def refused_variables(launch: Launch, env: Mapping[str, str | None], package: str) -> Iterator[Fault]:
    """Yield the variables at whose value torchrun (`torch`) or accelerate stops.

    argparse converts a default that is a text as it converts a flag, and does not compare it with the choices. A PET_*
    has no effect beside its flag.

    Args:
        launch: what reads them.
        env: the variables that may count, None for a value that only the pod knows.
        package: whose rows to judge.
    """
    given = {name: value for name, value in env.items() if name.removeprefix("PET_").lower() not in launch.values}
    return _faults(package, LauncherSettings({}, given, {**_facts(launch), "module": False}))


def read_variables(package: str) -> frozenset[str]:
    """Return the variables that rows of a package are about."""
    return frozenset(flag[4:] for flag in load(package).flags if flag.startswith("env."))


def _facts(launch: Launch) -> Mapping[str, Value]:
    bare = launch.target.endswith(".py") and "/" not in launch.target  # no folder of PATH holds it
    return {"module": launch.module, "bare_script": bare}


def _faults(package: str, settings: LauncherSettings) -> Iterator[Fault]:
    said = set[str]()
    for found in judge(load(package), settings):
        if found.field not in said:
            said.add(found.field)
            yield found.field.removeprefix("env."), str(found.value), found.message


_YES = frozenset({"y", "yes", "t", "true", "on", "1"})
_USE_CPU, _USE_FSDP, _DEVICE = "ACCELERATE_USE_CPU", "ACCELERATE_USE_FSDP", "ACCELERATE_TORCH_DEVICE"
_READ = read_variables("accelerate") | {_DEVICE}
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
    wrong = {name: message for name, _, message in refused_variables(launch, judged, "accelerate")}
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
    for name, value, message in refused_variables(launch, env, "torch"):
        report = error if launch.certain else warning
        yield report(_field(job, site, launch, name), beginning(value, 80), message, rule="core/launch")


_OF_TORCHRUN = read_variables("torch")


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
