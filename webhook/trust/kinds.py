"""The three kinds that trust is made of; each object of them is known by its name, none is listed."""

from __future__ import annotations

from typing import Final

from webhook.cluster import kinds

__all__ = ["CONFIGURATIONS", "SECRET"]

_GROUP = "admissionregistration.k8s.io"


def _configuration(name: str) -> kinds.Kind:
    return kinds.Kind(name, name, _GROUP, "v1", name.lower() + "s", namespaced=False)


SECRET: Final = kinds.Kind("Secret", "Secret", "", "v1", "secrets")
CONFIGURATIONS: Final = (
    _configuration("MutatingWebhookConfiguration"),
    _configuration("ValidatingWebhookConfiguration"),
)
