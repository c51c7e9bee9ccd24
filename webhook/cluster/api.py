"""The only module that imports kubernetes.

The official client (37) provides credentials, TLS and proxies; its models and typed APIs are not used, because raw JSON
is smaller and faster and keeps fields that the models do not know. Importing it costs 3 MiB in addition to aiohttp and
pydantic, which the service imports anyway, and would cost 10 with its synchronous half (`clients`); import this module
only from `live.connect`.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from muster.webhook.cluster import clients, transports

clients.leave_out_the_synchronous()

from kubernetes.aio import client, config  # noqa: E402  # see the line before
from kubernetes.aio.config import incluster_config  # noqa: E402  # as above

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

__all__ = ["KubernetesApi", "connect", "namespace_of"]

_RELOAD_EVERY = 60.0  # seconds between two reads of credentials that were refused
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError, config.ConfigException)


async def connect(kubeconfig: Path | None = None, context: str | None = None) -> KubernetesApi:
    """Return a connection that has read its credentials and has sent nothing yet. See `live.connect`.

    Raises:
        transports.NoClusterError: the file is missing or wrong, or there is neither a file nor a service account.
    """
    configuration = client.Configuration()
    # Go's clients do not enforce all of RFC 5280, and some clusters' CAs violate it; Python 3.13 and later refuse them.
    configuration.disable_strict_ssl_verification = True
    await _load(configuration, kubeconfig, context)
    try:
        return KubernetesApi(configuration, kubeconfig, context)
    except OSError as error:
        raise transports.NoClusterError(f"the certificates for {configuration.host} cannot be read: {error}") from error


async def _load(configuration: Any, kubeconfig: Path | None, context: str | None) -> None:
    """Read credentials into the client's configuration (which is not typed), the first time or again."""
    if kubeconfig is None and context is None and os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        try:
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the client has no types
        except (config.ConfigException, OSError) as error:
            raise transports.NoClusterError(f"this pod has no usable service account: {error}") from error
        return
    paths = _paths(kubeconfig)
    try:
        load: Any = config.load_kube_config  # Any: the client is not typed
        await load(paths, context=context, client_configuration=configuration, persist_config=False)
    except Exception as error:  # the client raises errors of any type for a wrong file
        raise transports.NoClusterError(f"kubeconfig {paths} cannot be used: {error}") from error


def namespace_of(kubeconfig: Path | None, context: str | None) -> str:
    """Return the namespace of a context. See `live.namespace_of`."""
    try:
        listed: Any = config.list_kube_config_contexts  # Any: the client is not typed
        contexts, current = listed(_paths(kubeconfig))
        chosen = next((each for each in contexts if each["name"] == context), None) if context else current
        return str(((chosen or {}).get("context") or {}).get("namespace") or "default")
    except Exception:  # noqa: BLE001  # whoever connects tells what is wrong with the file
        return "default"


def _paths(kubeconfig: Path | None) -> str:
    """Return the kubeconfig files, joined as in KUBECONFIG; at least one exists."""
    paths = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        raise transports.NoClusterError(
            f"there is no kubeconfig at {paths}, and this is not a pod; name a kubeconfig file or set KUBECONFIG"
        )
    return paths


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


class KubernetesApi:
    """A `transports.Api` on the official client.

    The client reads a pod's token file again each minute. Other credentials (a kubeconfig's token, token file or exec
    plugin) are read again when the API server answers 401, at most once a minute.

    Args:
        configuration: the loaded host, TLS settings and credentials.
        kubeconfig: the file that they came from.
        context: the context in the kubeconfig.
    """

    def __init__(  # Any: the client is not typed
        self, configuration: Any, kubeconfig: Path | None, context: str | None = None
    ) -> None:
        self._configuration = configuration
        self._kubeconfig = kubeconfig
        self._context = context
        self._client = client.ApiClient(configuration)
        self._client.user_agent = "muster"
        self._reloaded = -_RELOAD_EVERY

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
        """Send any request with credentials; the code that only reads calls `get`.

        Args:
            method: an HTTP method.
            path: the path of the URL.
            query: the query parameters of the URL, not escaped.
            patience: the time limits of the request.
            body: a JSON value; None sends no body.
            content_type: the media type of the body.

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
        await self._client.close()  # type: ignore[no-untyped-call]  # the client has no types

    async def _open(  # noqa: PLR0913 - what an HTTP request is made of
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        patience: transports.Patience,
        body: Any,
        content_type: str,
    ) -> aiohttp.ClientResponse:
        # identity: an uncompressed answer has a known size, and inside a cluster bandwidth is cheaper than CPU
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = content_type
        timeout = aiohttp.ClientTimeout(total=None, connect=patience.connect, sock_read=patience.silence)
        try:
            method, url, sent, body, _ = await self._client.param_serialize(
                method, path, query_params=dict(query), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            answer = await self._client.call_api(method, url, sent, body, _request_timeout=timeout)
        except _FAILURES as error:
            raise transports.UnreachableError(f"no answer from {self._configuration.host}: {_said(error)}") from error
        response: aiohttp.ClientResponse = answer.response
        return response

    async def _reload(self) -> None:
        if time.monotonic() - self._reloaded < _RELOAD_EVERY:
            return
        self._reloaded = time.monotonic()
        with contextlib.suppress(transports.NoClusterError):  # the 401 itself is reported, and is more informative
            await _load(self._configuration, self._kubeconfig, self._context)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
