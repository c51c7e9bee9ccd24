"""The certificate of an installation, for a year: made here, kept in a Secret or a folder, renewed by running again.

The CA signs once and its key is dropped at once: nothing in the cluster could sign another. When it is renewed, the
new bundle still holds the old CA, so that what is served and what is trusted need not change in the same moment.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from certs import (
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
from e2e.installs.errors import InstallError
from e2e.installs.kubectls import Document

__all__ = ["NAMESPACE", "SECRET", "SERVICE", "certificate", "issued", "kept", "secret"]

SERVICE = "muster"
NAMESPACE = "muster-system"
SECRET = "muster-tls"  # noqa: S105  # a name
_VALIDITY = timedelta(days=365)
_MAKER, _OURS = "app.kubernetes.io/managed-by", "muster-installs"
_KEYS = ("tls.crt", "tls.key", "ca.crt")


def certificate(directory: Path, extra: Sequence[str] = ()) -> files.Locations:
    """Return the files of a certificate in a folder, made anew unless one is there that lasts.

    Args:
        directory: made when it is missing; `tls.crt`, `tls.key`, `ca.crt`, keys for the owner only.
        extra: names and addresses besides those of the Service, localhost and 127.0.0.1.

    Raises:
        InstallError: the folder cannot be written, or a name cannot be in a certificate.
    """
    where = files.Locations.within(directory)
    wanted = (*subject_names.service_names(SERVICE, NAMESPACE, local=True), *extra)
    if _lasting(where, _contents(where), wanted) is not None:
        return where
    try:
        made = issued(wanted)
        directory.mkdir(parents=True, exist_ok=True)
        files.write(where.key, made.key_pem)
        files.write(where.certificate, made.chain_pem, mode=files.PUBLIC)
        files.write(where.authority, made.authority_pem, mode=files.PUBLIC)
    except (errors.CertificateError, OSError) as error:
        raise InstallError(f"{directory}: no certificate could be put there: {error}") from error
    return where


def issued(wanted: Sequence[str] = (), earlier: bytes = b"") -> materials.Material:
    """Make a CA and a leaf signed by it.

    Args:
        wanted: names of the leaf; those of the Service by default.
        earlier: PEM of CAs that are trusted so far; those still valid stay in the bundle.
    """
    now = expiries.utc_now()
    authority = authorities.create(now, validity=_VALIDITY, predecessors=_valid(earlier, now))
    sans = wanted or subject_names.service_names(SERVICE, NAMESPACE)
    return materials.from_authority(authority, leaves.issue(authority, sans, now, validity=_VALIDITY))


def kept(found: Mapping[str, Any] | None) -> materials.Material | None:
    """Return what a Secret of the cluster holds; None when there is none, or when ours is due for renewal or damaged.

    Args:
        found: the Secret as the API server gives it.

    Raises:
        InstallError: the Secret is somebody else's, and what it holds cannot be served. It is never overwritten.
    """
    if found is None:
        return None
    where = files.Locations.within(Path("Secret") / NAMESPACE / SECRET)
    wanted = subject_names.service_names(SERVICE, NAMESPACE)[:1]
    if (found.get("metadata") or {}).get("labels", {}).get(_MAKER) == _OURS:
        return _lasting(where, _decoded(found), wanted)
    try:
        return materials.parse(where, _decoded(found), wanted, expiries.utc_now())
    except errors.CertificateError as error:
        raise InstallError(f"{error}; or delete the Secret, and one is made") from error


def secret(material: materials.Material) -> Document:
    """Return the Secret that the Deployment mounts."""
    parts = (material.chain_pem, material.key_pem, material.authority_pem)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": SECRET,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": "muster", _MAKER: _OURS},
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


def _contents(where: files.Locations) -> tuple[bytes, bytes, bytes]:
    try:
        return where.contents()
    except errors.MaterialError:
        return b"", b"", b""


def _decoded(found: Mapping[str, Any]) -> tuple[bytes, bytes, bytes]:
    """Return the three files of a Secret; what is missing is empty, which reading them then says."""
    data = found.get("data") or {}
    chain, key, authority = (base64.b64decode(data.get(name) or "") for name in _KEYS)
    return chain, key, authority


def _valid(earlier: bytes, now: datetime) -> tuple[Any, ...]:  # Any: x509.Certificate, whose package only certs names
    try:
        found = pems.certificates(earlier, "the CA so far") if earlier else ()
    except errors.MaterialError:
        return ()
    return tuple(each for each in found if chains.window(each).covers(now))
