"""What must hold between a leaf, its key, its CA, its names and the clock.

Each check raises a MaterialError that names the file at fault and what to do; the TLS library would only report a
failed verification, at the first request, to the client. The rules are those of Go's verifier, since the API server
is the client; the TLS library also checks the certificate before it is served (`contexts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import oid

from muster.certs import errors, expiries, probes, subject_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric import ec

__all__ = [
    "anchor",
    "check_authority",
    "check_names",
    "check_pair",
    "check_server_use",
    "check_window",
    "fingerprint",
    "sans",
    "window",
]


def window(certificate: x509.Certificate) -> expiries.Window:
    """The validity of a certificate."""
    return expiries.Window(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, in hex."""
    return probes.fingerprint(certificate.public_bytes(serialization.Encoding.DER))


def sans(certificate: x509.Certificate) -> tuple[str, ...]:
    """Its DNS names and IP addresses; empty when it has no subject alternative names."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress)))


def check_pair(
    certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, *, certificate_origin: object, key_origin: object
) -> None:
    """The key must belong to the certificate."""
    if certificate.public_key() != key.public_key():
        raise errors.MaterialError(
            key_origin,
            f"is not the key of the certificate in {certificate_origin}",
            "use the certificate and the key that were issued together",
        )


def check_window(certificate: x509.Certificate, now: datetime, origin: object) -> None:
    """The certificate must be valid at `now`."""
    valid = window(certificate)
    if now < valid.not_before:
        raise errors.MaterialError(
            origin,
            f"is not valid before {valid.not_before}, and it is {now}",
            "correct the clock of this machine or of the issuer",
        )
    if now > valid.not_after:
        raise errors.MaterialError(origin, f"expired on {valid.not_after}, and it is {now}", "issue it again")


def check_names(leaf: x509.Certificate, wanted: Sequence[str], origin: object) -> None:
    """The certificate must cover each wanted name."""
    found = sans(leaf)
    missing = [name for name in wanted if not subject_names.covered(name, found)]
    if missing:
        raise errors.MaterialError(
            origin,
            f"is issued for {', '.join(found) or 'no name at all'}, not for {', '.join(missing)}",
            "issue it with the missing names as subject alternative names (the common name does not count)",
        )


def check_server_use(leaf: x509.Certificate, origin: object) -> None:
    """If the certificate lists its purposes (extended key usage), they must include serving TLS."""
    try:
        uses = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    accepted = {oid.ExtendedKeyUsageOID.SERVER_AUTH, oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    if accepted.isdisjoint(uses):
        raise errors.MaterialError(
            origin, "is not issued for TLS servers", "issue it with the extended key usage 'server auth'"
        )


def check_authority(certificate: x509.Certificate, origin: object) -> None:
    """The certificate must be allowed to sign others."""
    try:
        may_sign = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        may_sign = False
    if not may_sign:
        raise errors.MaterialError(
            origin,
            f"is not a CA certificate ({certificate.subject.rfc4514_string()})",
            "use the certificate of the CA that signed the leaf",
        )


def anchor(
    chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], *, chain_origin: object, origin: object
) -> x509.Certificate:
    """The trusted certificate at which `chain` (the leaf, then any intermediates in any order) ends.

    Of several that fit, such as two with one key, the one valid longest: a client needs only one. Raises
    MaterialError when no path leads there.
    """
    current, *rest = chain
    while True:
        fitting = [root for root in trusted if root == current or _signed(current, root)]
        if fitting:
            return max(fitting, key=lambda root: root.not_valid_after_utc)
        issuer = next((item for item in rest if _signed(current, item)), None)
        if issuer is None:
            raise errors.MaterialError(
                origin,
                f"holds no CA that signed {chain_origin}, whose issuer is {current.issuer.rfc4514_string()}",
                "use the certificate of that CA, or put missing intermediates after the leaf",
            )
        rest.remove(issuer)
        current = issuer


def _signed(child: x509.Certificate, parent: x509.Certificate) -> bool:
    try:
        child.verify_directly_issued_by(parent)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
