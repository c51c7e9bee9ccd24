"""Real TLS handshakes, in memory or with a listener, which show what a client would see.

Loading a certificate can succeed and the context still serve another one (an SSLContext keeps one certificate for each
key type), so only the fingerprint of a handshake counts. The same probe over a socket lets readiness prove that the
listener's chain verifies against the live `caBundle`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl

from muster.certs import errors

__all__ = ["dial", "fingerprint", "served", "verifier"]

_ROUNDS = 10


def fingerprint(der: bytes) -> str:
    """SHA-256 of a certificate in DER, in hex."""
    return hashlib.sha256(der).hexdigest()


def verifier(authority_pem: bytes) -> ssl.SSLContext:
    """A client context that trusts `authority_pem` alone, by the rules of the API server's Go client.

    A bundle may hold an intermediate without its root (Go's pool takes any certificate as an anchor). Raises
    MaterialError when there is no certificate in it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=authority_pem.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise errors.MaterialError(
            "CA bundle", f"holds no usable certificate ({error})", "give the certificate of the CA as PEM"
        ) from error
    return context


def served(server: ssl.SSLContext, authority_pem: bytes, name: str) -> str:
    """The fingerprint that `server` shows to a client which trusts `authority_pem` and dials `name`.

    The handshake runs in memory, about a millisecond. Raises ServingError when it fails.
    """
    upward, downward = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client = verifier(authority_pem).wrap_bio(downward, upward, server_hostname=name)
        listener = server.wrap_bio(upward, downward, server_side=True)
        for _ in range(_ROUNDS):
            if _advanced(client) & _advanced(listener):
                return fingerprint(client.getpeercert(binary_form=True) or b"")
    except (ssl.SSLError, ValueError) as error:
        raise errors.ServingError(
            name, f"a TLS handshake fails ({error})", "issue certificate, key and CA again, together"
        ) from error
    raise errors.ServingError(name, "a TLS handshake never ends", "report this as a bug")


async def dial(host: str, port: int, authority_pem: bytes, name: str, *, timeout: float = 3.0) -> str:  # noqa: ASYNC109 - the whole dial is one promise
    """The fingerprint that the listener at `host`:`port` shows to a client which trusts `authority_pem`.

    `name` is verified in place of `host`; `timeout` is in seconds and covers all of it. Raises ProbeError, or
    MaterialError for a bundle that cannot be used.
    """
    where, client = f"{host}:{port}", verifier(authority_pem)
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port, ssl=client, server_hostname=name)
    except TimeoutError as error:
        raise errors.ProbeError(
            where, f"completes no TLS handshake within {timeout} s", "check whether it is overloaded"
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise errors.ProbeError(
            where, f"its certificate is refused ({error.verify_message})", "put the CA that signed it into the bundle"
        ) from error
    except (OSError, ValueError) as error:
        raise errors.ProbeError(where, f"cannot be reached ({error})", "check whether it listens there") from error
    try:
        return _shown(writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _shown(writer: asyncio.StreamWriter) -> str:
    connection: ssl.SSLObject = writer.get_extra_info("ssl_object")
    return fingerprint(connection.getpeercert(binary_form=True) or b"")


def _advanced(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
