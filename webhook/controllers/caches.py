"""What the leader knows about the cluster: the objects with Muster's labels, as views, and a call for each change.

Only the leader follows the cluster, so a replica that waits for the Lease costs neither memory nor watches. The caches
show what may need work; each write is decided again on what the API server returns at that moment.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct, structs

from muster.kube import payloads, transports
from muster.webhook.cluster import kinds, readers, reflector, served, stores
from muster.webhook.controllers import views

__all__ = ["ROOM", "Caches", "Changed", "Mirror", "Source"]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


View = TypeVar("View", bound=_Named)
ROOM = 160 * 1024 * 1024
"""Bytes of which each kind has its share, where nothing else is said."""
_LOOK = 0.02  # seconds between two looks at whether all caches are filled
_FILED = 200  # bytes that each claim takes which a view names


class Changed(Protocol):
    """Called for each change with the view before and the view after it; None means that there is none."""

    def __call__(self, before: Any, after: Any) -> None:
        """Handle a change; must not raise and must not wait."""


class Source(NamedTuple):
    """What all mirrors share: the API server, the times of watches, memory, the turn of large bodies, the namespace."""

    api: transports.Api
    pace: reflector.Pace
    room: int
    turn: payloads.Turn
    namespace: str = ""


class Mirror(stores.Store, Generic[View]):
    """A store that follows one kind, keeps a view of each object in its place, and finds views by what they name.

    Pods and JobSets are as large and as many as their authors want, so views share a number of bytes as other cached
    objects do. A view that is left out is one that does not exist: its pod gets no seat, and keeps the one that it has,
    because before a seat is taken away the API server is asked.

    Args:
        kind: the kind, with the label selector that narrows it.
        view: makes a view of a document.
        changed: called for each change while the reflector runs.
        source: where objects come from, and the memory of which the kind has its share.
        named: returns the claims that a view names.

    Attributes:
        reflector: follows the kind.
    """

    def __init__(
        self,
        kind: served.Kind,
        view: Callable[[Any], View],
        changed: Changed,
        source: Source,
        named: Callable[[View], Iterable[str]] = lambda _: (),
    ) -> None:
        super().__init__(kind, int(source.room * kind.share))
        self._view = view
        self._changed = changed
        self._named = named
        self._naming: dict[tuple[str, str], dict[str, View]] = {}  # by namespace and claim, then by own name
        self.reflector = reflector.Reflector(kind, source.api, source.pace, self, source.turn, source.namespace)

    def look(self, namespace: str, name: str) -> View | None:
        """Return one view."""
        found = self._shelf.get(readers.Ref(self._kind.name, namespace if self._kind.namespaced else "", name))
        view: View | None = found[0] if found else None
        return view

    def in_namespace(self, namespace: str) -> list[View]:
        """Return the views of a namespace."""
        views: list[View] = self._shelf.in_namespace(namespace)
        return views

    def naming(self, namespace: str, claim: str) -> list[View]:
        """Return the views of a namespace that name a claim."""
        return list(self._naming.get((namespace, claim), {}).values())

    def all(self) -> Iterator[View]:
        """Yield the views of all namespaces."""
        found = (self.look(namespace, name) for namespace, name in self._shelf.names())
        return (view for view in found if view is not None)

    def _hold(self, ref: readers.Ref, document: readers.Document) -> None:
        after = self._view(self._kind.typed(document))
        before = self._forgotten(ref)
        names = tuple(self._named(after))
        for namespace, gone in self._shelf.put(ref, after, _weight(after) + _FILED * len(names)):
            self._unfile(namespace, gone)
            self._changed(gone, None)
        if self._shelf.get(ref) is None:
            self._changed(before, None)
            return
        for name in names:
            self._naming.setdefault((ref.namespace, name), {})[after.name] = after
        self._changed(before, after)

    def _leave(self, ref: readers.Ref) -> None:
        before = self._forgotten(ref)
        super()._leave(ref)
        self._changed(before, None)

    def _remove(self, ref: readers.Ref) -> None:
        self._changed(self._forgotten(ref), None)

    def _forgotten(self, ref: readers.Ref) -> View | None:
        before: View | None = self._shelf.pop(ref)
        if before is not None:
            self._unfile(ref.namespace, before)
        return before

    def _unfile(self, namespace: str, view: View) -> None:
        for name in self._named(view):
            there = self._naming.get((namespace, name), {})
            there.pop(view.name, None)
            if not there:
                self._naming.pop((namespace, name), None)


def _weight(value: Any) -> int:
    """Return the bytes that a view takes: its own, those of its fields, and of what is in these."""
    if isinstance(value, Mapping):
        parts: Iterable[Any] = (*value.keys(), *value.values())
    elif isinstance(value, (tuple, frozenset)):
        parts = value
    elif isinstance(value, Struct):
        parts = structs.astuple(value)
    elif dataclasses.is_dataclass(value):
        parts = [getattr(value, each.name) for each in dataclasses.fields(value)]
    else:
        parts = ()
    return sys.getsizeof(value) + sum(map(_weight, parts))


class Caches:
    """The caches of all kinds that the controllers follow.

    Args:
        api: a connection to the API server; not closed here.
        changed: what is called for each change, by the name of the kind.
        pace: the times of the watches.
        room: bytes of which the views of each kind may take a share.
        namespace: whose objects are followed; "" for those of all.
    """

    def __init__(
        self,
        api: transports.Api,
        changed: Mapping[str, Changed],
        pace: reflector.Pace | None = None,
        room: int = ROOM,
        namespace: str = "",
    ) -> None:
        source = Source(api, pace or reflector.Pace(), room, payloads.Turn(), namespace)
        managed = views.Managed.from_document
        self.pods = Mirror(kinds.POD, views.Pod.from_document, changed["Pod"], source, lambda pod: pod.claims)
        self.jobs = Mirror(kinds.JOBSET, views.JobSet.from_document, changed["JobSet"], source, lambda job: job.sizes)
        self.claims = Mirror(kinds.CLAIM, managed, changed["ResourceClaim"], source)
        self.templates = Mirror(kinds.TEMPLATE, managed, changed["ResourceClaimTemplate"], source)
        self.namespaces = Mirror(kinds.NAMESPACE, views.Namespace.from_document, changed["Namespace"], source)
        self._reflectors = [
            each.reflector for each in (self.pods, self.jobs, self.claims, self.templates, self.namespaces)
        ]

    def figure(self, name: str) -> dict[str, float]:
        """Return a figure about each cache, by kind; its name is one of `stores.FIGURES`."""
        count = stores.FIGURES[name]
        return {each.kind.name: float(count(each.store)) for each in self._reflectors}

    @asynccontextmanager
    async def following(self) -> Any:
        """Follow until the context ends; the context is entered when every kind has been listed once."""
        async with AsyncExitStack() as stack:
            tasks = [asyncio.create_task(each.run(), name=f"follow {each.kind.name}") for each in self._reflectors]
            stack.push_async_callback(_cancelled, tasks)
            while not all(each.synced for each in self._reflectors):  # noqa: ASYNC110 - a reflector knows no events
                await asyncio.sleep(_LOOK)
            yield


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
