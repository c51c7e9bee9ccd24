"""AdmissionReview v1 in and out (k8s.io/api `admission/v1/types.go`).

A request is not decoded into an object model: fields that Muster does not read pass through unchanged. Responses are
only built by the functions at the end of this module.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct, structs

from muster.strategies.documents import decoding, model, nesting
from muster.webhook.admission.budgets import Extent, extent

__all__ = ["API_VERSION", "Phase", "Request", "ReviewError", "allow", "deny", "dumps", "of_object", "parse", "patch"]

API_VERSION = "admission.k8s.io/v1"
Phase = Literal["mutate", "validate"]
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")


class ReviewError(ValueError):
    """A body that is not a request that Muster can answer.

    Attributes:
        uid: of the request when it could be read, and the answer is an AdmissionReview; "" when it is a plain 400.
    """

    def __init__(self, message: str, uid: str = "") -> None:
        super().__init__(message)
        self.uid = uid


class Request(Struct, frozen=True):
    """The request of an AdmissionReview.

    Attributes:
        phase: from the URL path, `mutate` or `validate`.
        document: `request.object`.
        old: `request.oldObject`, None at CREATE.
        group: API group of the kind, "" when the request does not say.
        subresource: such as `status`, "" for the object itself.
        launched: the framework by whose rules files judge a JobSet that has no label of one; "" in a cluster.
        extent: of the whole review; None where there is none.
    """

    phase: Phase
    uid: str
    operation: str
    kind: str
    namespace: str
    name: str
    document: Mapping[str, Any]
    old: Mapping[str, Any] | None
    dry_run: bool
    username: str
    groups: Sequence[str]
    group: str = ""
    subresource: str = ""
    launched: str = ""
    extent: Extent | None = None


def of_object(
    phase: Phase, kind: str, document: Mapping[str, Any], namespace: str, old: Mapping[str, Any] | None = None
) -> Request:
    """Return the request that an API server would send about an object, for those who have no API server.

    Args:
        phase: which webhook is asked.
        kind: of the object, however it is spelt there.
        document: the object.
        namespace: the namespace of the request.
        old: the object as it is stored, of an UPDATE; None for a CREATE.
    """
    name, operation = decoding.read(document, model.Namespace).metadata.name, "CREATE" if old is None else "UPDATE"
    return Request(phase, "", operation, kind, namespace, name, document, old, dry_run=True, username="", groups=())


def parse(body: bytes, phase: Phase) -> Request:
    """Read an AdmissionReview.

    Raises:
        ReviewError: not JSON, too deeply nested, not an admission.k8s.io/v1 AdmissionReview, or a member is missing or
            of the wrong type; the message names it.
    """
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ReviewError(f"the body is not readable JSON: {error}") from error
    levels = nesting.levels(body, review)
    if levels > nesting.MOST:  # it could not be written again, and so not be answered
        raise ReviewError(f"the body is nested too deeply: nest it at most {nesting.MOST} levels deep")
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise ReviewError("the body is not an AdmissionReview")
    request = review.get("request")
    if not isinstance(request, dict):
        raise ReviewError("request: an object is required")
    uid = _member(request, "uid", str, "")
    if review.get("apiVersion") != API_VERSION:
        raise ReviewError(f"apiVersion: {review.get('apiVersion')!r} is not served; send {API_VERSION}", uid)
    return structs.replace(_request(request, phase, uid), extent=extent(body, levels))


def _request(request: Mapping[str, Any], phase: Phase, uid: str) -> Request:
    operation = _member(request, "operation", str, uid)
    if operation not in _OPERATIONS:
        raise ReviewError(f"request.operation: {operation!r} is not one of {', '.join(_OPERATIONS)}", uid)
    gvk = _member(request, "kind", dict, uid)
    kind = _member(gvk, "kind", str, uid, "request.kind")
    document, old = request.get("object"), request.get("oldObject")
    if not isinstance(document, dict) and not (document is None and operation in ("DELETE", "CONNECT")):
        raise ReviewError("request.object: an object is required", uid)
    if not isinstance(old, dict) and not (old is None and operation != "UPDATE"):
        raise ReviewError("request.oldObject: an object is required for UPDATE", uid)
    user = request.get("userInfo")
    user = user if isinstance(user, dict) else {}
    groups = user.get("groups")
    return Request(
        phase=phase,
        uid=uid,
        operation=operation,
        kind=kind,
        namespace=_text(request.get("namespace")),
        name=_text(request.get("name")),
        document=document or {},
        old=old,
        dry_run=request.get("dryRun") is True,
        username=_text(user.get("username")),
        groups=[str(group) for group in groups] if isinstance(groups, list) else [],
        group=_text(gvk.get("group")),
        subresource=_text(request.get("subResource")),
    )


def _member(holder: Mapping[str, Any], name: str, kind: type, uid: str, where: str = "request") -> Any:
    value = holder.get(name)
    if not isinstance(value, kind) or not value:
        raise ReviewError(f"{where}.{name}: {'a string' if kind is str else 'an object'} is required", uid)
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


Response = dict[str, Any]


def allow(uid: str, *, warnings: Sequence[str] = (), audit: Mapping[str, str] | None = None) -> Response:
    """Build a response that lets the object pass as it is."""
    response: Response = {"uid": uid, "allowed": True}
    if warnings:
        response["warnings"] = list(warnings)
    if audit:
        response["auditAnnotations"] = dict(audit)
    return response


def patch(uid: str, operations: bytes, **more: Any) -> Response:
    """Build a response that lets the object pass with a JSON Patch; `more` as for `allow`."""
    response = allow(uid, **more)
    response["patchType"] = "JSONPatch"
    response["patch"] = base64.b64encode(operations).decode("ascii")
    return response


def deny(  # the members of a metav1.Status
    uid: str, message: str, *, code: int, reason: str, details: Mapping[str, Any] | None = None, **more: Any
) -> Response:
    """Build a response that refuses the object; `message` is what kubectl prints."""
    response = allow(uid, **more)
    response["allowed"] = False
    response["status"] = {"status": "Failure", "code": code, "reason": reason, "message": message}
    if details is not None:
        response["status"]["details"] = details
    return response


def dumps(response: Response) -> bytes:
    """Return the bytes of the AdmissionReview with this response; the server and `muster review` both send these."""
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
