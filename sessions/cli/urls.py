"""Where clients reach a Gateway, when that is not the address that it binds."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["checked"]


def checked(url: str) -> str:
    """Return a URL without a slash at its end, for links to begin with. Raises `ValueError` for one that cannot be."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.username is not None or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise ValueError(f"--url: {url[:200]!r} begins no link; write https://HOST, with :PORT and /PATH where needed")
    return url.rstrip("/")
