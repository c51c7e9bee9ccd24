"""Walks a JSON value and replaces the secrets in it, copying only the branches that change.

Secrets are in Kubernetes documents in a few shapes: an entry `{name, value}`, a map with a secret key, an argument list
in which the value of a flag is the next item, and documents that are serialised in a string. The walk knows these
shapes. It remembers what it replaced, because a text may repeat the same secret without any hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import orjson

from muster.webhook.audit.redaction import commands, texts
from muster.webhook.audit.redaction.echoes import Echoes

__all__ = ["TooMuchError", "Walk", "names_from_secrets"]

_SECRET_VOLUME = frozenset({"defaultMode", "items", "name", "optional", "secretName"})
_SECRET_DATA = ("data", "stringData")
# Deeper values, also of documents in texts of documents, are concealed as a whole: no manifest nests like this.
_DEEPEST = 48
_SHORTEST_KEY = 5
# A value in quotes, or a word.
_QUOTES = re.compile(r"(?<!\w)'[^']{0,512}'|(?<!\w)\"[^\"]{0,512}\"|\S+")


class TooMuchError(ValueError):
    """There are more different texts than the walk may read."""


class Walk:
    """One walk over the parts of a record.

    Args:
        judge: decides about names.
        formats: finds additional secret values.
        most: characters of different texts that it may read; None for any number.
    """

    def __init__(self, judge: texts.Judge, formats: re.Pattern[str] | None = None, most: int | None = None) -> None:
        self.judge = judge
        self._formats = formats
        self._room = most
        self._read: dict[str, str] = {}
        self._found: set[str] = set()
        self._echoes: tuple[int, Echoes] = (0, Echoes(()))
        self._level = 0

    @property
    def echoes(self) -> Echoes:
        """Return the secrets found so far, in which nothing is ever forgotten."""
        if self._echoes[0] != len(self._found):
            self._echoes = (len(self._found), Echoes(self._found))
        return self._echoes[1]

    def unlimited(self) -> Walk:
        """Let the walk read any number of characters from now on; return it."""
        self._room = None
        return self

    def by_name(self, value: object) -> None:
        """Find the secrets that a key, an entry's name or a flag before them tells, without reading any text."""
        waiting = [(value, 0)]
        while waiting:
            each, level = waiting.pop()
            if not isinstance(each, dict | list):
                continue
            if level == _DEEPEST:
                self.conceal(each)
                continue
            found = self._named(each) if isinstance(each, dict) else self._arguments(each)
            waiting += [(item, level + 1) for item in found if isinstance(item, dict | list)]

    def _named(self, value: dict[str, object]) -> Iterator[object]:
        """Note what is secret in a mapping, and yield the other values, of `args` with their command."""
        entry = "value" in value and self._is_secret_entry(value)
        data = _SECRET_DATA if value.get("kind") == "Secret" else ()
        for key, item in value.items():
            if (entry and key == "value") or key in data or (self.judge(key) and not _is_reference(key, item)):
                self.conceal(item)
            elif key == "args" and isinstance(item, list):
                yield from self._arguments(item, value.get("command"))
            else:
                yield item

    def _arguments(self, items: list[object], command: object = None) -> Iterator[object]:
        """Note what is secret in a list that may be arguments, and yield the others."""
        if not any(isinstance(item, str) for item in items):
            yield from items
            return
        starts = self._starts(items, command)
        for index, item in enumerate(items):
            if index in starts:
                self.conceal(cast("str", item)[starts[index] :])
            else:
                yield item

    def value(self, value: object) -> object:
        """Return any JSON value without its secrets; the very same object when it has none."""
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        if self._level == _DEEPEST:
            return self.conceal(value)
        self._level += 1
        try:
            return self.mapping(value) if isinstance(value, dict) else self._sequence(value)
        finally:
            self._level -= 1

    def text(self, text: str) -> str:
        """Return a string without its secrets; one that is a JSON document is walked.

        Raises:
            TooMuchError: with it, the walk has read more than it may.
        """
        known = self._read.get(text)
        if known is None:
            known = self._read[text] = self._unread(text)
        return text if known == text else known

    def sentence(self, sentence: str) -> str:
        """Return a sentence of Muster without the secrets that it quotes.

        Each value stands in it as one word, or in quotes. A name of one value says nothing about the words around it,
        which are Muster's own, unless they look like a key, or are a secret that was found where it was written.
        """
        hidden: set[str] = set()
        whole = texts.scrub(sentence, self.judge, hidden)
        if self._formats or any(map(_holds_key, hidden)) or not self._found.isdisjoint(hidden):
            return self.text(sentence)
        return sentence if whole == sentence else _QUOTES.sub(lambda match: self.text(match.group()), sentence)

    def _unread(self, text: str) -> str:
        if self._room is not None:
            self._room -= len(text)
            if self._room < 0:
                raise TooMuchError("the texts are longer than the walk may read")
        if text.lstrip()[:1] in {"{", "["}:
            document = _document(text)
            if document is not None:
                inner = self.value(document)
                return text if inner is document else orjson.dumps(inner).decode()
        text = texts.scrub(text, self.judge, self._found)
        return self._formats.sub(self._mark, text) if self._formats else text

    def mapping(self, value: dict[str, object]) -> dict[str, object]:
        """Return a mapping without its secrets, by key and, for an entry `{name, value}`, by name."""
        if "value" in value and self._is_secret_entry(value):
            value = {**value, "value": self.conceal(value["value"])}
        if value.get("kind") == "Secret":
            value = {**value, **{key: self.conceal(value[key]) for key in _SECRET_DATA if key in value}}
        result = {self.text(key): self._member(key, item, value) for key, item in value.items()}
        same = result.keys() == value.keys() and all(result[key] is value[key] for key in value)
        return value if same else result

    def conceal(self, value: object) -> object:
        """Replace a value that is secret as a whole; null, switches and references to variables are kept."""
        if value is None or isinstance(value, bool) or (isinstance(value, str) and texts.is_harmless(value)):
            return value
        self._found.update(_leaves(value))
        return texts.MARK

    def conceal_entry(self, value: object) -> object:
        """Replace the value of an entry `{name, value}`, or a bare value; other structures are walked."""
        if isinstance(value, dict) and "value" in value:
            return self.mapping({**value, "value": self.conceal(value["value"])})
        return self.value(value) if isinstance(value, dict | list) else self.conceal(value)

    def is_flag(self, item: object) -> bool:
        """Whether an argument is a flag whose value, the next argument, is secret."""
        return isinstance(item, str) and item.startswith("-") and "=" not in item and self.judge(item)

    def _sequence(self, items: list[object], command: object = None) -> list[object]:
        """Conceal a list that may be arguments; their program, and the flag before the first, may be in `command`."""
        starts = self._starts(items, command)
        result = [
            self._from(cast("str", item), starts[index]) if index in starts else self.value(item)
            for index, item in enumerate(items)
        ]
        return items if all(new is old for new, old in zip(result, items, strict=True)) else result

    def _starts(self, items: list[object], command: object) -> dict[int, int]:
        """Return the first secret character of each argument that has one."""
        before = command if isinstance(command, list) else []
        words = [item if isinstance(item, str) else "" for item in (*before, *items)]
        return {index - len(before): start for index, start in commands.parts(words, self.judge)}

    def _from(self, argument: str, start: int) -> object:
        """Conceal an argument from the secret's first character on."""
        secret = argument[start:]
        concealed = self.conceal(secret)
        return argument if concealed is secret or secret == texts.MARK else f"{argument[:start]}{concealed}"

    def _member(self, key: str, item: object, holder: dict[str, object]) -> object:
        if self.judge(key) and not _is_reference(key, item):
            return self.conceal(item)
        if key == "args" and isinstance(item, list) and self._level < _DEEPEST:
            return self._sequence(item, holder.get("command"))
        return self.value(item)

    def _is_secret_entry(self, entry: dict[str, object]) -> bool:
        label = entry.get("name", entry.get("key"))
        return isinstance(label, str) and self.judge(label)

    def _mark(self, match: re.Match[str]) -> str:
        self._found.add(match.group())
        return texts.MARK


def _holds_key(text: str) -> bool:
    """Whether a text has a word with letters and digits, as hardly a word of a sentence is."""
    words = (word for word in text.split() if len(word) >= _SHORTEST_KEY)
    return any(any(map(str.isdigit, word)) and any(map(str.isalpha, word)) for word in words)


def names_from_secrets(value: object) -> Iterator[str]:
    """Yield the names of environment entries in `value` that come from a Secret (`valueFrom.secretKeyRef`)."""
    for each in _branches(value):
        source, name = each.get("valueFrom"), each.get("name")
        if isinstance(source, dict) and "secretKeyRef" in source and isinstance(name, str):
            yield name


def _branches(value: object) -> Iterator[dict[str, object]]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _is_reference(key: str, item: object) -> bool:
    if key == "secret":
        return isinstance(item, dict) and item.keys() <= _SECRET_VOLUME
    return texts.names_only(key)


def _leaves(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
        elif isinstance(each, str | int | float):
            yield str(each)


def _document(text: str) -> object:
    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return document
