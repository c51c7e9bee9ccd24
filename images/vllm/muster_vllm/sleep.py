"""A server that cannot sleep says so: at its start when it is asked for, else to who asks.

vLLM on CPU answers `POST /sleep` with 200, calls itself asleep, and gives no memory back; a trainer on the same device
would then run out of it. `--enable-sleep-mode` on CPU ends in a traceback whose last line is an address.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fastapi import Depends, HTTPException, Request
from fastapi.routing import APIRoute
from vllm.entrypoints.serve.dev.sleep import api_router
from vllm.platforms import current_platform

__all__ = ["asked", "refuse", "register"]

_FLAG = "--enable-sleep-mode"
_ASLEEP = ("/sleep", "/wake_up")


def register() -> None:
    """End a process that was asked to sleep where it cannot; let the endpoints of all others be asked first.

    vLLM calls it before it reads its arguments, in the processes of the API server and of the engine, once in each.
    """
    if asked(sys.argv) and not current_platform.is_sleep_mode_available():
        _end(f"sleep mode needs a GPU, and vLLM runs on {current_platform.device_type} here: take {_FLAG} away")
    for route in api_router.router.routes:
        if isinstance(route, APIRoute) and route.path in _ASLEEP:
            route.dependencies.append(Depends(refuse))


def asked(words: Sequence[str]) -> bool:
    """Whether a command line asks for sleep mode; `_` may stand for `-`, and the last word on it holds."""
    written = [word.replace("_", "-") for word in words]
    last = [word for word in written if word in (_FLAG, _FLAG.replace("--", "--no-", 1))]
    return last[-1:] == [_FLAG]


def refuse(request: Request) -> None:
    """Answer 501 from a server that was started without sleep mode.

    Raises:
        HTTPException: always there.
    """
    if not request.app.state.args.enable_sleep_mode:
        message = f"this server cannot sleep: it was started without {_FLAG}, which needs a GPU; nothing was done"
        raise HTTPException(status_code=501, detail=message)


def _end(text: str) -> None:
    """Leave the reason in the log and, in a container, as its termination message."""
    path = Path(os.environ.get("MUSTER_TERMINATION_LOG", "/dev/termination-log"))
    with contextlib.suppress(OSError):
        if path.is_file():
            path.write_text(f"muster: {text}\n")
    sys.exit(f"muster: {text}")
