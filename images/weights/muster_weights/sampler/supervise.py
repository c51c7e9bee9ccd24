"""`python -m muster_weights.sampler.supervise vllm serve ...`: a server that ends by itself has failed.

vLLM ends with 0 when its engine has died, and then nobody starts it again. Here it ends with 1, unless it was asked to
end. Signals are passed on, and what the server leaves behind ends with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from types import FrameType

from muster_weights.sampler import endings

__all__ = ["main"]

_PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_USAGE = "usage: python -m muster_weights.sampler.supervise COMMAND [ARGUMENT...], such as: vllm serve MODEL"
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def main(command: list[str]) -> int:
    """Run a server to its end.

    Returns:
        What the process ends with: the server's code, 1 where it ended with 0 without being asked, and 128 and the
        signal where it was killed by one.
    """
    if not command:
        sys.stderr.write(f"{_USAGE}\n")
        return 2
    asked: list[int] = []
    server = _started(command, asked)
    code = server.wait()
    if code < 0:
        code = 128 - code
    if asked or code:
        return code
    endings.note("vLLM ended by itself: look at the log for why its engine died; it ends with 1 to be started again")
    return 1


def _started(command: list[str], asked: list[int]) -> subprocess.Popen[bytes]:
    """Start the server with signals passed on, also one that comes before it has started."""
    running: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        asked.append(number)
        for server in running:
            server.send_signal(number)

    for number in _PASSED:
        signal.signal(number, pass_on)
    libc = ctypes.CDLL(None)  # before the fork, after which nothing may be loaded
    parent = os.getpid()
    running.append(subprocess.Popen(command, preexec_fn=lambda: _bound(libc, parent)))  # noqa: S603, PLW1509  # one thread
    for early in asked:
        running[0].send_signal(early)
    return running[0]


def _bound(libc: ctypes.CDLL, parent: int) -> None:
    """Let the kernel end this process when its parent dies, which has nobody else to tell it."""
    libc.prctl(_DIES_WITH_PARENT, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
