"""Which strategy serves which framework, and what happens when one fails.

In-tree strategies are listed in `frameworks/builtin.py`, out-of-tree ones by an entry point in group
`muster.strategies` (a class, or an object with the protocol's members). Two strategies for one framework are an error
that names both: silently shadowing one would change what runs on a whole cluster. If a plugin raises, the error names
it and its changes are discarded; the service and the other strategies go on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from muster.strategies.plugins import old_name
from muster.strategies.plugins.protocols import FrameworkStrategy

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["ENTRY_POINT_GROUP", "PluginError", "PluginImportError", "Registered", "Registry"]

ENTRY_POINT_GROUP = "muster.strategies"
IN_TREE = "in-tree"
_METHODS = ("enforce_command", "enforce_rendezvous", "enforce_claims", "validate")
_TEXTS = ("framework", "version")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


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
        if not _LABEL_VALUE.fullmatch(candidate.framework):
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
