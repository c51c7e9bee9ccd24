"""The policy: what the platform decided, as one immutable value that a decision is made under.

The configuration file (`webhook.configs`) becomes a `Policy`; tests and the CLI make one directly. A reload swaps the
whole value between two requests, never a part of it within one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from strategies.frameworks import builtin
from strategies.jobs.jobs import Settings
from strategies.platform.placements import Role
from strategies.platform.profiles import Profile
from strategies.plugins.registry import Registry

__all__ = ["Failure", "FrameworkPolicy", "Mode", "Policy"]

Failure = Literal["deny", "allow"]


class Mode(Enum):
    """How far Muster goes: `enforce` patches and denies, `warn` only warns, `audit` only records, `off` looks away."""

    ENFORCE = "enforce"
    WARN = "warn"
    AUDIT = "audit"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class FrameworkPolicy:
    """What is set for one framework; None leaves the global mode in force."""

    mode: Mode | None = None
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that a decision depends on besides the request and the cluster.

    Attributes:
        registry: the strategies.
        mode: global.
        frameworks: by framework label.
        on_plugin_failure: what a failing strategy means for a CREATE; an UPDATE always passes.
        plugin_budget: seconds that an out-of-tree strategy may take for one method.
        profiles: claims on devices that jobs may ask for, by name.
        roles: by the value of the label `muster.dev/role`; a role that is missing is not placed.
    """

    registry: Registry = field(default_factory=builtin.load)
    mode: Mode = Mode.ENFORCE
    frameworks: Mapping[str, FrameworkPolicy] = field(default_factory=dict)
    on_plugin_failure: Failure = "deny"
    plugin_budget: float = 1.0
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)

    def framework(self, name: str | None) -> FrameworkPolicy:
        """Return what is set for a framework, defaults where nothing is."""
        return self.frameworks.get(name or "", _NOTHING_SET)

    def mode_of(self, framework: str | None, namespace_label: str | None) -> Mode:
        """Return the mode in force: the namespace's label, else the framework's, else the global one.

        The namespace is nearest to the job, so that a team can pilot, or get out of the way, whatever the platform set
        for a framework. A label that is no mode counts as missing; `is_mode` tells.
        """
        if namespace_label is not None and is_mode(namespace_label):
            return Mode(namespace_label)
        return self.framework(framework).mode or self.mode


def is_mode(text: str) -> bool:
    """Whether a label's text is one of the modes."""
    return text in _MODES


_MODES = frozenset(mode.value for mode in Mode)
_NOTHING_SET = FrameworkPolicy()
