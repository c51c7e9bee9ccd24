"""The API server of Kubernetes, as far as a Gateway speaks to it: a few verbs over HTTP, with an account's token.

A client library would bring YAML, dates and models of all kinds into an image of 145 MB; what is used here is one
request at a time, on documents that stay as they are.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

__all__ = ["ACCOUNT", "Access", "Api", "ApiError", "UnreachableError", "in_cluster", "namespace_of"]

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its ServiceAccount (Kubernetes 1.36, `pkg/serviceaccount`)."""
_PAGE = "250"  # objects of an answer
_PATIENCE = aiohttp.ClientTimeout(total=30, sock_connect=5)
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


class ApiError(Exception):
    """The API server refused a request.

    Attributes:
        status: of its answer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(Exception):
    """The API server does not answer, or asks to come again."""


@dataclass(frozen=True, slots=True)
class Access:
    """How the API server is reached.

    Attributes:
        url: of it.
        account: folder with `token` and `ca.crt`, which are read again, because they are renewed.
    """

    url: str
    account: Path


def in_cluster(environment: Mapping[str, str], account: Path = ACCOUNT) -> Access:
    """Return how a pod reaches the API server. Raises `ValueError` outside of a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (account / "token").is_file():
        told = "set KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, and name a folder with token and ca.crt"
        raise ValueError(f"--account: {account}: this process is in no pod with a ServiceAccount: {told}")
    return Access(f"https://{f'[{host}]' if ':' in host else host}:{port}", account)


def namespace_of(account: Path) -> str:
    """Return the namespace of an account. Raises `ValueError` where its folder does not say."""
    try:
        return (account / "namespace").read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ValueError(f"--account: {account}: has no file namespace ({error}): pass --gateway-namespace") from error


class Api:
    """Requests in one namespace.

    Args:
        access: to the API server.
        namespace: of all objects.
    """

    def __init__(self, access: Access, namespace: str) -> None:
        self._access, self._namespace = access, namespace
        secure = access.url.startswith("https:")
        trusted = ssl.create_default_context(cafile=str(access.account / "ca.crt")) if secure else False
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted), timeout=_PATIENCE)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def get(self, kind: str, name: str) -> Document | None:
        """Return an object, None where there is none. Raises `ApiError`, `UnreachableError`."""
        try:
            return await self._ask("GET", f"{self._path(kind)}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def create(self, document: Document) -> Document:
        """Make an object. Raises `ApiError`, `UnreachableError`."""
        return await self._ask("POST", self._path(document["kind"]), body=document)

    async def tried(self, document: Document) -> list[str]:
        """Have an object admitted and not stored; return the warnings. Raises `ApiError`, `UnreachableError`."""
        return (await self._sent("POST", self._path(document["kind"]), document, params={"dryRun": "All"}))[1]

    async def apply(self, document: Document) -> Document:
        """Make an object, or have it again as it was made. Raises `ApiError`, `UnreachableError`."""
        path = f"{self._path(document['kind'])}/{document['metadata']['name']}"
        params = {"fieldManager": "muster-sessions", "force": "true"}
        return await self._ask("PATCH", path, document, "application/apply-patch+yaml", params)

    async def patch(self, kind: str, name: str, operations: Sequence[Document]) -> Document:
        """Change an object by a JSON Patch. Raises `ApiError` with 422 where a test fails, `UnreachableError`."""
        return await self._ask("PATCH", f"{self._path(kind)}/{name}", operations, "application/json-patch+json")

    async def merge(self, kind: str, name: str, document: Document) -> Document:
        """Change an object by a merge patch. Raises `ApiError`, with 409 for another uid, and `UnreachableError`."""
        return await self._ask("PATCH", f"{self._path(kind)}/{name}", document, "application/merge-patch+json")

    async def delete(self, kind: str, found: Document) -> None:
        """Delete an object as it was found, with what it owns; nothing happens when it is gone.

        Raises:
            ApiError: with 409 where it is another one now.
            UnreachableError: nothing is known.
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
        """Return all objects of a kind, a page after the other. Raises `ApiError`, `UnreachableError`.

        Args:
            kind: of `_PATHS`.
            chosen: `labelSelector` or `fieldSelector`.
        """
        found: list[Document] = []
        query = {**chosen, "limit": _PAGE}
        while True:
            page = await self._ask("GET", self._path(kind), params=query)
            found += page.get("items") or ()
            if not (more := (page.get("metadata") or {}).get("continue")):
                return found
            query["continue"] = more

    async def pods(self, selector: str) -> Document:
        """Return the list of pods with these labels. Raises `ApiError`, `UnreachableError`."""
        return await self._ask("GET", self._path("Pod"), params={"labelSelector": selector})

    async def changed(self, selector: str, version: str, seconds: int) -> None:
        """Return when a pod has changed since a list, or after a while. Raises `ApiError`, `UnreachableError`.

        Args:
            selector: labels of the pods.
            version: `resourceVersion` of the list.
            seconds: after which nothing is waited for.
        """
        params = {
            "labelSelector": selector,
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        patience = aiohttp.ClientTimeout(total=seconds + 5, sock_connect=5)
        try:
            async with self._session.get(
                self._access.url + self._path("Pod"), params=params, headers=self._headers(), timeout=patience
            ) as answer:
                await self._checked(answer)
                await answer.content.readany()  # the first event is enough: whoever asked looks again
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise UnreachableError(f"the API server does not answer: {type(error).__name__}") from error

    def _path(self, kind: str) -> str:
        return _PATHS[kind].format(self._namespace)

    def _headers(self) -> dict[str, str]:
        token = (self._access.account / "token").read_text(encoding="ascii").strip()
        return {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    async def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        form: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Document:
        return (await self._sent(method, path, body, form, params))[0]

    async def _sent(
        self,
        method: str,
        path: str,
        body: object = None,
        form: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> tuple[Document, list[str]]:
        """Return what was answered, and the warnings beside it (RFC 7234, `299 - "TEXT"`)."""
        data = None if body is None else orjson.dumps(body)
        try:
            headers = {**self._headers(), "Content-Type": form}
            url = self._access.url + path
            async with self._session.request(method, url, data=data, params=params, headers=headers) as answer:
                await self._checked(answer)
                return dict(orjson.loads(await answer.read())), answer.headers.getall("Warning", [])
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise UnreachableError(f"the API server does not answer: {type(error).__name__}: {error}") from error

    async def _checked(self, answer: aiohttp.ClientResponse) -> None:
        if answer.status < 400:
            return
        text = (await answer.read()).decode(errors="replace")
        try:
            text = str(orjson.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            text = f"HTTP {answer.status}"
        if answer.status >= 500 or answer.status == 429:
            raise UnreachableError(text)
        raise ApiError(answer.status, text)
