"""Material: all that a listener needs to serve TLS, checked to belong together.

Every value has passed these checks: key and certificate are a pair, the names are covered, the CA signed the leaf, and
both were valid when the value was made. So the code that serves need not check again. Material is made from parsed
parts (Muster's own authority) or from files (of cert-manager, or of a company's CA).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.certs import authorities, chains, errors, expiries, files, leaves, pems

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cryptography import x509

__all__ = ["Material", "from_authority", "parse"]


@dataclass(frozen=True, slots=True)
class Material:
    """A servable chain with its key and the CA bundle by which clients verify it.

    `names` are the names that it was checked for; the first is the one that the API server dials. `leaf` and
    `authority` are the validity of the leaf and of the CA in use; `fingerprint` is the SHA-256 of the leaf in hex.
    """

    chain_pem: bytes
    key_pem: bytes = field(repr=False)
    authority_pem: bytes
    fingerprint: str
    names: tuple[str, ...]
    leaf: expiries.Window
    authority: expiries.Window


def from_authority(authority: authorities.Authority, leaf: leaves.Leaf) -> Material:
    """The material of a leaf that `authority` has just issued."""
    return Material(
        chain_pem=pems.certificate_pem(leaf.certificate),
        key_pem=pems.key_pem(leaf.key),
        authority_pem=authorities.bundle_pem(authority),
        fingerprint=leaf.fingerprint,
        names=leaf.sans,
        leaf=leaf.window,
        authority=authority.window,
    )


def parse(
    where: files.Locations, contents: tuple[bytes, bytes, bytes], names: Sequence[str], now: datetime
) -> Material:
    """Material from the `contents` of the files `where`, checked for `names` at `now`.

    Raises MaterialError, naming the file, what is wrong and what to do: empty, truncated, damaged, expired, not yet
    valid, wrong names, no server certificate, not P-256, or parts that do not fit.
    """
    certificate_text, key_text, authority_text = contents
    chain = pems.certificates(certificate_text, where.certificate)
    key = pems.private_key(key_text, where.key)
    trusted = pems.certificates(authority_text, where.authority)
    root = _checked(where, chain, trusted, names, now)
    chains.check_pair(chain[0], key, certificate_origin=where.certificate, key_origin=where.key)
    return Material(
        chain_pem=pems.certificate_pem(*chain),
        key_pem=pems.key_pem(key),
        authority_pem=pems.certificate_pem(*trusted),
        fingerprint=chains.fingerprint(chain[0]),
        names=tuple(names),
        leaf=chains.window(chain[0]),
        authority=chains.window(root),
    )


def _checked(
    where: files.Locations,
    chain: tuple[x509.Certificate, ...],
    trusted: tuple[x509.Certificate, ...],
    names: Sequence[str],
    now: datetime,
) -> x509.Certificate:
    if not names:
        raise errors.NamesError("names", "are empty", "give at least the name that the API server dials")
    for certificate in chain:
        chains.check_window(certificate, now, where.certificate)
    chains.check_names(chain[0], names, where.certificate)
    chains.check_server_use(chain[0], where.certificate)
    root = chains.anchor(chain, trusted, chain_origin=where.certificate, origin=where.authority)
    chains.check_window(root, now, where.authority)
    if root != chain[0]:
        chains.check_authority(root, where.authority)
    return root
