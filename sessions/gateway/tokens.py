"""Signed tokens of short life (JWT, HS256): who calls, and what a download link may fetch.

The key is a file of mode 0600 in the Gateway's folder and not in the journal, so that whoever reads the journal cannot
sign. Gateways that share the folder share the key.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any, Literal

import jwt

__all__ = ["ISSUER", "Audience", "Tokens"]

Audience = Literal["api", "download"]
ISSUER = "passport-muster"
"""A client whose API key is a token reads its claims only where the issuer begins with `passport-` (tinker 0.38.0,
`InternalClientHolder.get_identity_jwt`)."""
_SKEW = 90  # seconds by which the clocks of two Gateways may differ
_ALGORITHM = "HS256"
_CLAIMS = ("iss", "aud", "sub", "iat", "exp")
_LONGEST = 4096  # characters of a token that is looked at


class Tokens:
    """Signs and reads tokens.

    Args:
        file: of the key; it is made when it is missing.

    Raises:
        PermissionError: when others may read the key.
    """

    def __init__(self, file: Path) -> None:
        self._key = _key(file)

    def issue(self, audience: Audience, subject: str, seconds: int, **claims: Any) -> str:
        """Return a token that ends after some seconds.

        Args:
            audience: what it is for; it is good for nothing else.
            subject: whom it is about.
            seconds: of its life.
            claims: what else it says; values are JSON.
        """
        now = int(time.time())
        told = {"iss": ISSUER, "aud": f"muster-{audience}", "sub": subject, "iat": now, "exp": now + seconds, **claims}
        return str(jwt.encode(told, self._key, _ALGORITHM))

    def read(self, audience: Audience, token: str) -> dict[str, Any] | None:
        """Return what a token says; None when it is not ours, is over for every clock, or is for something else."""
        if len(token) > _LONGEST or not token.isascii():
            return None
        try:
            told: dict[str, Any] = jwt.decode(
                token,
                self._key,
                algorithms=[_ALGORITHM],
                audience=f"muster-{audience}",
                issuer=ISSUER,
                leeway=_SKEW,
                options={"require": list(_CLAIMS)},
            )
        except jwt.InvalidTokenError:
            return None
        return told


def _key(file: Path) -> bytes:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        _make(file)
    if file.stat().st_mode & 0o077:
        raise PermissionError(f"{file}: others may read this key; remove it, and a new one is made: tokens end then")
    return file.read_bytes()


def _make(file: Path) -> None:
    """Write a key that appears whole, once: of several Gateways that start together, one makes it."""
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(secrets.token_bytes(64))
            opened.flush()
            os.fsync(opened.fileno())
        try:
            os.link(beside, file)
        except FileExistsError:
            return
    finally:
        beside.unlink()
