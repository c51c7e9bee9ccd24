"""The leaf: the certificate that the webhook serves, for the names under which it is called.

Signing takes well under a millisecond, so each process makes its own leaf, whose key never leaves the process; the
replicas share only the authority. A leaf never outlives the CA that signed it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from muster.certs import authorities, chains, errors, expiries, subject_names

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["VALIDITY", "Leaf", "issue"]

VALIDITY = timedelta(days=90)

_LONGEST_COMMON_NAME = 64


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A server certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def window(self) -> expiries.Window:
        """Its validity."""
        return chains.window(self.certificate)

    @property
    def sans(self) -> tuple[str, ...]:
        """The names that it covers, IP addresses included."""
        return chains.sans(self.certificate)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, in hex."""
        return chains.fingerprint(self.certificate)


def issue(
    authority: authorities.Authority,
    sans: Sequence[str],
    now: datetime,
    *,
    validity: timedelta = VALIDITY,
    backdating: timedelta = expiries.BACKDATING,
) -> Leaf:
    """A leaf for `sans` (DNS names and IP addresses, at least one), signed by `authority`, with a new key.

    Valid from five minutes (`backdating`) ago, clipped to the validity of the CA. Raises NamesError for a name that
    cannot stand in a certificate and AuthorityError when the CA is not valid at `now`.
    """
    if not sans:
        raise errors.NamesError("names", "are empty", "give at least the name that the API server dials")
    subject_names.check(sans)
    authorities.require_valid(authority, now)
    key = ec.generate_private_key(ec.SECP256R1())
    window = expiries.opening(now, validity, backdating=backdating).clipped(authority.window)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(sans))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(window.not_before)
        .not_valid_after(window.not_after)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, sans)), critical=False)
    )
    return Leaf(_with_usage(builder, key, authority).sign(authority.key, hashes.SHA256()), key)


def _with_usage(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, authority: authorities.Authority
) -> x509.CertificateBuilder:
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(authorities.key_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authorities.key_identifier(authority.key), critical=False)
    )


def _subject(sans: Sequence[str]) -> x509.Name:
    # For people only: clients ignore it, and X.520 allows 64 characters, which the names of a Service can exceed.
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, sans[0][:_LONGEST_COMMON_NAME])])


def _general_name(name: str) -> x509.GeneralName:
    address = subject_names.address(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)
