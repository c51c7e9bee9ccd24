"""From a trainer's tensors to a sampler that serves them, whatever happens to either in between."""

from __future__ import annotations

import atexit
import contextlib
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from muster_weights import folders, names, readings
from muster_weights.refusals import Missing, Refused
from muster_weights.trainer.servers import Away, Server
from muster_weights.trainer.settings import Settings

__all__ = ["Sync", "asked"]

_POLL, _LONGEST_POLL = 0.001, 0.1
_PAUSE, _LONGEST = 0.2, 5.0
_AGAIN = 1.0  # seconds until a sampler that was away gets the newest version


class Sync:
    """The versions of one trainer's process, and the sampler that serves them.

    Args:
        url: of the sampler.
        settings: where the files are, and how long to try.
        refused: what is called with the reason when the sampler must not serve what it was given; never returns.

    Attributes:
        run: the name of this process in paths.
        settings: as given.
        server: the sampler, for the thread of the trainer.
        dtype: in which the sampler computes, such as `float32`.
        adapter: the name of the adapter that is served; None for a whole model.
    """

    adapter: str | None = None

    def __init__(self, url: str, settings: Settings, refused: Callable[[str], Any]) -> None:
        self.run = names.new_run()
        self.server = Server(url, settings.deadline)
        self.dtype = ""
        self.settings = settings
        self._refused = refused
        self._told: names.Told | None = None
        self._version = 0
        self._before: set[str] = set()
        self._busy = threading.Lock()
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="muster-weights", daemon=True)

    def open(self) -> None:
        """Take the sampler's lease, and keep it until `close`, which an ended process calls by itself.

        Raises:
            Away: it did not answer, or another trainer held it, until the deadline.
            Refused: it takes no weights by files.
        """
        self.settings.folder.mkdir(parents=True, exist_ok=True)
        self._before = self._earlier(self._tried(lambda: self._bound(self.server)))
        self.dtype = self._tried(self.server.dtype)
        self._beating.start()
        atexit.register(self.close)

    def send(self, tensors: Iterable[folders.Named]) -> None:
        """Publish the next version and return when it is served; a sampler that is away is waited for.

        Raises:
            Away: it was not served until the deadline.
            Refused: the storage is full.
        """
        with self._busy:
            told = folders.publish(self.settings.folder, self.run, self._version + 1, tensors)
            self._version = told.version
            self._drive(told)
            self._told = told
            folders.announce(self.settings.folder, told)
            self._tidy()

    def ensure(self) -> None:
        """Return when the newest version is served; a sampler that started again gets it once more. Raises `Away`."""
        with self._busy:
            if self._told is not None:
                self._drive(self._told)

    def close(self) -> None:
        """Give the lease back and remove all that this run wrote; twice does no harm."""
        atexit.unregister(self.close)
        if self._ended.is_set():
            return
        self._ended.set()
        if self._beating.is_alive() and self._beating is not threading.current_thread():
            self._beating.join(_LONGEST)  # so that the lease is not taken again after it was given back
        with contextlib.suppress(Away, Refused):
            self.server.release(self.run)
        folders.remove(self.settings.folder, self.run)

    def again(self, action: Callable[[], Any], faults: tuple[type[Exception], ...]) -> Any:
        """Call an action until it works, with the newest version served each time; its faults until the deadline."""
        for last in self._tries():
            try:
                self.ensure()
                return action()
            except faults as fault:
                last(fault)
        raise AssertionError("the last try raises")

    def _bound(self, server: Server) -> dict[str, Any]:
        """Take the lease and bind the sampler to this run; returns what it served before."""
        found = server.renew(self.run, self.settings.lease)
        if found["run"] != self.run:
            server.bind(self.run)
        return found

    def _drive(self, told: names.Told) -> None:
        try:
            self._tried(lambda: self._served(self.server, told))
        except Missing as reason:
            raise Away(f"the sampler does not see {told.text}: {reason}") from reason
        except Refused as reason:
            self._refused(f"the sampler did not take {told.text}, and goes on with what it has: {reason}")
            raise

    def _served(self, server: Server, told: names.Told) -> None:
        found = self._bound(server)
        if (found["run"], found["version"], found["digest"]) == (told.run, told.version, told.digest):
            if server.is_paused():
                server.resume()
            return
        asked(lambda: server.staged(told))
        with server.paused():
            server.load(told)

    def _tried(self, action: Callable[[], Any]) -> Any:
        for last in self._tries():
            try:
                return action()
            except (Away, Missing) as fault:
                last(fault)
        raise AssertionError("the last try raises")

    def _tries(self) -> Iterator[Callable[[Exception], None]]:
        """Yield what is to be called with the fault of a try; it raises the fault after the deadline."""
        end, pause = time.monotonic() + self.settings.deadline, _PAUSE

        def failed(fault: Exception) -> None:
            if time.monotonic() + pause > end or self._ended.is_set():
                raise fault
            _say(f"the sampler is tried again: {str(fault)[:300]}")

        while True:
            yield failed
            self._ended.wait(pause * random.uniform(0.5, 1.5))  # noqa: S311  # no secret
            pause = min(2 * pause, _LONGEST)

    def _beat(self) -> None:
        """Keep the lease, and give a sampler that was started again the newest version; runs beside the training."""
        server = Server(self.server.url, self.settings.deadline)
        pause = usual = self.settings.lease / 4
        while not self._ended.wait(pause):
            try:
                self._beaten(server)
                pause = usual
            except Away:
                pause = min(usual, _AGAIN)  # the training notices, and waits
            except Refused as reason:
                _say(f"the sampler does not serve the newest version, and refuses it: {str(reason)[:300]}")

    def _beaten(self, server: Server) -> None:
        found = server.renew(self.run, self.settings.lease)
        if self._told is not None and found["digest"] != self._told.digest:
            self._mend(server)

    def _mend(self, server: Server) -> None:
        if not self._busy.acquire(blocking=False):
            return  # the training sends a version itself
        try:
            if self._told is not None and not self._ended.is_set():
                self._served(server, self._told)
        finally:
            self._busy.release()

    def _earlier(self, found: dict[str, Any]) -> set[str]:
        """Return the runs whose trainers are dead: the one that the sampler served, and the one of the note."""
        with contextlib.suppress(Refused):
            noted = readings.current(self.settings.folder)
            return {run for run in (found["run"], noted and noted.run) if run and run != self.run}
        return set()

    def _tidy(self) -> None:
        folders.prune(self.settings.folder, self.run, self.settings.keep)
        while self._before:
            folders.remove(self.settings.folder, self._before.pop())


def asked(done: Callable[[], bool]) -> None:
    """Ask until it is done; each time a little later, so that what takes long is not asked for often."""
    pause = _POLL
    while not done():
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_POLL)


def _say(text: str) -> None:
    sys.stderr.write(f"muster: {text}\n")
    sys.stderr.flush()
