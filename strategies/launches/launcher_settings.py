"""The options of torchrun and accelerate, and the variables that stand for them, as rows see them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.rules import UNKNOWN, Value, judge, load

__all__ = ["LauncherSettings", "read_variables", "refused", "refused_variables"]

_PACKAGES = {Launcher.TORCHRUN: "torch", Launcher.TUNE: "torch", Launcher.ACCELERATE: "accelerate"}
_NUMBER = re.compile(r"\s*-?\d+\s*")
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

    def written(self) -> Sequence[str]:
        """Return the options that are given, and `env.NAME` of each variable."""
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
        return int(text[:_DIGITS]) if is_read and _NUMBER.fullmatch(text) else text

    def shown(self, name: str, value: Value) -> str:  # noqa: ARG002 - a text has no items
        """Return the value as it is written."""
        return (self.env.get(name[4:]) if name.startswith("env.") else self.values.get(name)) or ""

    def field(self, name: str) -> str:
        """Return the name; who asks knows where it stands."""
        return name


def refused(launch: Launch) -> Iterator[Fault]:
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
