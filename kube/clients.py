"""Clients: requests to one API server, over aiohttp."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from muster.kube import authentication, transports
from muster.kube.authentication import Credentials

__all__ = ["Client", "connect", "namespace_of"]

_RELOAD_EVERY = 60.0  # seconds between two reads of credentials that were refused
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)
Load = Callable[[], Awaitable[Credentials]]


async def connect(kubeconfig: Path | None = None, context: str | None = None) -> transports.Sender:
    """Return a connection to an API server, which the caller closes. Nothing is sent yet.

    Args:
        kubeconfig: a file; without one, the service account when in a pod, else KUBECONFIG, else `~/.kube/config`.
        context: the context in the kubeconfig, by default its current one; naming one means a kubeconfig even in a pod.

    Raises:
        transports.NoClusterError: the file is missing or wrong, or there is nothing to connect to.
    """

    async def load() -> Credentials:
        if kubeconfig is None and context is None and authentication.is_pod():
            return authentication.in_cluster()
        from muster.kube import kubeconfigs  # noqa: PLC0415  # a pod needs neither pydantic nor YAML

        return await kubeconfigs.load(kubeconfig, context)

    return Client(await load(), load)


def namespace_of(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """Return the namespace of a kubeconfig's context, `default` where it names none; for use after `connect`."""
    from muster.kube import kubeconfigs  # noqa: PLC0415  # as above

    return kubeconfigs.namespace_of(kubeconfig, context)


class _Response:
    """An aiohttp response as a `transports.Response`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except _FAILURES as error:
            raise transports.UnreachableError(f"the answer broke off: {_said(error)}") from error


class Client:
    """A `transports.Sender`.

    Args:
        found: the credentials.
        load: reads them again, from where they came, when the API server answers 401, at most once a minute.
    """

    def __init__(self, found: Credentials, load: Load | None = None) -> None:
        self._credentials = found
        self._load = load
        self._session: aiohttp.ClientSession | None = None
        self._loaded = -_RELOAD_EVERY

    @contextlib.asynccontextmanager
    async def get(
        self, path: str, query: Mapping[str, str], patience: transports.Patience
    ) -> AsyncIterator[transports.Response]:
        """Send a GET with credentials. See `transports.Api.get`."""
        async with self.send("GET", path, query, patience) as response:
            yield response

    @contextlib.asynccontextmanager
    async def send(  # noqa: PLR0913 - what an HTTP request is made of
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        patience: transports.Patience,
        body: Any = None,
        content_type: str = "application/json",
    ) -> AsyncIterator[transports.Response]:
        """Send any request with credentials. See `transports.Sender.send`.

        Raises:
            UnreachableError: no answer came; a write may have been carried out nevertheless.
        """
        response = await self._open(method, path, query, patience, body, content_type)
        try:
            if response.status == 401:
                await self._reload()
            yield _Response(response)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _open(  # noqa: PLR0913 - what an HTTP request is made of
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        patience: transports.Patience,
        body: Any,
        content_type: str,
    ) -> aiohttp.ClientResponse:
        if self._session is None:  # needs a running loop; an event of a watch can be larger than aiohttp's own buffer
            self._session = aiohttp.ClientSession(trust_env=True, read_bufsize=2**21)
        found = self._credentials
        # identity: an uncompressed answer has a known size, and inside a cluster bandwidth is cheaper than CPU
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "muster"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            if authorization := found.authorization():
                headers["Authorization"] = authorization
            return await self._session.request(
                method,
                found.url + path,
                params=query,
                headers=headers,
                data=None if body is None else orjson.dumps(body),
                timeout=aiohttp.ClientTimeout(total=None, connect=patience.connect, sock_read=patience.silence),
                ssl=True if found.tls is None else found.tls,
                server_hostname=found.server_name,
                proxy=found.proxy,
                allow_redirects=False,
            )
        except _FAILURES as error:
            raise transports.UnreachableError(f"no answer from {found.url}: {_said(error)}") from error

    async def _reload(self) -> None:
        if self._load is None or time.monotonic() - self._loaded < _RELOAD_EVERY:
            return
        self._loaded = time.monotonic()
        with contextlib.suppress(transports.NoClusterError):  # the 401 itself is reported, and is more informative
            self._credentials = await self._load()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
