"""Which strategy serves which framework, and what happens when one fails.

In-tree strategies are listed in `frameworks/builtin.py`, out-of-tree ones by an entry point in group
`muster.strategies` (a class, or an object with the protocol's members). Two strategies for one framework are an error
that names both: silently shadowing one would change what runs on a whole cluster. If a plugin raises, the error names
it and its changes are discarded; the service and the other strategies go on.

The protocol of a strategy.

A framework is supported by one object with this shape. Upstream's proposal has three members (`Name`, `EnforceCommand`,
`Validate`: kubeflow/trainer#3263); rendezvous and claims are separate here, because they are written on another object
(the JobSet) and at another time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from muster.strategies.plugins import old_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from muster.strategies.changes.changes import Changes
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import Job

__all__ = ["ENTRY_POINT_GROUP", "FrameworkStrategy", "PluginError", "PluginImportError", "Registered", "Registry"]


@runtime_checkable
class FrameworkStrategy(Protocol):
    """Makes the jobs of one framework run as meant.

    All methods are pure: they read `job`, record on `changes`, and do no I/O. They are called for a TrainJob and later
    for the JobSet that Trainer makes from it; only at CREATE, since most of what they touch is immutable afterwards.
    What an earlier call or the user already enforced must not be changed again. A JobSet whose work is in several
    replicated jobs is given part by part: `job.container` is that of the part, `job.world` are all that train together.

    Attributes:
        framework: value of the label `trainer.kubeflow.org/framework` that chooses this strategy.
        version: version of the strategy's answers; recorded on every object, so that the effect of an upgrade is seen.
    """

    framework: str
    version: str

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Make the launch start all processes that the job asks for; rewrite only a launch that is understood."""

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Set what all ranks need to meet: env, endpoint, process count."""

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add the claims that the pods of each replicated job asked for."""

    def validate(self, job: Job) -> Iterable[Finding]:
        """Return everything that is wrong with the job, as it will be stored."""


ENTRY_POINT_GROUP = "muster.strategies"
IN_TREE = "in-tree"
_METHODS = ("enforce_command", "enforce_rendezvous", "enforce_claims", "validate")
_TEXTS = ("framework", "version")
_LABEL_VALUE = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"


class PluginError(Exception):
    """A strategy failed. The platform's failure mode decides what that means for the job.

    Attributes:
        framework: framework of the strategy.
        origin: where the strategy comes from, `in-tree` or the distribution that contains it.
        stage: the method that failed.
    """

    def __init__(self, registered: Registered, stage: str, cause: str) -> None:
        self.framework = registered.strategy.framework
        self.origin = registered.origin
        self.stage = stage
        super().__init__(f"strategy {self.framework!r} ({self.origin}) failed in {stage}: {cause}")


class Registered(Struct, frozen=True):
    """A strategy and where it comes from."""

    strategy: FrameworkStrategy
    origin: str

    @property
    def in_tree(self) -> bool:
        """Whether Muster ships the strategy; others run under a time budget."""
        return self.origin == IN_TREE

    def __str__(self) -> str:
        """`framework version (origin)`."""
        return f"{self.strategy.framework} {self.strategy.version} ({self.origin})"


class Registry:
    """Strategies by framework, with a default for every other label and for jobs without one.

    Args:
        default: strategy for frameworks without a registered one.
        shipped: what makes the strategy of a framework that Muster ships, when a job first names it.
    """

    def __init__(
        self, default: FrameworkStrategy, shipped: Mapping[str, Callable[[], FrameworkStrategy]] | None = None
    ) -> None:
        self._default = Registered(default, IN_TREE)
        self._shipped = dict(shipped or {})
        self._by_framework: dict[str, Registered] = {}

    def register(self, candidate: FrameworkStrategy, origin: str = IN_TREE) -> None:
        """Add a strategy.

        Raises:
            TypeError: a member of the protocol is missing; it is named.
            ValueError: the framework is taken, and both strategies are named; or it is not a valid label value.
        """
        missing = _missing(candidate)
        if missing:
            raise TypeError(f"strategy {_called(candidate)} ({origin}) lacks {', '.join(missing)}")
        if not re.fullmatch(_LABEL_VALUE, candidate.framework):
            raise ValueError(
                f"strategy {_called(candidate)} ({origin}): framework {candidate.framework!r} is not a valid label "
                "value; use up to 63 letters, digits, -, _ and ."
            )
        taken = self.get(candidate.framework)
        if taken.strategy.framework == candidate.framework:
            raise ValueError(
                f"framework {candidate.framework!r} has two strategies: {_called(taken.strategy)} ({taken.origin}) and "
                f"{_called(candidate)} ({origin}); uninstall one or give it another framework"
            )
        self._by_framework[candidate.framework] = Registered(candidate, origin)

    def get(self, framework: str | None) -> Registered:
        """Return the strategy of `framework`, the default one for an unknown framework or None."""
        make = self._shipped.pop(framework or "", None)
        if make is not None:
            self.register(make())
        return self._by_framework.get(framework or "", self._default)

    @property
    def has_plugins(self) -> bool:
        """Whether any strategy comes from another distribution."""
        return any(not registered.in_tree for registered in self._by_framework.values())

    def __iter__(self) -> Iterator[Registered]:
        """All registered strategies by framework name, the default one last."""
        for framework in tuple(self._shipped):
            self.get(framework)
        yield from (self._by_framework[name] for name in sorted(self._by_framework))
        yield self._default

    def add_plugins(self) -> None:
        """Register the strategies of entry points.

        Raises:
            PluginImportError: an entry point cannot be imported or instantiated.
            ValueError, TypeError: as `register`.
        """
        points = _points()
        if points:
            old_name.allow()
        for point in points:
            self.register(_loaded(point), _origin(point))


class PluginImportError(Exception):
    """An entry point in group `muster.strategies` cannot be used; the message names it and its distribution."""


def _points() -> list[EntryPoint]:
    """Return the entry points of the group; `importlib.metadata` is imported only where a distribution may have any."""
    if not any(map(_may_have_points, sys.path)):
        return []
    from importlib import metadata  # noqa: PLC0415  # takes a tenth of the time of `muster check`

    return sorted(metadata.entry_points(group=ENTRY_POINT_GROUP))


def _may_have_points(folder: str) -> bool:
    """Whether a distribution of a folder of `sys.path` names the group; an archive may have one."""
    place = Path(folder)
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in place.glob("*-info/entry_points.txt"))
    return place.is_file() or any(ENTRY_POINT_GROUP in text for text in texts)


def _loaded(point: EntryPoint) -> FrameworkStrategy:
    try:
        found: Callable[[], FrameworkStrategy] | FrameworkStrategy = point.load()
        made: FrameworkStrategy = found() if isinstance(found, type) else found  # type: ignore[assignment]  # register() checks it
        _missing(made)  # a member may be a property that fails
    except (Exception, SystemExit) as error:
        raise PluginImportError(
            f"entry point {point.name} = {point.value} of {_origin(point)} cannot be loaded: "
            f"{type(error).__name__}: {error}; fix or uninstall that package"
        ) from error
    return made


def _missing(candidate: object) -> list[str]:
    missing = [name for name in _METHODS if not callable(getattr(candidate, name, None))]
    return missing + [name for name in _TEXTS if not isinstance(getattr(candidate, name, None), str)]


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _called(candidate: object) -> str:
    return f"{type(candidate).__module__}.{type(candidate).__qualname__}"
