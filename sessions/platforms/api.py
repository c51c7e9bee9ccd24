"""The API server of Kubernetes, as far as a Gateway speaks to it: a few verbs on documents that stay as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from muster.kube import calls, payloads, transports
from muster.kube.authentication import Credentials
from muster.kube.clients import Client
from muster.kube.transports import RefusedError, UnreachableError

__all__ = ["Api", "ApiError", "UnreachableError", "namespace_of"]

_PAGE = "250"  # objects of an answer
_SECONDS = 30.0
_MOST = 64 * 1024**2  # bytes of an answer
_APPLY, _JSON, _MERGE = (f"application/{each}" for each in ("apply-patch+yaml", "json-patch+json", "merge-patch+json"))
_PATHS = {
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
}

Document = dict[str, Any]
_Read = TypeVar("_Read")


def namespace_of(account: Path) -> str:
    """Return the namespace of an account. Raises `ValueError` where its folder does not say."""
    try:
        return (account / "namespace").read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ValueError(f"--account: {account}: has no file namespace ({error}): pass --gateway-namespace") from error


class ApiError(RefusedError):
    """The API server refused a request; its text is what people are shown, without the status."""

    def __str__(self) -> str:
        """What the server said."""
        return self.message


class Api:
    """Requests in one namespace.

    All methods raise `ApiError` where the API server refuses, and `UnreachableError` where it does not answer, or
    asks to come again.

    Args:
        found: the credentials.
        namespace: of all objects.
    """

    def __init__(self, found: Credentials, namespace: str) -> None:
        self._client, self._namespace = Client(found), namespace

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def get(self, kind: str, name: str) -> Document | None:
        """Return an object, None where there is none."""
        try:
            return await self._ask("GET", f"{self._path(kind)}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def create(self, document: Document) -> Document:
        """Make an object."""
        return await self._ask("POST", self._path(document["kind"]), body=document)

    async def tried(self, document: Document) -> list[str]:
        """Have an object admitted and not stored; return the warnings (RFC 7234, `299 - "TEXT"`)."""
        call = calls.Call("POST", self._path(document["kind"]), {"dryRun": "All"}, document)

        async def warnings(answer: transports.Response) -> list[str]:
            return [text for name, text in answer.headers.items() if name.lower() == "warning"]

        return await self._answered(call, warnings)

    async def apply(self, document: Document) -> Document:
        """Make an object, or have it again as it was made."""
        path = f"{self._path(document['kind'])}/{document['metadata']['name']}"
        return await self._ask("PATCH", path, document, _APPLY, {"fieldManager": "muster-sessions", "force": "true"})

    async def patch(self, kind: str, name: str, operations: Sequence[Document]) -> Document:
        """Change an object by a JSON Patch; it is refused with 422 where a test fails."""
        return await self._ask("PATCH", f"{self._path(kind)}/{name}", operations, _JSON)

    async def merge(self, kind: str, name: str, document: Document) -> Document:
        """Change an object by a merge patch; it is refused with 409 for another uid."""
        return await self._ask("PATCH", f"{self._path(kind)}/{name}", document, _MERGE)

    async def delete(self, kind: str, found: Document) -> None:
        """Delete an object as it was found, with what it owns; it is refused with 409 where it is another one now.

        Nothing happens when it is gone.
        """
        metadata = found["metadata"]
        same = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "preconditions": same}
        try:
            await self._ask("DELETE", f"{self._path(kind)}/{metadata['name']}", body)
        except ApiError as error:
            if error.status != 404:
                raise

    async def all(self, kind: str, **chosen: str) -> list[Document]:
        """Return all objects of a kind, a page after the other.

        Args:
            kind: of `_PATHS`.
            chosen: `labelSelector` or `fieldSelector`.
        """
        found: list[Document] = []
        query = {**chosen, "limit": _PAGE}
        while True:
            page = await self._ask("GET", self._path(kind), query=query)
            found += page.get("items") or ()
            if not (more := (page.get("metadata") or {}).get("continue")):
                return found
            query["continue"] = more

    async def pods(self, selector: str) -> Document:
        """Return the list of pods with these labels."""
        return await self._ask("GET", self._path("Pod"), query={"labelSelector": selector})

    async def changed(self, selector: str, version: str, seconds: int) -> None:
        """Return when a pod has changed since a list, or after a while.

        Args:
            selector: labels of the pods.
            version: `resourceVersion` of the list.
            seconds: after which nothing is waited for.
        """
        query = {
            "labelSelector": selector,
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }

        async def first(answer: transports.Response) -> None:
            async for _ in answer.chunks():
                return  # the first event is enough: whoever asked looks again

        await self._answered(calls.Call("GET", self._path("Pod"), query), first, seconds + 5.0)

    def _path(self, kind: str) -> str:
        return _PATHS[kind].format(self._namespace)

    async def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        form: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Document:
        async def read(answer: transports.Response) -> Document:
            return await payloads.read(answer, _MOST, path)

        return await self._answered(calls.Call(method, path, query or {}, body, form), read)

    async def _answered(
        self, call: calls.Call, read: Callable[[transports.Response], Awaitable[_Read]], seconds: float = _SECONDS
    ) -> _Read:
        try:
            return await calls.answered(self._client, call, seconds, read)
        except RefusedError as error:
            if error.status >= 500 or error.status == 429:
                raise UnreachableError(error.message) from error
            raise ApiError(error.status, error.message) from error
        except (transports.MalformedError, transports.OversizedError) as error:
            raise UnreachableError(f"the API server does not answer: {error}") from error
