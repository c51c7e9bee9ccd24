"""A server whose engine is dead ends, also while a request still waits for that engine.

vLLM 0.31 then closes its port and waits for open requests, of which some are never answered: the trainer would wait for
ever for a server that has ended for everybody else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from muster_weights.sampler import endings

__all__ = ["watch"]

_watched: list[threading.Thread] = []


def watch(engine: Any, *, end: Callable[[str], Any] = endings.leave, pause: float = 1.0, grace: float = 10.0) -> None:
    """End this process when its engine is dead; looks from a thread of its own, once in a process.

    Args:
        engine: vLLM's client of it, which knows whether it is `errored`.
        end: what is called then; for tests.
        pause: seconds between two looks.
        grace: seconds in which vLLM may end by itself.
    """
    if _watched:
        return
    _watched.append(threading.Thread(target=_look, args=(engine, end, pause, grace), daemon=True))
    _watched[0].start()


def _look(engine: Any, end: Callable[[str], Any], pause: float, grace: float) -> None:
    while not engine.errored:
        time.sleep(pause)
    time.sleep(grace)
    end("vLLM's engine is dead, and the server waits for requests that nobody answers: it ends with 1")
