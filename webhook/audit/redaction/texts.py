"""Finds secrets inside one string: known token formats, URLs, assignments, flags, configuration text.

A secret may be part of a shell line, a clone URL, a header, or an error message that quotes its input. Each rule
replaces the secret part of a text by the mark and reports it, so that the caller can look for the same secret
elsewhere. The time of all patterns is linear in the length of the text, because the text comes from users.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import TypeAlias

from webhook.audit.redaction import secret_names

__all__ = ["FORMAT_HINTS", "MARK", "Judge", "is_harmless", "scrub"]

MARK = "<redacted>"
"""The mark that replaces a secret in the log."""

FORMAT_HINTS = (
    "hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-",
    "akia", "asia", "aiza", "eyj", "xox", "nvapi-", "bearer ", "private key-",
)  # fmt: skip
"""Lower-case pieces, one of which is in every text that holds a known token format (user:password@ in URLs apart)."""

Judge: TypeAlias = Callable[[str], bool]

_FORMATS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<![A-Za-z0-9])(?:"
    r"(?:hf_|gh[opusr]_)[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}"
    r"|sk-(?=[A-Za-z_-]{0,60}\d)[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|AIza[\w-]{35}|A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9]))"
    r"|(?<![\w-])eyJ[\w-]{4,}\.[\w-]{4,}\.[\w-]*"
    r"|(?<=[Bb]earer )[\w.~+/=-]{8,}",
    re.ASCII,
)
_USERINFO = re.compile(r"(?<=://)[^/?#\s\"']+(?=@)")

# One shell word: quoted parts, escapes and plain characters; an unclosed quote runs to the end of the text.
_WORD = r"""(?:"(?:[^"\\]|\\[\s\S])*"|'[^']*'|\\[\s\S]|[^\s"'\\;&|]|["'\\][\s\S]*)+"""
_NAME = r"(?<![\w.-])-{0,2}[A-Za-z_.][\w.-]*"
# `NAME=value`; when the whole assignment is quoted, up to the closing quote.
_ASSIGNMENT = re.compile(
    rf"(?:(?P<double>\")|(?P<single>'))?(?P<name>{_NAME})="
    rf"(?P<value>(?(double)(?:[^\"\\]|\\[\s\S])+|(?(single)[^']+|{_WORD})))",
    re.ASCII,
)
# `'token': 'value'` and `environ["TOKEN"] = "value"`: how programs print their variables.
_ITEM = re.compile(rf"[\"'](?P<name>{_NAME})[\"']\]?\s*[:=]\s*(?P<value>{_WORD})", re.ASCII)
_FLAG = re.compile(rf"(?P<name>(?<![\w.-])--?[A-Za-z][\w.-]*)(?:\s+)(?!--)(?P<value>{_WORD})", re.ASCII)
_HEADER = re.compile(r"(?im)(?P<name>\b(?:proxy-)?authorization)(?:[\"']?\s*[:=]\s*[\"']?)(?P<value>[^\r\n\"']+)")
_YAML = re.compile(r"(?m)(?P<name>^[ \t]*(?:- +)?[\"']?[\w.-]+[\"']?)(?::[ \t]+)(?P<value>\S.*)$", re.ASCII)
_YAML_ENTRY = re.compile(r"(?P<name>\bname:[ \t]*[\w.\"'-]+)(?:[ \t]*\r?\n[ \t]*value:[ \t]*)(?P<value>\S.*)", re.ASCII)

# Each with a piece of lower-case text that every match contains; searching for that is cheaper.
_NAMED = (
    ("authorization", _HEADER),
    ("name:", _YAML_ENTRY),
    (":", _YAML),
    ('"', _ITEM),
    ("'", _ITEM),
    ("=", _ASSIGNMENT),
    ("-", _FLAG),
)

_SEPARATORS = frozenset("=: \t\r\n\f\v")
_SHORTEST_FORMAT = 12
_SWITCHES = frozenset({"", "true", "false", "none", "null"})
_REFERENCE = re.compile(r"[\"']?\$(?:\([A-Za-z_]\w*\)|\{[A-Za-z_]\w*\}|(?P<bare>[A-Z_][A-Z0-9_]*))[\"']?", re.ASCII)


def scrub(text: str, judge: Judge = secret_names.is_secret, found: set[str] | None = None) -> str:
    """Replace each secret in `text` by the mark; `judge` decides about names, `found` collects what was replaced."""
    found = set() if found is None else found
    if _SEPARATORS.isdisjoint(text):
        return _unformatted(text, text.lower(), found)
    whole = _whole_assignment(text, judge, found)
    if whole is not None:
        return whole
    low = text.lower()
    if "://" in low and "@" in low:
        text = _USERINFO.sub(lambda match: _mark(match.group(), found, ":"), text)
    if any(hint in low for hint in secret_names.HINTS) or judge is not secret_names.is_secret:
        text = _named(text, low, judge, found)
    return _unformatted(text, low, found)


def is_harmless(value: str) -> bool:
    """Whether `value` is not a secret: a switch (`true`), or a variable by its name (`$(HF_TOKEN)`, `$HF_TOKEN`)."""
    if value.lower() in _SWITCHES:
        return True
    match = _REFERENCE.fullmatch(value)
    return match is not None and (match["bare"] is None or secret_names.is_secret(match["bare"]))


def _unformatted(text: str, low: str, found: set[str]) -> str:
    if len(text) < _SHORTEST_FORMAT or not any(hint in low for hint in FORMAT_HINTS):
        return text
    return _FORMATS.sub(lambda match: _mark(match.group(), found), text)


def _named(text: str, low: str, judge: Judge, found: set[str]) -> str:
    def replace(match: re.Match[str]) -> str:
        name, value = match["name"].removeprefix("name:").strip("\"' \t-"), match["value"]
        if value.strip("\"'") == MARK or is_harmless(value) or not judge(name):
            return match.group()
        return match.group()[: match.start("value") - match.start()] + _mark(value, found)

    for piece, pattern in _NAMED:
        if piece in low:
            text = pattern.sub(replace, text)
    return text


def _whole_assignment(text: str, judge: Judge, found: set[str]) -> str | None:
    """Treat an argument `--name=value` or `NAME=value` as one: its value may hold any character."""
    name, equals, value = text.partition("=")
    if not (equals and value and name) or any(character.isspace() for character in name):
        return None
    if not name.startswith("-") and any(character.isspace() for character in value):
        return None
    if is_harmless(value) or not judge(name):
        return None
    return f"{name}={_mark(value, found)}"


def _mark(value: str, found: set[str], separator: str = "\0") -> str:
    if value != MARK:
        found.update((value, value.strip("\"'"), _unquoted(value), *value.split(separator)))
    return MARK


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:  # a quote is open: the word runs to the end of the text
        return word
