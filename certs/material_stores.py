"""A directory that keeps a self-signed authority between runs.

Only `authority.pem` is read back. It holds certificates and key together, so that a crash can never leave a CA beside
the key of another one. The three files for other programs (`ca.crt`, `tls.crt`, `tls.key`) are copies, written after
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.certs import authorities, errors, files, materials, pems

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["AUTHORITY", "load", "save"]

AUTHORITY = "authority.pem"


def load(directory: Path) -> authorities.Authority | None:
    """The authority stored in `directory`, expired or not; None when there is none yet.

    Raises MaterialError when the file exists but cannot be used: it is never silently replaced, since people may have
    given its CA to their clients.
    """
    path = directory / AUTHORITY
    try:
        text = files.read(path)
    except errors.MissingError:
        return None
    return authorities.load(text, text, bundle_origin=path, key_origin=path)


def save(directory: Path, authority: authorities.Authority, material: materials.Material) -> None:
    """Writes `authority` and the copies of `material`, each file in one step and keys for the owner only.

    Makes `directory` if it is missing. Raises StorageError when a file cannot be written.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise errors.StorageError(
            directory, f"cannot be created ({error.strerror})", "use a directory on a writable volume"
        ) from error
    where = files.Locations.within(directory)
    files.write(directory / AUTHORITY, authorities.bundle_pem(authority) + pems.key_pem(authority.key))
    files.write(where.key, material.key_pem)
    files.write(where.certificate, material.chain_pem, mode=files.PUBLIC)
    files.write(where.authority, material.authority_pem, mode=files.PUBLIC)
