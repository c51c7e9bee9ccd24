"""Threads: an exception that is raised in another thread, to end work that nobody waits for.

Python cannot stop a thread, but an exception can be raised in it (`PyThreadState_SetAsyncExc`), which takes effect at
its next bytecode. Only a call into C that does not return delays that.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable

__all__ = ["Ended", "GivenUpError"]


class GivenUpError(BaseException):
    """Raised in a thread whose work nobody waits for; no `except Exception` on its way keeps it."""


class Ended:
    """A thread for one piece of work, which can be told to end.

    Args:
        work: raises nothing but `GivenUpError`.
        name: of the thread.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._is_over = self._is_told = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin the work."""
        self._thread.start()

    def tell(self) -> bool:
        """Tell the thread to end; return False when it has. A thread may catch what ends it, and is told again.

        Under a debugger, a profiler or coverage.py it is not told, and ends when its work does.
        """
        with self._lock:  # so that nothing is raised in a thread that has left `_run`
            if not self._is_over and not _is_traced():
                self._is_told = True
                _raise_in(self._thread, GivenUpError)
            return not self._is_over

    def _run(self) -> None:
        with contextlib.suppress(GivenUpError):
            try:
                self._work()
            finally:
                self._leave()

    def _leave(self) -> None:
        while not self._is_over:
            with contextlib.suppress(GivenUpError), self._lock:
                self._is_over = True
        if self._is_told:
            with contextlib.suppress(GivenUpError):
                # What was not raised yet is raised here. To take it back (None) would leave a flag of CPython 3.11 set,
                # with which it stops at each bytecode from then on, and for ever under a debugger.
                _raise_in(self._thread, GivenUpError)
                for _ in range(1_000_000):
                    pass


def _is_traced() -> bool:
    # While an exception waits for a thread that is in C, the traced threads of CPython 3.11 do not come to their next
    # bytecode (`DO_TRACING` in ceval.c looks at the same flag before each of them).
    return any(each() for each in (sys.gettrace, sys.getprofile, threading.gettrace, threading.getprofile))


def _raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    what = ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), what)
