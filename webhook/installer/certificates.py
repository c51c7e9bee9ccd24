"""The certificate of an installation: valid for a year, kept in a Secret, renewed by installing again.

The key of the CA is dropped after one signature, so nothing in the cluster can sign another certificate. After a
renewal the bundle still contains the old CA, so that the served certificate and `caBundle` need not change together.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from muster.certs import (
    authorities,
    chains,
    errors,
    expiries,
    files,
    leaves,
    materials,
    pems,
    subject_names,
)
from muster.webhook.installer.documents import NAME, NAMESPACE
from muster.webhook.installer.errors import InstallError
from muster.webhook.installer.kubectl import MANAGER, Document

__all__ = ["SECRET", "issue", "kept", "secret"]

SECRET = "muster-tls"  # noqa: S105  # a name
_VALIDITY = timedelta(days=365)
_MAKER = "app.kubernetes.io/managed-by"
_KEYS = ("tls.crt", "tls.key", "ca.crt")


def issue(earlier: bytes = b"") -> materials.Material:
    """Make a CA, and a leaf signed by it for the names of the Service.

    Args:
        earlier: PEM of the CAs that are trusted so far; those that are still valid stay in the bundle.
    """
    now = expiries.utc_now()
    authority = authorities.create(now, validity=_VALIDITY, predecessors=_valid(earlier, now))
    leaf = leaves.issue(authority, subject_names.service_names(NAME, NAMESPACE), now, validity=_VALIDITY)
    return materials.from_authority(authority, leaf)


def kept(found: Mapping[str, Any] | None) -> materials.Material | None:
    """Return the certificate in a Secret; None when there is no Secret, or Muster's own is damaged or due for renewal.

    Args:
        found: the Secret as the API server gives it.

    Raises:
        InstallError: Muster did not make the Secret, and its certificate cannot be served. It is never overwritten.
    """
    if found is None:
        return None
    where = files.Locations.within(Path("Secret") / NAMESPACE / SECRET)
    wanted = subject_names.service_names(NAME, NAMESPACE)[:1]
    if (found.get("metadata") or {}).get("labels", {}).get(_MAKER) == MANAGER:
        return _lasting(where, _decoded(found), wanted)
    try:
        return materials.parse(where, _decoded(found), wanted, expiries.utc_now())
    except errors.CertificateError as error:
        raise InstallError(f"{error}; or delete the Secret, and Muster makes a new one") from error


def secret(material: materials.Material) -> Document:
    """Return the Secret that the Deployment mounts."""
    parts = (material.chain_pem, material.key_pem, material.authority_pem)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": SECRET,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": NAME, _MAKER: MANAGER},
        },
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(part).decode() for key, part in zip(_KEYS, parts, strict=True)},
    }


def _lasting(
    where: files.Locations, contents: tuple[bytes, bytes, bytes], wanted: Sequence[str]
) -> materials.Material | None:
    now = expiries.utc_now()
    try:
        material = materials.parse(where, contents, wanted, now)
    except errors.CertificateError:
        return None
    return None if material.leaf.due(now) or material.authority.due(now) else material


def _decoded(found: Mapping[str, Any]) -> tuple[bytes, bytes, bytes]:
    """Return the three files of a Secret; a missing one is empty, which is reported when it is read."""
    data = found.get("data") or {}
    chain, key, authority = (base64.b64decode(data.get(name) or "") for name in _KEYS)
    return chain, key, authority


def _valid(earlier: bytes, now: datetime) -> tuple[Any, ...]:  # Any: x509.Certificate, whose package only certs names
    try:
        found = pems.certificates(earlier, "the CA so far") if earlier else ()
    except errors.MaterialError:
        return ()
    return tuple(each for each in found if chains.window(each).covers(now))
