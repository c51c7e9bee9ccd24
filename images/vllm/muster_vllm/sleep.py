"""A server that cannot sleep refuses to: at its start when a flag asks for sleep, else in its answer to a request.

vLLM on CPU answers `POST /sleep` with 200, reports that it sleeps, and frees no memory; a trainer on the same device
would then run out of memory. `--enable-sleep-mode` on CPU ends in a traceback whose last line is an address.
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
    """End a process that is started with sleep mode where it cannot sleep; add `refuse` to the endpoints of all others.

    vLLM calls it before it reads its arguments, once in each process of the API server and of the engine.
    """
    if asked(sys.argv) and not current_platform.is_sleep_mode_available():
        _end(f"sleep mode needs a GPU, and vLLM runs on {current_platform.device_type} here; remove {_FLAG}")
    for route in api_router.router.routes:
        if isinstance(route, APIRoute) and route.path in _ASLEEP:
            route.dependencies.append(Depends(refuse))


def asked(words: Sequence[str]) -> bool:
    """Whether a command line asks for sleep mode; `_` may stand for `-`, and the last such flag wins."""
    written = [word.replace("_", "-") for word in words]
    last = [word for word in written if word in (_FLAG, _FLAG.replace("--", "--no-", 1))]
    return last[-1:] == [_FLAG]


def refuse(request: Request) -> None:
    """Answer 501 from a server that was started without sleep mode.

    Raises:
        HTTPException: the server was started without sleep mode.
    """
    if not request.app.state.args.enable_sleep_mode:
        message = f"this server cannot sleep: it was started without {_FLAG}, which needs a GPU; nothing was changed"
        raise HTTPException(status_code=501, detail=message)


def _end(text: str) -> None:
    """End the process with the reason in the log and, in a container, as its termination message."""
    path = Path(os.environ.get("MUSTER_TERMINATION_LOG", "/dev/termination-log"))
    with contextlib.suppress(OSError):
        if path.is_file():
            path.write_text(f"muster: {text}\n")
    sys.exit(f"muster: {text}")
