"""Who calls, and what they may: the cluster's own answers, by TokenReview and SubjectAccessReview.

Whoever puts a token into a request to Muster is not trusted: the token is sent to the API server alone, is never
written anywhere, and its answer decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from muster.kube import calls, payloads, transports

__all__ = ["ACCESS", "TOKENS", "Caller", "Callers", "Right"]

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_MAX_ANSWER = 1024 * 1024


class Caller(Struct, frozen=True):
    """A user as the API server authenticated them; `extra` as in `UserInfo` of authentication.k8s.io/v1."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


class Right(Struct, frozen=True):
    """A verb on a resource of a namespace, as RBAC rules name it."""

    verb: str
    group: str
    resource: str
    namespace: str


class Callers:
    """Asks the API server about callers.

    All methods raise `TransportError` when there is no usable answer within the deadline.

    Args:
        sender: a connection to the API server; not closed here.
        deadline: seconds for one question, connection included.
    """

    def __init__(self, sender: transports.Sender, deadline: float = 5.0) -> None:
        self._sender = sender
        self._deadline = deadline

    async def of_token(self, token: str) -> Caller | None:
        """Return whose token this is, None for one that the API server does not take."""
        status = await self._review(TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict) or not user.get("username"):
            return None
        groups = tuple(str(each) for each in user.get("groups") or ())
        return Caller(str(user["username"]), str(user.get("uid") or ""), groups, user.get("extra") or {})

    async def may(self, caller: Caller, right: Right) -> bool:
        """Return whether the API server lets a caller do something."""
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "namespace": right.namespace,
        }
        spec = {"user": caller.name, "uid": caller.uid, "groups": list(caller.groups), "extra": dict(caller.extra)}
        named = {**spec, "resourceAttributes": attributes}
        status = await self._review(ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", named)
        return status.get("allowed") is True and status.get("denied") is not True

    async def _review(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        call = calls.Call("POST", path, {}, body)
        answer = await calls.answered(
            self._sender, call, self._deadline, lambda response: payloads.read(response, _MAX_ANSWER, f"POST {path}")
        )
        status = answer.get("status")
        if not isinstance(status, dict):
            raise transports.MalformedError(f"POST {path}: the answer has no status")
        return status
