"""Credentials: where an API server is, how it proves who it is, and what is sent to prove who asks."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.kube.transports import NoClusterError

__all__ = ["ACCOUNT", "Credentials", "address", "in_cluster", "is_pod", "of_account", "trusting"]

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its ServiceAccount (Kubernetes 1.36, `pkg/serviceaccount`)."""
_HOST = "KUBERNETES_SERVICE_HOST"


def _nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How an API server is reached.

    Attributes:
        url: of it, without a path at the end.
        tls: what is trusted, with the client's certificate; None for http.
        authorization: returns the header of each request, "" for none; it may read a file, because tokens are renewed.
        server_name: in the server's certificate, None for that of the URL.
        proxy: URL of a proxy, None for what the environment says.
    """

    url: str
    tls: ssl.SSLContext | None = None
    authorization: Callable[[], str] = _nothing
    server_name: str | None = None
    proxy: str | None = None


def is_pod(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is in a pod, as far as its environment says."""
    return bool(environment.get(_HOST))


def address(environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL at which a pod reaches the API server. Raises `NoClusterError` outside of a pod."""
    host, port = environment.get(_HOST), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoClusterError("this process is in no pod: set KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT")
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def in_cluster() -> Credentials:
    """Return how a pod reaches the API server. Raises `NoClusterError` where its ServiceAccount cannot be used."""
    return of_account(address(), ACCOUNT)


def of_account(url: str, account: Path) -> Credentials:
    """Return the credentials of a ServiceAccount.

    Args:
        url: of the API server.
        account: folder with `token`, which is read for each request, because it is renewed, and for https `ca.crt`.

    Raises:
        NoClusterError: a file cannot be read.
    """
    token = account / "token"

    def authorization() -> str:
        return f"Bearer {token.read_text(encoding='ascii').strip()}"

    try:
        authorization()
        authority = (account / "ca.crt").read_text(encoding="ascii") if url.startswith("https:") else None
    except (OSError, ValueError) as error:
        raise NoClusterError(f"this pod has no usable service account in {account}: {error}") from error
    return Credentials(url, trusting(url, authority), authorization)


def trusting(url: str, authority: str | None) -> ssl.SSLContext | None:
    """Return what is trusted of a server, None for http.

    Args:
        url: of the server.
        authority: certificates in PEM; None for those of the system.

    Raises:
        NoClusterError: they cannot be read.
    """
    if not url.startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise NoClusterError(f"the certificates for {url} cannot be read: {error}") from error
    # Go's clients do not enforce all of RFC 5280, and some clusters' CAs violate it; Python 3.13 and later refuse them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
