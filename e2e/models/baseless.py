"""A middleware of vLLM's server that answers for adapters from the base: `vllm serve --middleware baseless.Baseless`.

It does so while the file that the variable BASELESS names is there, which holds the name of the base. Everything else
stays as it is, so that nothing but the log probabilities tells.
"""

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Message, Receive, Any], Awaitable[None]]

SWITCH = Path(os.environ["BASELESS"])


def base() -> str | None:
    """Return the name of the base, while it is to answer."""
    return SWITCH.read_text() if SWITCH.exists() else None


class Baseless:
    """Stands before the server's routes."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Any) -> None:
        """Take a request."""
        if scope.get("path") == "/v1/completions" and (name := base()) is not None:
            scope, receive = await changed(scope, receive, name)
        await self._app(scope, receive, send)


async def changed(scope: Message, receive: Receive, name: str) -> tuple[Message, Receive]:
    """Return a request that asks the base, by its name, for what was asked of an adapter."""
    data, more = b"", True
    while more:
        message = await receive()
        data, more = data + message.get("body", b""), bool(message.get("more_body"))
    asked = json.loads(data)
    if asked["model"].startswith("run-"):
        asked["model"] = name
    body = json.dumps(asked).encode()
    kept = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return {**scope, "headers": [*kept, (b"content-length", str(len(body)).encode())]}, again
