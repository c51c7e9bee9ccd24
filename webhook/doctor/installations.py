"""The installation to check, and the requests to read it: each with a deadline and a limit for the answer.

Several checks read the same object, so answers are remembered: a run sees one state of an object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from muster.kube import calls, payloads, transports
from muster.webhook import configs
from muster.webhook.doctor.expectations import Base

__all__ = ["ASIDE", "CONFIG_KEY", "Document", "Installation", "Options"]

Document = Mapping[str, Any]
_Read = TypeVar("_Read")

CONFIG_KEY = "muster.yaml"
"""Key of the configuration file in the ConfigMap of an installation."""
ASIDE = 8
"""Maximum number of requests at the same time."""
_MAX_OBJECT = 4 * 1024 * 1024
_MAX_LIST = 32 * 1024 * 1024
_PAGE = "500"
_SHOWN = 2000  # characters of an error; the cause of a failed webhook call is at its end


@dataclass(frozen=True, slots=True)
class Options:
    """What to check.

    Attributes:
        namespace: the namespace of Muster.
        name: the name of its Deployment, Service, ConfigMap, ServiceAccount and webhook configurations.
        probe_namespace: the namespace in which jobs are created with `dryRun=All`.
        dial: host and port of a listener whose certificate is checked from here, or None.
        timeout: seconds for each request.
        calls: number of timed calls of the probe.
    """

    namespace: str = "muster-system"
    name: str = "muster"
    probe_namespace: str = "default"
    dial: tuple[str, int] | None = None
    timeout: float = 10.0
    calls: int = 5

    @property
    def account(self) -> str:
        """Muster's user name in RBAC."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@dataclass(slots=True)
class Installation:
    """One installation behind one API server.

    Attributes:
        sender: sends the requests; it is not closed here.
        options: what to check.
        base: the expected state.
    """

    sender: transports.Sender
    options: Options
    base: Base
    _known: dict[str, Document | None] = field(default_factory=dict)
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ASIDE))

    async def get(self, path: str) -> Document | None:
        """Return an object, or None when it does not exist; it is requested only once.

        Raises:
            TransportError: the API server refused or did not answer.
        """
        if path not in self._known:
            try:
                self._known[path] = await self._send("GET", path, {}, None, _object(path))
            except transports.RefusedError as error:
                if error.status != 404:
                    raise
                self._known[path] = None
        return self._known[path]

    async def list(self, path: str, **query: str) -> list[Document]:
        """Return the first 500 objects of a list; none when their kind is not served.

        Raises:
            TransportError: the API server refused or did not answer.
        """
        key = f"{path}?{sorted(query.items())}"
        if key not in self._known:
            try:
                wanted = {"limit": _PAGE, **query}
                self._known[key] = await self._send("GET", path, wanted, None, _object(path, _MAX_LIST))
            except transports.RefusedError as error:
                if error.status != 404:
                    raise
                self._known[key] = None
        items = (self._known[key] or {}).get("items") or []
        return [each for each in items if isinstance(each, Mapping)]

    async def create(self, path: str, document: Document, **query: str) -> Document:
        """Create an object that is not stored: an access review, or one with `dryRun=All`. It is never remembered.

        Raises:
            TransportError: as for `get`.
        """
        return await self._send("POST", path, query, document, _object(path))

    async def text(self, path: str) -> str:
        """Return the answer of a pod, through the proxy of the API server.

        Raises:
            TransportError: as for `get`; it contains the pod's own error text.
        """
        return await self._send("GET", path, {}, None, lambda answer: payloads.text(answer, _MAX_OBJECT, path))

    async def webhooks(self, kind: str) -> Document | None:
        """Return the webhook configuration of a kind, or None when it does not exist."""
        plural = f"{kind.lower()}s"
        return await self.get(f"/apis/admissionregistration.k8s.io/v1/{plural}/{self.options.name}")

    async def configured(self) -> configs.Config:
        """Return the configuration in the ConfigMap, or the defaults when it cannot be read."""
        try:
            return configs.parse(self.config_text(await self.get(self.config_path)).encode(), CONFIG_KEY)
        except (configs.ConfigError, transports.TransportError):
            return configs.Config()

    @property
    def config_path(self) -> str:
        """Path of the ConfigMap in the API."""
        return f"/api/v1/namespaces/{self.options.namespace}/configmaps/{self.options.name}"

    def config_text(self, configmap: Document | None) -> str:
        """Return the text of the configuration file in a ConfigMap, "" when there is none."""
        return str(((configmap or {}).get("data") or {}).get(CONFIG_KEY, ""))

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Document | None,
        read: Callable[[transports.Response], Awaitable[_Read]],
    ) -> _Read:
        async with self._gate:
            call = calls.Call(method, path, query, body)
            return await calls.answered(self.sender, call, self.options.timeout, read, _SHOWN)


def _object(path: str, limit: int = _MAX_OBJECT) -> Callable[[transports.Response], Awaitable[dict[str, Any]]]:
    return lambda answer: payloads.read(answer, limit, path)
