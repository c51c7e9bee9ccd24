"""What the user and Muster's ServiceAccount may do, according to the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from muster.kube import transports
from muster.webhook.doctor.installations import Document, Installation

__all__ = ["REVIEWS", "Need", "allowed", "lacking"]

REVIEWS = "/apis/authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Need:
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
        found = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
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


async def allowed(installation: Installation, need: Need, user: str) -> bool:
    """Return whether a ServiceAccount (`system:serviceaccount:NAMESPACE:NAME`) has a permission.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    namespace = user.split(":")[2]
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return await _reviewed(installation, "SubjectAccessReview", need, {"user": user, "groups": groups})


async def _reviewed(installation: Installation, kind: str, need: Need, subject: dict[str, Any]) -> bool:
    document: Document = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "spec": {"resourceAttributes": need.attributes(), **subject},
    }
    answer = await installation.create(f"{REVIEWS}/{kind.lower()}s", document)
    return bool((answer.get("status") or {}).get("allowed"))
