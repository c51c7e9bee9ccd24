"""What the leader knows about the cluster: the objects with Muster's labels, as views, and a call for each change.

Only the leader follows the cluster, so a replica that waits for the Lease costs neither memory nor watches. The caches
show what may need work; each write is decided again on what the API server returns at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

from webhook.cluster import kinds, readers, reflector, served, stores, transports
from webhook.controllers import views

__all__ = ["Caches", "Changed", "Mirror"]

View = TypeVar("View")
_LOOK = 0.02  # seconds between two looks at whether all caches are filled


class Changed(Protocol):
    """Called for each change with the view before and the view after it; None means that there is none."""

    def __call__(self, before: Any, after: Any) -> None:
        """Handle a change; must not raise and must not wait."""


class _Store(stores.Store, Generic[View]):
    """A store that also keeps a view of each object, by namespace."""

    def __init__(self, kind: served.Kind, view: Callable[[Any], View], changed: Changed) -> None:
        super().__init__(kind)
        self._view = view
        self._changed = changed
        self.views: dict[str, dict[str, View]] = {}

    def replace(self, entries: stores.Entries) -> None:
        super().replace(entries)
        before, self.views = self.views, {}
        for ref in entries:
            self._keep(ref)
        for namespace in sorted(before.keys() | self.views.keys()):
            old, new = before.get(namespace, {}), self.views.get(namespace, {})
            for name in sorted(old.keys() | new.keys()):
                self._changed(old.get(name), new.get(name))

    def put(self, document: readers.Document) -> None:
        super().put(document)
        ref = self._ref(document)
        before = self.views.get(ref.namespace, {}).get(ref.name)
        self._changed(before, self._keep(ref))

    def drop(self, document: readers.Document) -> None:
        super().drop(document)
        ref = self._ref(document)
        names = self.views.get(ref.namespace, {})
        before = names.pop(ref.name, None)
        if not names:
            self.views.pop(ref.namespace, None)
        self._changed(before, None)

    def _ref(self, document: readers.Document) -> readers.Ref:
        ref = self._kind.ref(document)
        assert ref is not None  # noqa: S101 - only snapshots have names that are not kept
        return ref

    def _keep(self, ref: readers.Ref) -> View:
        view = self._view(self.get(ref))
        self.views.setdefault(ref.namespace, {})[ref.name] = view
        return view


class Mirror(Generic[View]):
    """A cache that follows one kind.

    Args:
        kind: the kind, with the label selector that narrows it.
        view: makes a view of a document.
        changed: called for each change while the mirror runs.
    """

    def __init__(
        self,
        kind: served.Kind,
        view: Callable[[Any], View],
        api: transports.Api,
        changed: Changed,
        pace: reflector.Pace,
    ) -> None:
        self.reflector = reflector.Reflector(kind, api, pace)
        self._store = _Store(kind, view, changed)
        self.reflector.store = self._store

    def get(self, namespace: str, name: str) -> View | None:
        """Return one view."""
        return self._store.views.get(namespace, {}).get(name)

    def in_namespace(self, namespace: str) -> list[View]:
        """Return the views of a namespace."""
        return list(self._store.views.get(namespace, {}).values())

    def all(self) -> Iterable[View]:
        """Yield the views of all namespaces."""
        for names in list(self._store.views.values()):
            yield from list(names.values())


class Caches:
    """The caches of all kinds that the controllers follow.

    Args:
        api: a connection to the API server; not closed here.
        changed: what is called for each change, by the name of the kind.
        pace: the times of the watches.
    """

    def __init__(self, api: transports.Api, changed: Mapping[str, Changed], pace: reflector.Pace | None = None) -> None:
        pace = pace or reflector.Pace()
        self.pods = Mirror(kinds.POD, views.Pod.from_document, api, changed["Pod"], pace)
        self.jobs = Mirror(kinds.JOBSET, views.JobSet.from_document, api, changed["JobSet"], pace)
        self.claims = Mirror(kinds.CLAIM, views.Managed.from_document, api, changed["ResourceClaim"], pace)
        self.templates = Mirror(
            kinds.TEMPLATE, views.Managed.from_document, api, changed["ResourceClaimTemplate"], pace
        )
        self.namespaces = Mirror(kinds.NAMESPACE, views.Namespace.from_document, api, changed["Namespace"], pace)
        self._reflectors = [
            each.reflector for each in (self.pods, self.jobs, self.claims, self.templates, self.namespaces)
        ]

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
