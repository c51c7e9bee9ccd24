"""The installation to check, the requests that read it, and what somebody may do there.

Several checks read the same object, so answers are remembered: a run sees one state of an object. Each request has a
deadline and a limit for the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from muster.kube import calls, payloads, transports
from muster.strategies.documents.decoding import items, member
from muster.webhook import configs
from muster.webhook.doctor.expected_state import ExpectedState

__all__ = ["ASIDE", "CONFIG_KEY", "REVIEWS", "Document", "Installation", "Need", "Options", "allowed", "lacking"]

Document = Mapping[str, Any]
_Read = TypeVar("_Read")

CONFIG_KEY = "muster.yaml"
"""Key of the configuration file in the ConfigMap of an installation."""
ASIDE = 8
"""Maximum number of requests at the same time."""
REVIEWS = "/apis/authorization.k8s.io/v1"
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
        guard: whether a pod with the guard is started on each node, in the namespace of the probe.
        guard_deadline: seconds after which such a pod, whose image may have to be pulled, counts as failed.
    """

    namespace: str = "muster-system"
    name: str = "muster"
    probe_namespace: str = "default"
    dial: tuple[str, int] | None = None
    timeout: float = 10.0
    calls: int = 5
    guard: bool = False
    guard_deadline: float = 300.0

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
    base: ExpectedState
    _known: dict[str, Document | None] = field(default_factory=dict)
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ASIDE))

    async def get(self, path: str, most: int = _MAX_OBJECT, **query: str) -> Document | None:
        """Return an object, or None when it does not exist; it is requested only once.

        Raises:
            TransportError: the API server refused or did not answer.
        """
        key = f"{path}?{sorted(query.items())}"
        if key not in self._known:
            try:
                self._known[key] = await self._send("GET", path, query, None, _object(path, most))
            except transports.RefusedError as error:
                if error.status != 404:
                    raise
                self._known[key] = None
        return self._known[key]

    async def list(self, path: str, **query: str) -> list[Document]:
        """Return the first 500 objects of a list; none when their kind is not served.

        Raises:
            TransportError: the API server refused or did not answer.
        """
        return items(await self.get(path, _MAX_LIST, limit=_PAGE, **query), "items")

    async def create(self, path: str, document: Document, **query: str) -> Document:
        """Create an object; only the pods of `guard_trial` are stored. It is never remembered.

        Raises:
            TransportError: as for `get`.
        """
        return await self._send("POST", path, query, document, _object(path))

    async def current(self, path: str) -> Document:
        """Return an object as it is now; it is never remembered.

        Raises:
            TransportError: as for `get`, also when it does not exist.
        """
        return await self._send("GET", path, {}, None, _object(path))

    async def delete(self, path: str) -> None:
        """Delete an object that this process created.

        Raises:
            TransportError: as for `get`.
        """
        await self._send("DELETE", path, {}, None, _object(path))

    async def text(self, path: str) -> str:
        """Return the answer of a pod, through the proxy of the API server.

        Raises:
            TransportError: as for `get`; it contains the pod's own error text.
        """
        return await self._send("GET", path, {}, None, lambda answer: payloads.text(answer, _MAX_OBJECT, path))

    async def configured(self) -> configs.Config:
        """Return the configuration in the ConfigMap, or the defaults when it cannot be read."""
        try:
            return configs.parse((await self.config_text() or "").encode(), CONFIG_KEY)
        except (configs.ConfigError, transports.TransportError):
            return configs.Config()

    async def config_text(self) -> str | None:
        """Return the text of the configuration file in the ConfigMap, None when there is none."""
        path = f"/api/v1/namespaces/{self.options.namespace}/configmaps/{self.options.name}"
        text = member(await self.get(path), "data").get(CONFIG_KEY)
        return None if text is None else str(text)

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


def _object(path: str, limit: int = _MAX_OBJECT) -> Callable[[transports.Response], Awaitable[dict[str, object]]]:
    return lambda answer: payloads.read(answer, limit, path)


class Need(NamedTuple):
    """One permission, in the terms of RBAC.

    Attributes:
        verb: `get`.
        resource: plural name, with the subresource: `pods/proxy`.
        group: API group, "" for the core group.
        namespace: "" for all, or for cluster-scoped resources.
        name: name of the object, "" for all.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """`get pods/proxy in muster-system`."""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{where}"

    def attributes(self) -> dict[str, str]:
        """Return the `resourceAttributes` of an access review."""
        resource, _, subresource = self.resource.partition("/")
        found = {**self._asdict(), "resource": resource, "subresource": subresource}
        return {key: value for key, value in found.items() if value}


async def lacking(installation: Installation, needs: Iterable[Need]) -> set[Need]:
    """Return the permissions that the user lacks; none when they cannot be checked and only the requests show it."""

    async def is_denied(need: Need) -> bool:
        try:
            return not await _reviewed(installation, "SelfSubjectAccessReview", need, {})
        except transports.TransportError:
            return False

    wanted = list(dict.fromkeys(needs))
    denied = await asyncio.gather(*map(is_denied, wanted))
    return {need for need, refused in zip(wanted, denied, strict=True) if refused}


async def allowed(installation: Installation, need: Need) -> bool:
    """Return whether Muster's ServiceAccount has a permission.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    options = installation.options
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{options.namespace}", "system:authenticated"]
    return await _reviewed(installation, "SubjectAccessReview", need, {"user": options.account, "groups": groups})


async def _reviewed(installation: Installation, kind: str, need: Need, subject: Document) -> bool:
    spec = {"resourceAttributes": need.attributes(), **subject}
    document = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return bool(member(await installation.create(f"{REVIEWS}/{kind.lower()}s", document), "status").get("allowed"))
