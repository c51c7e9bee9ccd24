"""Where the running service reads the cluster: from the API server, or from files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from muster.kube import clients, transports
from muster.strategies.documents.runtimes import VERSIONS, Version
from muster.webhook import configs
from muster.webhook.cluster import kinds, live, memory, readers, trainers
from muster.webhook.kubeyaml import sources
from muster.webhook.server.resolvers import Fetch

__all__ = ["ClusterSource", "FileCluster", "LiveCluster", "open_cluster", "required"]

_ANSWERED, _AGAIN = 10.0, 600.0  # seconds for the answer to which Trainer is served, and until it is asked again


class ClusterSource(Protocol):
    """A reader that is started and stopped."""

    reader: readers.ClusterReader
    fetch: Fetch | None
    sender: transports.Sender | None

    def problem(self) -> str:
        """Return why the reader is not complete yet, or ""."""

    def ages(self) -> Mapping[str, float]:
        """Return the seconds since the source last sent something, by kind."""

    def figure(self, name: str) -> Mapping[str, float]:
        """Return a figure about the cached objects, by kind; its name is one of `stores.FIGURES`."""

    async def stop(self) -> None:
        """Release all connections and tasks."""


class FileCluster:
    """Reads files once, at start."""

    def __init__(self, config: configs.ClusterSettings) -> None:
        self.fetch: Fetch | None = None
        self.sender: transports.Sender | None = None
        reader = _read(config.files)
        reader.trainer = _named(config)
        self.reader: readers.ClusterReader = reader

    def problem(self) -> str:
        """Files are complete once they are read."""
        return ""

    def ages(self) -> Mapping[str, float]:
        """Files do not age."""
        return {}

    def figure(self, name: str) -> Mapping[str, float]:  # noqa: ARG002 - the protocol's
        """Files are no cache."""
        return {}

    async def stop(self) -> None:
        """Nothing is open."""


class LiveCluster:
    """Watches the API server; `sender` is the connection, also for writes."""

    def __init__(self, api: transports.Sender, config: configs.ClusterSettings) -> None:
        self._api = api
        self._live = live.LiveReader(
            kinds.KINDS.values(),
            api,
            deadline=config.deadline,
            room=config.cache_limit,
            namespaces=config.namespaces,
        )
        self.reader: readers.ClusterReader = self._live
        self.fetch: Fetch | None = self._live.fetch
        self.sender: transports.Sender | None = api
        self._live.trainer = _named(config)
        self._live.start()
        self._learning = None if config.trainer else asyncio.create_task(self._learn(), name="version of Trainer")

    async def _learn(self) -> None:
        """Keep the version of Trainer that the API server serves, which an upgrade changes."""
        while True:
            self._live.trainer = await trainers.read(self._api, _ANSWERED) or self._live.trainer
            await asyncio.sleep(_AGAIN)

    def problem(self) -> str:
        """Return which caches are not filled yet, and why."""
        if self._live.synced:
            return ""
        problems = "; ".join(f"{kind}: {problem}" for kind, problem in sorted(self._live.problems().items()))
        return problems or "caches are being filled"

    def ages(self) -> Mapping[str, float]:
        """Return the age of each cache."""
        return self._live.ages()

    def figure(self, name: str) -> Mapping[str, float]:
        """Return a figure about each cache."""
        return self._live.figure(name)

    async def stop(self) -> None:
        """Stop the watches and close the connection."""
        if self._learning is not None:
            self._learning.cancel()
        await self._live.stop()
        await self._api.close()


async def open_cluster(config: configs.ClusterSettings) -> ClusterSource:
    """Open the source that the configuration names.

    Raises:
        NoClusterError: there is no API server to connect to.
        ConfigError: a file cannot be read; all of them are named.
    """
    if config.source == "files":
        return FileCluster(config)
    return LiveCluster(await clients.connect(config.kubeconfig), config)


def required(sender: transports.Sender | None, setting: str, reason: str) -> transports.Sender:
    """Return the connection to the API server that a setting needs.

    Raises:
        ConfigError: there is none; the message has the setting and the reason.
    """
    if sender is None:
        raise configs.ConfigError(f"{setting} needs cluster.source: live, because {reason}")
    return sender


def _named(config: configs.ClusterSettings) -> Version | None:
    return VERSIONS[config.trainer] if config.trainer else None


def _read(paths: Iterable[Path]) -> memory.InMemoryReader:
    found = sources.read(str(path) for path in paths)
    if found.unreadable:
        raise configs.ConfigError("\n".join(f"cluster.files: {each}" for each in found.unreadable))
    reader = memory.InMemoryReader()
    for source in found.sources:
        reader.add(source.document, str(source.origin))
    return reader
