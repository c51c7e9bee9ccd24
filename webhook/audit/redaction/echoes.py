"""Replaces secrets that were found in one place wherever a text repeats them.

The time is linear in the texts. A few secrets are replaced one after another, which runs in C. Many are found by their
first characters, so that thousands of secrets cost no more than thousands of texts.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable

import orjson

from muster.webhook.audit.redaction import texts

__all__ = ["Echoes"]

# Shorter secrets would also be found in unrelated words.
_SHORTEST = 8
_FEW = 32
# Of secrets with the same beginning, so many are compared; beyond that the longest is assumed, which hides more.
_COMPARED = 4
# So much of the beginning of a long secret decides, which bounds the time of a comparison.
_TOLD = 256
_LINES = re.compile(r"[\r\n]+")
# Where a text was cut, the beginning of a secret may be left; so much of it is hidden, and so far it is looked for.
_CUT = re.compile(r"…|\.\.\.")
_LEAST = 4
_BACK = 2048


class Echoes:
    """The secrets of one record or document, also in escaped forms and, where one has lines, line by line."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret) if _counts(form)}
        self._needles = sorted(forms, key=lambda form: (-len(form), form))
        self._starts = _by_start(self._needles) if len(self._needles) > _FEW else {}
        self._sorted = sorted(self._needles)
        self._begun = {needle[:_LEAST] for needle in self._needles}

    def __bool__(self) -> bool:
        return bool(self._needles)

    def text(self, text: str) -> str:
        """Return `text` with the mark in place of each secret; the very same object when it has none."""
        if self._starts:
            text = self._indexed(text)
        else:
            for needle in self._needles:
                if needle in text:
                    text = text.replace(needle, texts.MARK)
        return self._uncut(text) if self._begun and ("…" in text or "..." in text) else text

    def value(self, value: object) -> object:
        """Return any JSON value with the mark in place of each secret, in keys too; it is not nested deeply."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return self.number(value)

    def number(self, value: object) -> object:
        """Return a number, or the mark when its digits are a secret."""
        if isinstance(value, int | float) and not isinstance(value, bool) and self.text(str(value)) == texts.MARK:
            return texts.MARK
        return value

    def _uncut(self, text: str) -> str:
        """Hide the beginnings of secrets before the places where something was left out."""
        pieces, done, place = [], 0, 0
        for match in _CUT.finditer(text):
            start = self._begins(text, max(place, match.start() - _BACK), match.start())
            place = match.end()
            if start is not None:
                pieces += [text[done:start], texts.MARK]
                done = match.start()
        return "".join([*pieces, text[done:]]) if pieces else text

    def _begins(self, text: str, first: int, end: int) -> int | None:
        """Return where the beginning of a secret begins that reaches to `end`."""
        for start in range(first, end - _LEAST + 1):
            if text[start : start + _LEAST] in self._begun:
                piece = text[start:end]
                place = bisect.bisect_left(self._sorted, piece)
                if place < len(self._sorted) and self._sorted[place].startswith(piece):
                    return start
        return None

    def _indexed(self, text: str) -> str:
        pieces, done, place, last = [], 0, 0, len(text) - _SHORTEST
        starts = self._starts
        while place <= last:
            candidates = starts.get(text[place : place + _SHORTEST])
            length = _fitting(text, place, candidates) if candidates else 0
            if length:
                pieces += [text[done:place], texts.MARK]
                done = place = place + length
            else:
                place += 1
        return "".join([*pieces, text[done:]]) if pieces else text


def _fitting(text: str, place: int, candidates: list[str]) -> int:
    """Return the length of the longest candidate there; of many with one beginning, that of the longest of all."""
    if len(candidates) > _COMPARED:
        return len(candidates[0])
    return next((len(each) for each in candidates if text.startswith(each[:_TOLD], place)), 0)


def _by_start(needles: list[str]) -> dict[str, list[str]]:
    starts: dict[str, list[str]] = {}
    for needle in needles:
        starts.setdefault(needle[:_SHORTEST], []).append(needle)
    return starts


def _forms(secret: str) -> Iterable[str]:
    """Yield a secret as it is, as programs print it, and each of its lines."""
    yield secret
    if not secret.isprintable() or "\\" in secret or '"' in secret or not secret.isascii():
        yield repr(secret)[1:-1]
        yield orjson.dumps(secret.encode("utf-8", "replace").decode())[1:-1].decode()
    if "\n" in secret:
        yield from _LINES.split(secret)
    stripped = secret.strip()
    if stripped != secret:
        yield stripped


def _counts(form: str) -> bool:
    return len(form) >= _SHORTEST and form not in texts.MARK and not _is_rule(form)


def _is_rule(form: str) -> bool:
    """Whether it is one character again and again, as the lines around a heading are."""
    return len(set(itertools.islice(form, 64))) == 1 and len(set(form)) == 1
