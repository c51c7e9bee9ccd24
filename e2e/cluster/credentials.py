"""Tokens, keys and kubeconfigs: an administrator by token, service accounts by tokens that the API server signs.

The API server makes its serving certificate itself (`--cert-dir`); it holds its CA, so clients trust that one file.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from e2e.cluster.places import Places
from e2e.cluster.sites import Site

__all__ = ["api_certificate", "kubeconfig", "make", "service_account_key", "tokens"]


def make(places: Places, site: Site) -> None:
    """Write the key that signs service account tokens, the administrator's token and kubeconfig."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    _write(service_account_key(places), private)
    token = secrets.token_urlsafe(32)
    _write(tokens(places), f'{token},admin,admin,"system:masters"\n'.encode())
    kubeconfig(places.kubeconfig, places, site, token)


def tokens(places: Places) -> Path:
    """The API server's `--token-auth-file`."""
    return places.credentials / "tokens.csv"


def service_account_key(places: Places) -> Path:
    """The RSA key of service account tokens; the API server reads the public half from it too."""
    return places.credentials / "service-accounts.key"


def api_certificate(places: Places) -> Path:
    """The API server's certificate and its CA, written by the API server."""
    return places.credentials / "api" / "apiserver.crt"


def kubeconfig(path: Path, places: Places, site: Site, token: str) -> None:
    """Write a kubeconfig, as JSON, which every client reads as YAML."""
    cluster = {"server": site.server, "certificate-authority": str(api_certificate(places))}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "muster", "cluster": cluster}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "muster", "context": {"cluster": "muster", "user": "user"}}],
        "current-context": "muster",
    }
    _write(path, json.dumps(document, indent=1).encode())


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
