"""The interface that readers need of an HTTP client, independent of which client it is.

Lists, watches and single reads are all GETs of JSON, some of them endless; bytes go straight to the JSON parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

__all__ = [
    "Api",
    "MalformedError",
    "NoClusterError",
    "OversizedError",
    "Patience",
    "RefusedError",
    "Response",
    "Sender",
    "TransportError",
    "UnreachableError",
]


@dataclass(frozen=True, slots=True)
class Patience:
    """The time limits of one request, in seconds.

    Attributes:
        connect: limit for the connection, TLS included.
        silence: limit between two arrivals of bytes; the whole request has no limit, since a watch has none.
    """

    connect: float
    silence: float


class Response(Protocol):
    """An answer whose body has not been read."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; look-ups ignore case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, in pieces of any size.

        Raises:
            UnreachableError: the connection broke or was silent for too long.
        """
        ...


class Api(Protocol):
    """A connection to one API server, with its credentials."""

    def get(self, path: str, query: Mapping[str, str], patience: Patience) -> AbstractAsyncContextManager[Response]:
        """Send a GET; the body is dropped and the connection closed when the context ends before the body does.

        Raises:
            UnreachableError: no answer came.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class Sender(Api, Protocol):
    """A connection that also writes; admission stores nothing, and makes dry runs alone."""

    def send(  # noqa: PLR0913 - what an HTTP request is made of
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        patience: Patience,
        body: Any = None,
        content_type: str = "application/json",
    ) -> AbstractAsyncContextManager[Response]:
        """Send a request.

        Raises:
            UnreachableError: no answer came.
        """
        ...


class NoClusterError(ValueError):
    """No API server is configured, or its configuration cannot be used; the message says what to do."""


class TransportError(Exception):
    """A request to the API server failed; the subclass says how."""


class UnreachableError(TransportError):
    """No answer, or the answer broke off; the client's own error is chained."""


class MalformedError(TransportError):
    """The answer is not one of a Kubernetes API server."""


class OversizedError(TransportError):
    """The answer, or one line of it, is larger than the limit."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit // 1024} KiB")


class RefusedError(TransportError):
    """The API server answered with an error.

    Attributes:
        status: HTTP status, or the `code` of a Status object inside a watch.
        message: what the server said.
        retry_after: seconds that the server asks the client to wait, or None.
    """

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message
        self.retry_after = retry_after
