"""From the adapter of a trainer to a sampler that serves it, without a pause.

A sampler holds as many versions as its requests may name at once. One that was started again gets all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from muster_weights import adapters, folders, names
from muster_weights.refusals import Refused
from muster_weights.trainer.servers import Server
from muster_weights.trainer.settings import Settings
from muster_weights.trainer.syncs import Sync, asked

__all__ = ["AdapterSync"]


class AdapterSync(Sync):
    """The adapters of one trainer's process, and the sampler that serves them; as `Sync` otherwise.

    Args:
        url: of the sampler.
        settings: where the files are, and how long to try.
        refused: called with the reason when the sampler must not serve what it was given; never returns.
        held: versions that the sampler serves at once, the newest among them.
    """

    def __init__(self, url: str, settings: Settings, refused: Callable[[str], Any], held: int) -> None:
        super().__init__(url, settings, refused)
        self._most = held
        self._live: list[names.Told] = []

    def publish(self, tensors: Iterable[folders.Named], version: int) -> None:
        """Publish a version and return when it is served beside those before it, while requests run.

        Args:
            tensors: as `adapters.packed` has them.
            version: higher than all before it.

        Raises:
            Away: it was not served until the deadline.
            Refused: the storage is full, or the version is not higher.
        """
        with self._busy:
            if version <= self._version:
                raise Refused(f"{self.run}/{version}: {self._version} was published already: publish a higher version")
            told = folders.publish(self.settings.folder, self.run, version, tensors)
            self._version = version
            self._live = [*self._live, told][-self._most :]
            self._drive(told)
            self._told = told
            self.adapter = adapters.name_of(told)
            folders.announce(self.settings.folder, told)
            self._tidy()

    def _served(self, server: Server, told: names.Told) -> None:  # noqa: ARG002  # the newest of those that are live
        """Have the sampler serve what may be asked for and no more, the oldest first."""
        found = self._bound(server)
        wanted = {adapters.name_of(each): each for each in self._live}
        if set(found["adapters"]) - set(wanted):
            server.keep(self.run, self._live[0].version)
        for name, each in wanted.items():
            if name not in found["adapters"]:
                asked(partial(server.loaded, each))
        if server.is_paused():
            server.resume()

    def _tidy(self) -> None:
        folders.prune(self.settings.folder, self.run, max(self._most, self.settings.keep))
        while self._before:
            folders.remove(self.settings.folder, self._before.pop())
