"""The certificate with which a Gateway serves TLS: two files of a folder, such as a mounted Secret, read again.

A listener has one SSLContext, into which a new chain is loaded while it serves. A load that fails half-way leaves a
context that can serve nothing, so each pair is tried on another context first.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

__all__ = ["Certificate", "CertificateError"]

_LOG = logging.getLogger(__name__)
_LOOK = 10.0  # seconds between looks; the kubelet takes about a minute to renew a mounted Secret
_SECRET = "..data"  # noqa: S105  # the link that the kubelet exchanges (Kubernetes 1.36, pkg/volume/util/atomic_writer.go)


class CertificateError(ValueError):
    """A folder has no certificate that can be served."""


class Certificate:
    """The certificate of a folder, as it was when it could be served last.

    Args:
        folder: with `tls.crt`, a chain in PEM, and `tls.key`, its key without a password.

    Attributes:
        context: for the listener.

    Raises:
        CertificateError: there is none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._served = (b"", b"")
        self.context = _context()
        self.look()

    def look(self) -> bool:
        """Serve what is in the folder now; return whether it is another.

        Raises:
            CertificateError: it cannot be served, and nothing has changed.
        """
        try:
            return self._look()
        except OSError as error:  # ssl.SSLError is one
            told = "put a chain in PEM into tls.crt, and its key without a password into tls.key"
            raise CertificateError(f"--tls: {self._folder}: cannot be served ({error}): {told}") from error

    def _look(self) -> bool:
        # Followed once for both files, so that no certificate meets the key of the next one.
        link = self._folder / _SECRET
        folder = link.resolve() if link.is_symlink() else self._folder
        chain, key = folder / "tls.crt", folder / "tls.key"
        found = chain.read_bytes(), key.read_bytes()
        if found == self._served:
            return False
        for context in (_context(), self.context):
            context.load_cert_chain(chain, key, password=b"")  # without one it would ask a terminal
        self._served = found
        return True

    async def follow(self) -> None:
        """Look again and again, until cancelled; what cannot be served is logged once."""
        told = ""
        while True:
            await asyncio.sleep(_LOOK)
            try:
                if self.look():
                    _LOG.warning("a new certificate of %s is served", self._folder)
                told = ""
            except CertificateError as error:
                if str(error) != told:
                    _LOG.warning("%s; the one before is served", error)
                told = str(error)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
