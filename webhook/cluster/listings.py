"""Lists all objects of a kind once, page by page, for commands that look at a cluster from outside."""

from __future__ import annotations

from typing import Any

from muster.kube import calls, transports
from muster.webhook.cluster import served

__all__ = ["read"]

_PAGE = "250"
_MAX_PAGE = 64 * 1024 * 1024  # bytes


async def read(  # noqa: PLR0913 - what a list is asked for
    sender: transports.Sender,
    kind: served.Kind,
    namespace: str,
    deadline: float,
    *,
    selector: str = "",
    status: bool = False,
    absent: bool = True,
) -> list[dict[str, Any]]:
    """Return the objects of a kind, by namespace and name.

    Args:
        sender: a connection to the API server; not closed here.
        kind: its label selector is not asked for, and its parts are not dropped: the objects are wanted whole.
        namespace: its name, "" for all.
        deadline: seconds for each page.
        selector: label selector, "" for all.
        status: whether the objects keep their status and managed fields.
        absent: whether a kind that is not served has no objects; else that is an error.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    query, found = {"limit": _PAGE, **({"labelSelector": selector} if selector else {})}, []
    while True:
        try:
            call = calls.Call("GET", kind.path(namespace), query)
            page = await calls.document(sender, call, deadline, _MAX_PAGE, f"a page of {kind.plural}")
        except transports.RefusedError as error:
            if error.status != 404 or not absent:
                raise
            break
        found += [kind.typed(each) if status else kind.whole(each) for each in page.get("items") or ()]
        if not (more := (page.get("metadata") or {}).get("continue")):
            break
        query = {**query, "continue": more}
    return sorted(found, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
