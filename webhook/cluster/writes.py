"""The verbs that write, with deadlines, and with the errors that optimistic concurrency has to distinguish.

A write that is not answered in time may have been carried out; every caller reads again before it tries again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from muster.kube import calls, transports
from muster.webhook.cluster import served

__all__ = ["ConflictError", "TerminatingError", "Writes", "is_of_no_namespace"]

Document = dict[str, Any]
Counted = Callable[[str, str, str], None]
_MAX_ANSWER = 4 * 1024 * 1024
_SWAPS = 8  # a conflict means that another replica made progress; there are few replicas, which write seldom
_MERGE, _JSON = "application/merge-patch+json", "application/json-patch+json"


class ConflictError(transports.RefusedError):
    """Another writer was first: the object has changed, is deleted, or exists already."""


class TerminatingError(transports.RefusedError):
    """The namespace is being deleted and accepts no new objects."""


class Writes:
    """Reads and writes single objects.

    All methods raise `TransportError` when there is no usable answer within the deadline, and the errors they list.

    Args:
        sender: a connection to the API server; not closed here.
        deadline: seconds for one request, connection included.
        counted: called with verb, plural and outcome (`ok`, `conflict`, `failed`) of each write.
    """

    def __init__(self, sender: transports.Sender, deadline: float = 5.0, counted: Counted = lambda *_: None) -> None:
        self._sender = sender
        self._deadline = deadline
        self._counted = counted

    async def get(self, kind: served.Kind, namespace: str, name: str) -> Document | None:
        """Return an object as the API server has it now, None when it does not exist."""
        try:
            return await self._send("GET", kind.path(namespace, name))
        except transports.RefusedError as error:
            if error.status == 404:
                return None
            raise

    async def create(self, kind: served.Kind, document: Mapping[str, Any]) -> Document:
        """Create an object in the namespace that it names.

        Raises:
            ConflictError: an object of that name exists.
            TerminatingError: its namespace is being deleted.
            RefusedError: 404 when the namespace does not exist.
        """
        return await self._write("create", kind, "POST", kind.path(document["metadata"]["namespace"]), document)

    async def replace(self, kind: served.Kind, document: Mapping[str, Any]) -> Document:
        """Replace an object, if it still has the version that the document names.

        Raises:
            ConflictError: it has another version now, or is deleted.
        """
        metadata = document["metadata"]
        return await self._write("update", kind, "PUT", kind.path(metadata["namespace"], metadata["name"]), document)

    async def patch(self, kind: served.Kind, namespace: str, name: str, body: Any) -> Document:
        """Change parts of an object: by a merge patch when the body is an object, by a JSON patch when it is a list.

        Raises:
            ConflictError: the merge patch names a resourceVersion, and the object has another one.
            RefusedError: 404 when the object does not exist, 422 when a `test` of the JSON patch fails.
        """
        how = _JSON if isinstance(body, list) else _MERGE
        return await self._write("patch", kind, "PATCH", kind.path(namespace, name), body, how)

    async def delete(self, kind: served.Kind, namespace: str, name: str, uid: str, version: str = "") -> bool:
        """Delete an object if it has this uid, and this version when one is given; return False when it does not exist.

        Raises:
            ConflictError: the object has another uid or version.
        """
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, **({"resourceVersion": version} if version else {})},
            "propagationPolicy": "Background",
        }
        try:
            await self._write("delete", kind, "DELETE", kind.path(namespace, name), body)
        except transports.RefusedError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def swap(
        self,
        kind: served.Kind,
        namespace: str,
        name: str,
        change: Callable[[Document | None], Awaitable[Document | None]],
    ) -> None:
        """Create or replace an object, and begin again where another writer was first.

        Args:
            kind: the kind of the object.
            namespace: its namespace.
            name: its name.
            change: called with the object as it is now, None where there is none; returns the object to write, which
                is not written when it is None or has not changed.

        Raises:
            ConflictError: other writers were first each time.
        """
        for left in reversed(range(_SWAPS)):
            present = await self.get(kind, namespace, name)
            wanted = await change(present)
            if wanted is None or wanted == present:
                return
            try:
                await (self.create(kind, wanted) if present is None else self.replace(kind, wanted))
            except ConflictError:
                if not left:
                    raise
            else:
                return

    async def _write(  # noqa: PLR0913 - a request, and what it is counted as
        self, verb: str, kind: served.Kind, method: str, path: str, body: Any, content_type: str = "application/json"
    ) -> Document:
        try:
            answer = await self._send(method, path, body, content_type)
        except transports.TransportError as error:
            self._counted(verb, kind.plural, "conflict" if isinstance(error, ConflictError) else "failed")
            raise
        self._counted(verb, kind.plural, "ok")
        return answer

    async def _send(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Document:
        call = calls.Call(method, path, {}, body, content_type)
        try:
            return await calls.document(self._sender, call, self._deadline, _MAX_ANSWER)
        except transports.RefusedError as error:
            raise _told_apart(error, method, f"{method} {path}") from error


def is_of_no_namespace(error: Exception) -> bool:
    """Whether a write failed because its namespace is deleted or being deleted."""
    missing = getattr(error, "status", 0) == 404 and 'namespaces "' in str(error)
    return missing or isinstance(error, TerminatingError)


def _told_apart(error: transports.RefusedError, method: str, what: str) -> transports.RefusedError:
    message = f"{what}: {error}"
    if error.status == 409 or (error.status == 404 and method == "PUT"):
        return ConflictError(409, message, error.retry_after)
    if error.status == 403 and "being terminated" in str(error):
        return TerminatingError(403, message, error.retry_after)
    return transports.RefusedError(error.status, message, error.retry_after)
