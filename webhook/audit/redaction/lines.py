"""Secrets in configuration text, line by line: YAML and INI, with values on the same line or on the lines below."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

__all__ = ["concealed"]

# `- name: value`, `name = value`; the value may be empty, or say that a block follows.
_LINE = re.compile(
    r"(?P<indent>[ \t]*)(?P<dash>(?:- +)?)(?:export |set |ENV )?(?P<name>[\"']?[\w./-]+[\"']?)"
    r"(?P<by>[ \t]*:(?=[ \t]|$)[ \t]*|[ \t]+=(?!=)[ \t]*)(?P<value>[^\r\n]*)",
    re.ASCII,
)
_BLOCK = re.compile(r"(?:![\w!]+[ \t]+)?[|>][+-]?[0-9]?[+-]?[ \t]*(?:#.*)?", re.ASCII)
_MEMBER = re.compile(r"[ \t]*(?:- +)?(?P<name>[\"']?[\w./-]+[\"']?)[ \t]*:(?:[ \t]|$)", re.ASCII)
# Members of a reference to a Secret, which only say which one.
_REFERRING = frozenset({"secretName", "name", "key", "optional", "items", "path", "defaultMode", "mode"})
_DATA = frozenset({"data", "stringData"})
_SECRET_KIND = re.compile(r"(?m)^[ \t]*[\"']?kind[\"']?:[ \t]*[\"']?Secret[\"']?[ \t]*\r?$")


def concealed(text: str, is_secret: Callable[[str, str], bool], mark: Callable[[str], str]) -> str:
    """Return `text` with each value marked whose name is secret.

    Args:
        text: lines.
        is_secret: decides about a name and the value on its line.
        mark: returns what replaces a value.
    """
    pieces = text.splitlines(keepends=True)
    if len(pieces) > 1 and _SECRET_KIND.search(text):
        judge, is_secret = is_secret, lambda name, value: name in _DATA or judge(name, value)
    return "".join(_lines(pieces, is_secret, mark))


def _lines(lines: list[str], is_secret: Callable[[str, str], bool], mark: Callable[[str], str]) -> Iterator[str]:
    below: int | None = None  # the lines deeper than this belong to a secret
    whole = False  # all of them, or only those that are no members themselves
    for line in lines:
        if below is not None:
            if not line.strip() or _depth(line) > below:
                yield _below(line, is_secret, mark, whole=whole)
                continue
            below = None
        match = _LINE.match(line)
        if match is None:
            yield line
            continue
        name, value = match["name"].strip("\"'"), match["value"].rstrip()
        block = _BLOCK.fullmatch(value) is not None
        if not is_secret(name, "" if block else value):
            yield line
        elif block or not value:
            below, whole = len(match["indent"].expandtabs()) + len(match["dash"]), block or name in _DATA
            yield line
        else:
            yield line[: match.start("value")] + mark(value) + line[match.start("value") + len(value) :]


def _below(line: str, is_secret: Callable[[str, str], bool], mark: Callable[[str], str], *, whole: bool) -> str:
    """Mark a line that belongs to a secret; of a member, `user: bob`, only the value."""
    content = line.strip()
    member = None if whole else _MEMBER.match(line)
    if member:
        content = line[member.end() :].strip()
        # Asked by a name that is secret: what is harmless as its value is so here.
        if member["name"].strip("\"'") in _REFERRING or not is_secret("secret", content):
            return line
    if not content or content == "-":
        return line
    start = line.index(content, member.end() if member else 0)
    return line[:start] + mark(content) + line[start + len(content) :]


def _depth(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())
