"""The certificate authority, which is all that the API server trusts.

A CA here signs leaves and nothing else (path length 0). Its bundle holds the signing certificate first and then
earlier ones that are still valid. An authority that is shared (in a directory, or in a Secret with rotation) is shared
as this bundle, so that leaves of the old CA are trusted until they have all been replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from muster.certs import chains, errors, expiries, pems

__all__ = [
    "VALIDITY",
    "Authority",
    "bundle_pem",
    "create",
    "key_identifier",
    "key_usage",
    "load",
    "require_valid",
    "succeed",
]

VALIDITY = timedelta(days=365)
"""At two thirds of it, when a CA is renewed, it still outlives any leaf of the default validity."""


_PURPOSES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Authority:
    """A CA that can sign: its certificate, its key, and the certificates of its predecessors."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    predecessors: tuple[x509.Certificate, ...] = ()

    @property
    def window(self) -> expiries.Window:
        """The validity of the signing certificate."""
        return chains.window(self.certificate)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the signing certificate, in hex."""
        return chains.fingerprint(self.certificate)


def create(
    now: datetime,
    *,
    validity: timedelta = VALIDITY,
    predecessors: tuple[x509.Certificate, ...] = (),
    backdating: timedelta = expiries.BACKDATING,
) -> Authority:
    """A fresh self-signed CA with a key of its own, valid from five minutes (`backdating`) ago."""
    key = ec.generate_private_key(ec.SECP256R1())
    window = expiries.opening(now, validity, backdating=backdating)
    name = _name(key)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(window.not_before)
        .not_valid_after(window.not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(key_identifier(key), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key, predecessors)


def succeed(authority: Authority, now: datetime, *, validity: timedelta = VALIDITY) -> Authority:
    """A fresh CA whose bundle still holds `authority` and its predecessors, as far as they are valid at `now`."""
    trusted = (authority.certificate, *authority.predecessors)
    kept = tuple(item for item in trusted if chains.window(item).covers(now))
    return create(now, validity=validity, predecessors=kept)


def load(bundle: bytes, key: bytes, *, bundle_origin: object, key_origin: object) -> Authority:
    """An authority from PEM: the first certificate of `bundle` signs with `key`, the others are predecessors.

    An expired one loads, because a successor can still be made. Raises MaterialError, naming the origin, when the text
    is damaged, the key is not P-256 or belongs to another certificate, or the first certificate is not a CA.
    """
    certificate, *predecessors = pems.certificates(bundle, bundle_origin)
    private = pems.private_key(key, key_origin)
    chains.check_pair(certificate, private, certificate_origin=bundle_origin, key_origin=key_origin)
    chains.check_authority(certificate, bundle_origin)
    return Authority(certificate, private, tuple(predecessors))


def bundle_pem(authority: Authority) -> bytes:
    """All that clients should trust, as PEM: the value of a webhook configuration's `caBundle` before base64."""
    return pems.certificate_pem(authority.certificate, *authority.predecessors)


def require_valid(authority: Authority, now: datetime) -> None:
    """Raises AuthorityError when `authority` is expired or not yet valid at `now`: what it signs would be useless."""
    window = authority.window
    if not window.covers(now):
        raise errors.AuthorityError(
            authority.certificate.subject.rfc4514_string(),
            f"is valid from {window.not_before} to {window.not_after}, and it is {now}",
            "renew the CA, or correct the clock",
        )


def key_identifier(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    """The authority key identifier of certificates signed by `key`, by which clients choose between CAs in a bundle."""
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _name(key: ec.EllipticCurvePrivateKey) -> x509.Name:
    # Successive CAs get distinct names because some verifiers look an issuer up by name alone.
    digest = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, f"muster-ca-{digest[:16]}")])


def key_usage(*allowed: str) -> x509.KeyUsage:
    """The extension that allows these purposes (`cryptography`'s names) and no other."""
    return x509.KeyUsage(**{purpose: purpose in allowed for purpose in _PURPOSES})
