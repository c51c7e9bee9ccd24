"""The policy: the settings of the platform for all decisions, as one immutable value.

The configuration file (`muster.webhook.configs`) becomes a `Policy`; tests and the CLI make one directly. A reload
replaces the whole value between two requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Literal

from msgspec import Struct, field

from muster.strategies.documents.runtimes import Version
from muster.strategies.frameworks import builtin
from muster.strategies.jobs.jobs import Settings
from muster.strategies.launches.guard_additions import Guard
from muster.strategies.platform.placements import Role
from muster.strategies.platform.profiles import Profile
from muster.strategies.plugins.registry import Registry
from muster.webhook.admission.budgets import Budget

__all__ = ["Failure", "FrameworkPolicy", "Mode", "Policy"]

Failure = Literal["deny", "allow"]


class Mode(Enum):
    """How far Muster goes: `enforce` patches and denies, `warn` only warns, `audit` records, `off` ignores jobs."""

    ENFORCE = "enforce"
    WARN = "warn"
    AUDIT = "audit"
    OFF = "off"


class FrameworkPolicy(Struct, frozen=True):
    """Settings of one framework; with mode None the global mode applies."""

    mode: Mode | None = None
    settings: Settings = field(default_factory=Settings)


class Policy(Struct, frozen=True):
    """Everything that a decision depends on besides the request and the cluster.

    Attributes:
        registry: the strategies.
        mode: the global mode.
        frameworks: by framework label.
        on_plugin_failure: what happens to a CREATE when a strategy fails; an UPDATE always passes.
        plugin_budget: seconds that an out-of-tree strategy may take for one method.
        profiles: the kinds of claims that jobs may ask for, by name.
        roles: by the value of the label `muster.dev/role`; a role that is missing is not placed.
        budget: what a document may hold; one beyond it is refused and not read.
        trainer: the version of Trainer, where the configuration names one.
        guard: which trainings are measured while they run.
    """

    registry: Registry = field(default_factory=builtin.load)
    mode: Mode = Mode.ENFORCE
    frameworks: Mapping[str, FrameworkPolicy] = field(default_factory=dict)
    on_plugin_failure: Failure = "deny"
    plugin_budget: float = 1.0
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    trainer: Version | None = None
    guard: Guard = Guard()

    def framework(self, name: str | None) -> FrameworkPolicy:
        """Return the settings of a framework, or the defaults."""
        return self.frameworks.get(name or "", _NOTHING_SET)

    def mode_of(self, granted: str | None, namespace_label: str | None, chosen: Iterable[str] = ()) -> Mode:
        """Return the mode in force: the namespace's label, else the strictest of those of the frameworks.

        The namespace comes first, so that a team can try Muster or switch it off, whatever the platform has set for a
        framework. A label that is not a mode (see `is_mode`) counts as missing.

        Args:
            granted: the framework of the ClusterTrainingRuntime that the job names, which counts in full; without one
                the global mode does.
            namespace_label: value of `muster.dev/mode` on the namespace.
            chosen: frameworks that an author of jobs may have chosen by a label. Such a label may make the mode
                stricter and never milder, or it would be a switch in the author's hand.
        """
        if namespace_label is not None and is_mode(namespace_label):
            return Mode(namespace_label)
        return min((self.framework(each).mode or self.mode for each in (granted, *chosen)), key=_STRICTEST.index)


def is_mode(text: str) -> bool:
    """Whether the value of a label is one of the modes."""
    return text in _MODES


_STRICTEST = tuple(Mode)
_MODES = frozenset(mode.value for mode in Mode)
_NOTHING_SET = FrameworkPolicy()
