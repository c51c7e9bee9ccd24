"""`caBundle` of the webhook configurations: what the API server trusts when it calls Muster."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from cryptography import x509

from muster.certs import chains, errors, pems
from muster.webhook.cluster import kinds, served, writes

__all__ = ["Configuration", "Configurations", "trusted"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The part of one webhook configuration that concerns trust.

    Attributes:
        kind: MutatingWebhookConfiguration or ValidatingWebhookConfiguration.
        name: the name of the object.
        version: the resourceVersion of the object.
        bundles: PEM of each entry's `caBundle`, empty where there is none.
    """

    kind: served.Kind
    name: str
    version: str
    bundles: tuple[bytes, ...]

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"


@dataclass(slots=True, eq=False)
class Configurations:
    """The mutating and the validating webhook configuration of one name.

    Attributes:
        access: sends requests to the API server.
        name: the name of both configurations.
    """

    access: writes.Writes
    name: str

    async def read(self) -> tuple[Configuration, ...]:
        """Return those that exist and have entries.

        Raises:
            TransportError: the API server gave no usable answer.
        """
        found = []
        for kind in kinds.CONFIGURATIONS:
            document = await self.access.get(kind, "", self.name)
            entries = (document or {}).get("webhooks") or ()
            if document is not None and entries:
                version = document["metadata"]["resourceVersion"]
                found.append(Configuration(kind, self.name, version, tuple(map(_bundle, entries))))
        return tuple(found)

    async def write(self, configuration: Configuration, pem: bytes) -> None:
        """Give every entry of a configuration the same bundle, if the configuration has not changed since it was read.

        Raises:
            TransportError: the configuration has changed (409 or 422), or the API server gave no usable answer.
        """
        text = base64.b64encode(pem).decode()
        steps: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": configuration.version}
        ]
        steps += [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": text}
            for index in range(len(configuration.bundles))
        ]
        await self.access.patch(configuration.kind, "", configuration.name, steps)


def trusted(configurations: Iterable[Configuration]) -> dict[str, x509.Certificate]:
    """Return the certificates that every entry of every configuration trusts, by fingerprint; none without entries."""
    bundles: Sequence[dict[str, x509.Certificate]] = [
        _certificates(bundle) for each in configurations for bundle in dict.fromkeys(each.bundles)
    ]
    if not bundles:
        return {}
    shared = reduce(lambda left, right: left & right, (set(each) for each in bundles))
    return {fingerprint: each for fingerprint, each in bundles[0].items() if fingerprint in shared}


def _certificates(pem: bytes) -> dict[str, x509.Certificate]:
    """Return a bundle's certificates; none when it is damaged, since the API server then uses none of it either."""
    try:
        return {chains.fingerprint(each): each for each in pems.certificates(pem, "caBundle")}
    except errors.MaterialError:
        return {}


def _bundle(entry: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode((entry.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except binascii.Error:
        return b""
