"""Parses PEM text into certificates and keys, with errors that say what to do.

For most damage the library reports only malformed framing, and a bundle whose last block is cut off loads without an
error. Both happen with mounted and hand-copied files, so framing is checked here first. `origin` is what the text is
called in errors: a file, or a key of a Secret.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster.certs import errors

__all__ = ["certificate_pem", "certificates", "key_pem", "private_key"]

_BEGIN_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_END_CERTIFICATE = b"-----END CERTIFICATE-----"
_PRIVATE_KEY = b"PRIVATE KEY-----"
_DAMAGE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What the library raises for damaged bytes; found by fuzzing, since these errors have no common base."""

_COPY_AGAIN = "copy the whole file again"


def certificates(pem: bytes, origin: object) -> tuple[x509.Certificate, ...]:
    """All certificates in `pem`, at least one, in order; other blocks are skipped.

    Raises MaterialError for text that is empty, cut off, damaged, or holds only a key.
    """
    _check_certificate_framing(pem, origin)
    try:
        found = tuple(x509.load_pem_x509_certificates(pem))
        for certificate in found:
            _parse_fully(certificate)
            _check_serial(certificate, origin)
    except _DAMAGE as error:
        raise errors.MaterialError(
            origin, f"holds a damaged certificate ({_first_line(error)})", _COPY_AGAIN
        ) from error
    return found


def private_key(pem: bytes, origin: object) -> ec.EllipticCurvePrivateKey:
    """The first private key in `pem`, which must be plain (no pass phrase) and ECDSA P-256; else MaterialError.

    There is only one key type, because an SSLContext keeps a certificate for each type: after a reload from EC to RSA
    it would silently keep serving the old one.
    """
    _check_key_framing(pem, origin)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise errors.MaterialError(origin, "is encrypted", "store the key without a pass phrase") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        # The library's message is left out: it may quote the key, and this message is logged.
        raise errors.MaterialError(origin, "holds a damaged key", _COPY_AGAIN) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise errors.MaterialError(
            origin,
            f"holds a key of type {_kind(key)}",
            "issue it for ECDSA P-256 (cert-manager: privateKey.algorithm ECDSA, size 256)",
        )
    return key


def certificate_pem(*items: x509.Certificate) -> bytes:
    """The certificates as PEM, in the order given."""
    return b"".join(item.public_bytes(serialization.Encoding.PEM) for item in items)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as unencrypted PKCS #8 PEM: keep it in memory or write it with `files.write`."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _parse_fully(certificate: x509.Certificate) -> None:
    # The library parses these at first use, and would then raise where the file is not known.
    _ = (certificate.subject, certificate.issuer, certificate.extensions, certificate.public_key())
    _ = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _check_serial(certificate: x509.Certificate, origin: object) -> None:
    if certificate.serial_number < 0:
        raise errors.MaterialError(
            origin, "holds a certificate with a negative serial number", "issue it again: the API server refuses it"
        )


def _check_certificate_framing(pem: bytes, origin: object) -> None:
    begins, ends = pem.count(_BEGIN_CERTIFICATE), pem.count(_END_CERTIFICATE)
    if not pem.strip():
        raise errors.MaterialError(origin, "is empty", "issue the certificate, or wait until it is issued")
    if begins != ends:
        raise errors.MaterialError(origin, f"is truncated ({begins} certificates begin, {ends} end)", _COPY_AGAIN)
    if not begins and _PRIVATE_KEY in pem:
        raise errors.MaterialError(origin, "holds a private key and no certificate", "swap the two paths")
    if not begins:
        raise errors.MaterialError(origin, "holds no PEM certificate", "convert it to PEM, or name the right file")


def _check_key_framing(pem: bytes, origin: object) -> None:
    begins = pem.count(b"-----BEGIN ")
    if not pem.strip():
        raise errors.MaterialError(origin, "is empty", "issue the key, or wait until it is issued")
    if begins != pem.count(b"-----END ") or (begins and not pem.rstrip().endswith(b"-----")):
        raise errors.MaterialError(origin, "is truncated", _COPY_AGAIN)
    if _PRIVATE_KEY not in pem and begins:
        raise errors.MaterialError(origin, "holds no private key", "swap the two paths, or name the right file")
    if not begins:
        raise errors.MaterialError(origin, "holds no PEM private key", "convert it to PEM, or name the right file")


def _kind(key: object) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.curve.name
    return type(key).__name__.removesuffix("PrivateKey")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:160] or type(error).__name__
