"""The server's TLS context, and how it gets a new certificate while it serves.

asyncio keeps one SSLContext for the listener, so rotation must load the new chain into that same object: new
connections get it, open ones continue. A load that fails half-way leaves a context that can serve nothing, so every
material is first tried on a separate context, and then the certificate that the live context serves is checked. If
anything is wrong, the last good material stays.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from muster.certs import errors, files, probes

if TYPE_CHECKING:
    from muster.certs import materials

__all__ = ["ServingContext", "server_context"]

_CIPHERS = "ECDHE+ECDSA+AESGCM:ECDHE+ECDSA+CHACHA20"
"""Ciphers for TLS 1.2; those of TLS 1.3 are all good. ECDSA only, because the key is ECDSA."""

_MEMORY = Path("/dev/shm")  # noqa: S108 - the file in it has a private directory of its own


class ServingContext:
    """An SSLContext that always serves the last good material.

    Not for use from several threads: call `reload` from the thread whose event loop accepts connections, where it
    blocks for a few milliseconds.
    """

    __slots__ = ("_material", "_ssl_context")

    def __init__(self, material: materials.Material) -> None:
        """Serves `material` from the start; raises ServingError as `reload` does."""
        self._ssl_context = server_context()
        _rehearse(material)
        _load(self._ssl_context, material)
        self._material = material

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """The context for the listener, always the same object."""
        return self._ssl_context

    @property
    def material(self) -> materials.Material:
        """The material that is served now."""
        return self._material

    def reload(self, material: materials.Material) -> None:
        """Serves `material` to all connections accepted from now on.

        Raises ServingError when the TLS library refuses it or would show another certificate, MaterialError for a
        useless CA bundle, StorageError when no temporary file can be written; the last good material then stays.
        """
        _rehearse(material)
        _load(self._ssl_context, material)
        try:
            self.require_served(material)
        except errors.CertificateError:
            _load(self._ssl_context, self._material)
            raise
        self._material = material

    def require_served(self, material: materials.Material) -> None:
        """Raises ServingError unless a handshake shows the leaf of `material`, verified by its CA."""
        _require_served(self._ssl_context, material)


def server_context() -> ssl.SSLContext:
    """A server context without a certificate: TLS 1.2 and 1.3, forward secrecy, HTTP/1.1 by ALPN.

    There are no session tickets: a resumed session would not show the certificate, and the API server never resumes.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def _rehearse(material: materials.Material) -> None:
    context = server_context()
    _load(context, material)
    _require_served(context, material)


def _require_served(context: ssl.SSLContext, material: materials.Material) -> None:
    name = material.names[0]
    shown = probes.served(context, material.authority_pem, name)
    if shown != material.fingerprint:
        raise errors.ServingError(
            name, f"serves the certificate {shown} instead of {material.fingerprint}", "restart the process"
        )


def _load(context: ssl.SSLContext, material: materials.Material) -> None:
    # The ssl module reads chains from files only. An empty password keeps it from asking the terminal for one.
    try:
        with tempfile.TemporaryDirectory(prefix="muster-", dir=_private_place()) as directory:
            path = Path(directory, "tls.pem")
            files.write(path, material.key_pem + material.chain_pem)
            context.load_cert_chain(path, password=b"")
    except ssl.SSLError as error:
        raise errors.ServingError(
            material.names[0], f"the TLS library refuses its certificate or key ({error})", "issue both again, together"
        ) from error
    except OSError as error:
        raise errors.StorageError(
            tempfile.tempdir or "temporary directory",
            f"cannot be used ({error})",
            "mount an emptyDir with medium Memory at /tmp, or set TMPDIR",
        ) from error


def _private_place() -> Path | None:
    # On a file system in memory, the key never reaches a disk, not even if the process is killed here.
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None
