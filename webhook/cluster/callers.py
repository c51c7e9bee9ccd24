"""Who calls, and what they may: the cluster's own answers, by TokenReview and SubjectAccessReview.

Whoever puts a token into a request to Muster is not trusted: the token is sent to the API server alone, is never
written anywhere, and its answer decides.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from muster.kube import calls, transports

__all__ = ["ACCESS", "TOKENS", "Caller", "Callers", "Right"]

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_MAX_ANSWER = 1024 * 1024


class Caller(msgspec.Struct, frozen=True):
    """A user as the API server authenticated them, `UserInfo` of authentication.k8s.io/v1; without a name, nobody."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, object] = {}


class _Status(msgspec.Struct, frozen=True):
    """`status` of a TokenReview, or of a SubjectAccessReview."""

    user: Caller = Caller()
    authenticated: bool = False
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status


class Right(msgspec.Struct, frozen=True):
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
        return status.user if status.authenticated and status.user.username else None

    async def may(self, caller: Caller, right: Right) -> bool:
        """Return whether the API server lets a caller do something."""
        user = {"user": caller.username, "uid": caller.uid, "groups": [*caller.groups], "extra": caller.extra}
        spec = {**user, "resourceAttributes": msgspec.structs.asdict(right)}
        status = await self._review(ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return status.allowed and not status.denied

    async def _review(self, path: str, version: str, kind: str, spec: Mapping[str, object]) -> _Status:
        call = calls.Call("POST", path, {}, {"apiVersion": version, "kind": kind, "spec": spec})
        answer = await calls.document(self._sender, call, self._deadline, _MAX_ANSWER)
        try:
            return msgspec.convert(answer, _Review).status
        except msgspec.ValidationError as error:
            raise transports.MalformedError(f"POST {path}: the answer is no {kind}: {error}") from error
