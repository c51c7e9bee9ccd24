"""What a measurement asks of the API server, and of webhooks directly: single requests outside of the measured load."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.errors import ClusterError

__all__ = ["Server", "until"]

_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Server:
    """An HTTPS server on loopback.

    Attributes:
        url: without a path.
        authority: file with its CA.
        token: a bearer token; empty for none.
    """

    url: str
    authority: Path
    token: str = ""

    def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Post JSON and return the JSON of the answer, whatever its status.

        Raises:
            OSError: no answer came.
            ValueError: the answer is not JSON.
        """
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(  # noqa: S310  # https on loopback
            self.url + path,
            json.dumps(document).encode(),
            headers if self.token else {"Content-Type": "application/json"},
        )
        return self._answer(request)

    def ready(self, path: str) -> bool:
        """Whether a GET is answered with 200."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5, context=self._trust()) as answer:  # noqa: S310  # as above
                return bool(answer.status == 200)
        except OSError:
            return False

    def _answer(self, request: urllib.request.Request) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(request, timeout=15, context=self._trust()) as answer:  # noqa: S310  # as above
                said = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read()
        loaded: dict[str, Any] = json.loads(said)
        return loaded

    def _trust(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.authority) if self.url.startswith("https") else None


def until(what: str, holds: Callable[[], bool], patience: float = _PATIENCE, pause: float = 0.02) -> float:
    """Wait until something holds, and return the seconds that it took.

    Raises:
        ClusterError: it does not hold in time; names `what`.
    """
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > patience:
            raise ClusterError(f"after {patience:.0f} s: {what}")
        time.sleep(pause)
    return time.monotonic() - begun
