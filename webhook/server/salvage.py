"""Salvage: what can be read of a review that cannot be read as a whole.

A number of 5,000 digits, half of a surrogate pair, or lists in lists a thousand deep are JSON that Muster's reader
refuses. The API server waits for the uid, and who sent the review belongs into the record; both stand outside of the
object that is wrong.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
from msgspec import structs

from muster.strategies.documents import decoding
from muster.webhook.admission import reviews

__all__ = ["MOST_VALUES", "find", "is_dense"]

_MOST = 256 * 1024  # bytes that are read a second time
_HEAD = 16 * 1024
_BEFORE_OBJECT = 512 * 1024  # bytes of uid, names and user, whose groups are the longest
_OBJECT = re.compile(rb',\s{0,99}"object"\s{0,9}:')
_MOST_STARTS = 8
_UID = re.compile(rb'"request"\s{0,9}:\s{0,9}\{\s{0,99}"uid"\s{0,9}:\s{0,9}"([-.:\w]{1,128})"')
MOST_VALUES = 400_000
"""Values of one body that are read; each takes up to 150 bytes of memory."""


def is_dense(body: bytes) -> bool:
    """Whether a body holds so many values that reading it would take 50 times its size in memory.

    Commas and brackets are counted, and only where there are too many of them, those outside of strings.
    """
    if len(body) <= MOST_VALUES or _parts(body) <= MOST_VALUES:
        return False
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return bare.count(b'"') > 2 * MOST_VALUES or _parts(b"".join(bare.split(b'"')[::2])) > MOST_VALUES


def _parts(text: bytes) -> int:
    return sum(text.count(part) for part in (b",", b"[", b"{"))


def find(body: bytes, phase: reviews.Phase) -> reviews.Request:
    """Return the request with nothing of its object but the name; what cannot be read either is empty."""
    whole = [(body, orjson.loads), (body, _read_anything)] if len(body) <= _MOST else []
    tries = itertools.chain(whole, ((start, orjson.loads) for start in _starts(body)))
    found = _head(next(filter(None, itertools.starmap(_request_of, tries)), {}), phase)
    return found if found.uid else structs.replace(found, uid=_uid(body))


def _uid(body: bytes) -> str:
    """Return the uid of the request where the API server writes it, first in the request; "" when it is not there."""
    found = _UID.search(body, 0, _HEAD)
    return found[1].decode("ascii", "replace") if found else ""


def _starts(body: bytes) -> Iterator[bytes]:
    """Yield reviews that end before the object, which the API server writes after all that tells who sent it."""
    for found in itertools.islice(_OBJECT.finditer(body, 0, _BEFORE_OBJECT), _MOST_STARTS):
        yield body[: found.start()] + b"}}"


def _request_of(body: bytes, read: Callable[[bytes], Any]) -> Mapping[str, Any] | None:
    try:
        review = read(body)
    except (ValueError, RecursionError):
        return None
    request = review.get("request") if isinstance(review, dict) else None
    return request if isinstance(request, dict) else None


def _read_anything(body: bytes) -> Any:
    return json.loads(body.decode("utf-8", "replace"), parse_int=_nothing, parse_float=_nothing)


def _nothing(_digits: str) -> None:
    """Numbers do not matter here, and reading a long one takes quadratic time."""


def _head(request: Mapping[str, Any], phase: reviews.Phase) -> reviews.Request:
    gvk, user, document = (decoding.mapping(request.get(name)) for name in ("kind", "userInfo", "object"))
    groups = user.get("groups")
    name = _text(request.get("name")) or _text(decoding.mapping(document.get("metadata")).get("name"))
    return reviews.Request(
        phase=phase,
        uid=_text(request.get("uid")),
        operation=_text(request.get("operation")),
        kind=_text(gvk.get("kind")),
        namespace=_text(request.get("namespace")),
        name=name,
        document={},
        old=None,
        dry_run=request.get("dryRun") is True,
        username=_text(user.get("username")),
        groups=[_text(group) for group in groups[:100]] if isinstance(groups, list) else [],
        group=_text(gvk.get("group")),
        subresource=_text(request.get("subResource")),
    )


def _text(value: object) -> str:
    """Return a string that can be written again, cut to the longest name that Kubernetes allows."""
    return value[:256].encode("utf-8", "replace").decode() if isinstance(value, str) else ""
