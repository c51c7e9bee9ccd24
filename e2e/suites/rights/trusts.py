"""Webhook configurations that never match anything, for a spare Muster to write `caBundle` into."""

from __future__ import annotations

import base64
import datetime
from typing import Any

from e2e.suites.support.kubectls import Kubectl
from muster.certs import rings

__all__ = ["KINDS", "Trust", "config", "overdue"]

KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_SERVED = {KINDS[0]: "MutatingWebhookConfiguration", KINDS[1]: "ValidatingWebhookConfiguration"}
_NOTHING = {"apiGroups": ["e2e.muster.dev"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"]}
_VALIDITY = datetime.timedelta(hours=1)


def config(namespace: str) -> dict[str, Any]:
    """Return the configuration of a Muster that shares its certificates by a Secret of this namespace, quickly."""
    lease = {"namespace": namespace, "duration": 2, "deadline": 1.5, "retry": 0.3}
    lives = {"settle": 0, "interval": 0.3, "authorityValidity": _VALIDITY.total_seconds(), "leafValidity": 600}
    secret = {"namespace": namespace, "webhooks": namespace, **lives, "lease": lease}
    return {"tls": {"names": ["127.0.0.1"], "secret": secret}}


def overdue(namespace: str) -> dict[str, Any]:
    """Return the Secret with an authority that should have had a successor by now."""
    made = datetime.datetime.now(datetime.UTC) - _VALIDITY * 0.8
    pem = rings.rotate(rings.Ring(), made, validity=_VALIDITY).pem()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "muster.dev/authorities",
        "metadata": {"name": "muster-ca", "namespace": namespace},
        "data": {"authorities.pem": base64.b64encode(pem).decode()},
    }


class Trust:
    """The two configurations of one name.

    Args:
        kubectl: kubectl with the administrator's rights.
        name: the name of both.
    """

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self._kubectl = kubectl
        self._name = name

    def make(self) -> None:
        """Create them, trusting nobody."""
        entry = {
            "name": "nothing.e2e.muster.dev",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [_NOTHING],
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for kind in KINDS:
            document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": _SERVED[kind]}
            self._kubectl.create({**document, "metadata": {"name": self._name}, "webhooks": [entry]}).expect()

    def remove(self) -> None:
        """Delete them."""
        for kind in KINDS:
            self._kubectl.delete(kind, self._name)

    def spoil(self, kind: str) -> None:
        """Have one trust nobody."""
        step = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}
        self._kubectl.patch(kind, self._name, None, [step], "json").expect()

    def is_whole(self, kind: str) -> bool:
        """Whether one trusts somebody."""
        found = self._kubectl.get(kind, self._name)
        return found is not None and bool(found["webhooks"][0]["clientConfig"].get("caBundle"))


def authorities(kubectl: Kubectl, namespace: str) -> int:
    """Return how many authorities the Secret of a namespace holds, 0 when there is none."""
    found = kubectl.get("secret", "muster-ca", namespace)
    pem = base64.b64decode(found["data"]["authorities.pem"]) if found else b""
    return pem.count(b"BEGIN CERTIFICATE")
