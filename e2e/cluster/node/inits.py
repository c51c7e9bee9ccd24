"""The first process of a sandbox: it waits, reaps orphans, and takes everything in the sandbox with it when it ends.

Run by its path as a program of its own, by an interpreter that loads nothing else: it is the ancestor of a whole
cluster and should be small. The kernel ends every process of a pid namespace with its first one.
"""

from __future__ import annotations

import os
import signal

__all__ = ["main"]


def main() -> None:
    """Reap children until SIGTERM."""
    awaited = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    _reap()  # what ended before: its signal is lost, and no other may come
    while signal.sigwait(awaited) != signal.SIGTERM:
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
