"""JSON of clients, read in forms, and told in one sentence where it does not fit."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from muster.sessions.refusals import Refused

__all__ = ["checked", "members"]

_MEMBERS = 1 << 14
_MEMBER = re.compile(rb'"[ \t\r\n]*:')
F = TypeVar("F", bound=BaseModel)


def checked(form: type[F], data: bytes) -> F:
    """Return JSON in its form; nothing is `{}`. Raises `Refused` with the first thing that is wrong."""
    _check_members(data)
    try:
        return form.model_validate_json(data or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Refused(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from error


def members(data: bytes) -> dict[str, Any]:
    """Return the members of an object, of which lists and objects are empty: whoever asks wants to know one or two.

    Raises:
        Refused: when the bytes are not a JSON object, or have too many members.
    """
    _check_members(data)
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Refused(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Refused("the body is not a JSON object")
    return {name: type(value)() if isinstance(value, dict | list) else value for name, value in found.items()}


def _check_members(data: bytes) -> None:
    """Raise `Refused` for JSON with more members than any request has: each unknown one makes an error of its own."""
    if data.count(b'"') > 2 * _MEMBERS and sum(1 for _ in _MEMBER.finditer(data)) > _MEMBERS:
        raise Refused(f"the body has more than {_MEMBERS} members; send less in one request")
