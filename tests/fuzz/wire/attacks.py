"""Attacks: bytes for a socket, how they are sent, and what may come back."""

from __future__ import annotations

import string
from dataclasses import dataclass, field

__all__ = ["HEALTH", "JSON", "PATHS", "Attack", "head", "post", "secret_of"]

PATHS = ("/mutate/trainjobs", "/mutate/jobsets", "/validate/trainjobs", "/validate/jobsets")
HEALTH = ("/healthz", "/readyz", "/metrics")
JSON = (b"Content-Type", b"application/json")
_LETTERS = string.ascii_letters + string.digits


@dataclass
class Attack:
    """One connection of somebody who means no good.

    Attributes:
        name: what it tries.
        parts: bytes, each sent for itself.
        ends: what the client does afterwards: `reads` until it has its answers or the connection ends, `cuts` the
            connection once the service has answered somebody else, `resets` it at once.
        requests: how many answers there may be at most.
        awaited: after how many of them the client has enough.
        reviews: uids that must be answered with, in this order; each is the answer to one request.
        recorded: uids that must be in the audit log, once each.
        bare: whether answers have no body, as those to HEAD.
        tls: how it shakes hands, a key of `clients.HANDSHAKES`; "" for none.
        secret: what may stand nowhere.
    """

    name: str
    parts: tuple[bytes, ...]
    ends: str = "reads"
    requests: int = 1
    awaited: int = 1
    reviews: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    bare: bool = False
    tls: str = "good"
    secret: str = ""
    further: dict = field(default_factory=dict)


def head(method, target, *headers, version=b"HTTP/1.1", host=b"localhost"):
    """The head of a request, of bytes; headers are pairs, or lines as they are."""
    lines = [b"%s %s %s" % (method, target, version)]
    lines += [b"Host: " + host] if host is not None else []
    lines += [each if isinstance(each, bytes) else b"%s: %s" % each for each in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def post(path, body, *headers):
    """A whole request with a body of JSON."""
    return head(b"POST", path.encode(), JSON, (b"Content-Length", b"%d" % len(body)), *headers) + body


def secret_of(random):
    """A token whose form is known, so that all that is told must hide it."""
    return "hf_" + "".join(random.choice(_LETTERS) for _ in range(34))
