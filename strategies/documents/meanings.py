"""What a value of a wrong type evidently means, and how YAML writes that."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from muster.strategies.documents.findings import beginning

__all__ = ["cure", "meant", "shown", "yaml"]

_WORDS = frozenset({"command", "args"})
_PLAIN = re.compile(r"(?!(?i:true|false|yes|no|on|off|null|y|n)\Z)[A-Za-z_/][A-Za-z0-9_./=@-]*")
_LONGEST = 60
_SHELL = re.compile(r"[|&;<>()$`\n*?]")
"""What only a shell understands; a text with it is no list of words."""


def meant(value: object, wanted: type, member: object = "") -> Any:
    """Return a value as the type that is wanted; None where it has no evident meaning there.

    Args:
        value: of a document.
        wanted: a type of JSON.
        member: the name of the member; `command` and `args` are lists of words.
    """
    if wanted is str and isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        return None
    if wanted is bool:
        return {"true": True, "false": False}.get(value)
    if wanted is int:
        return int(value) if re.fullmatch(r"-?(0|[1-9]\d{0,9})", value) else None
    return _words(value, split=member in _WORDS) if wanted is list else None


def _words(text: str, *, split: bool) -> list[str] | None:
    if not split:
        return None
    try:
        return None if _SHELL.search(text) else shlex.split(text)
    except ValueError:  # an open quote
        return None


def cure(value: object, wanted: type, member: object = "") -> str:
    """Return how to write a value of a wrong type without quoting it, which an audit log could keep; "" if unknown."""
    if meant(value, wanted, member) is None:
        return ""
    return _CURES[wanted]


def shown(value: object, wanted: type, member: object = "") -> str:
    """Return how to write a value of a wrong type, for the person who wrote it; "" where that is not evident."""
    found = meant(value, wanted, member)
    if found is None:
        return ""
    if wanted is str:
        return f'; quote it: "{found}"'
    text = beginning(yaml(found), _LONGEST)
    return f"; write {text}" if wanted is list else f"; write {text} without quotes"


_CURES = {str: "; quote it", list: "; write [word, word]", int: "; remove the quotes", bool: "; remove the quotes"}


def yaml(value: object) -> str:
    """Return a value as YAML's flow style writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(yaml, value))}]"
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
