"""Walks a JSON value and replaces the secrets in it, copying only the branches that change.

Secrets are in Kubernetes documents in a few shapes: an entry `{name, value}`, a map with a secret key, an argument list
in which the value of a flag is the next item, and documents that are serialised in a string. The walk knows these
shapes. It remembers what it replaced, because a text may repeat the same secret without any hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import orjson

from webhook.audit.redaction import texts

__all__ = ["Walk", "names_from_secrets", "replaced"]

# Shorter secrets would also be found in unrelated words.
_SHORTEST_ECHO = 8

# Keys whose name says "secret" but whose value only says which one.
_REFERENCES = frozenset({"automountServiceAccountToken", "imagePullSecrets", "serviceAccountToken"})
_REFERENCE_ENDS = ("Ref", "Refs", "ecretName")
_SECRET_VOLUME = frozenset({"defaultMode", "items", "name", "optional", "secretName"})


class Walk:
    """One walk over the parts of a record: `judge` decides about names, `formats` finds additional secret values."""

    def __init__(self, judge: texts.Judge, formats: re.Pattern[str] | None = None) -> None:
        self.judge = judge
        self._formats = formats
        self._found: set[str] = set()

    @property
    def echoes(self) -> list[str]:
        """Return the secrets found so far, also in escaped form, the longest first."""
        long = [secret for secret in self._found if len(secret) >= _SHORTEST_ECHO and secret not in texts.MARK]
        forms = {form for secret in long for form in (secret, repr(secret)[1:-1], orjson.dumps(secret)[1:-1].decode())}
        return sorted(forms, key=len, reverse=True)

    def value(self, value: object) -> object:
        """Return any JSON value without its secrets; the very same object when it has none."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self.mapping(value)
        if isinstance(value, list):
            return self._sequence(value)
        return value

    def text(self, text: str) -> str:
        """Return a string without its secrets; one that is a JSON document is walked."""
        if text[:1] in {"{", "["}:
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
        result = {self.text(key): self._member(key, item) for key, item in value.items()}
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

    def _sequence(self, items: list[object]) -> list[object]:
        result: list[object] = []
        after_flag = False
        for item in items:
            hidden = after_flag and isinstance(item, str) and not item.startswith("--")
            result.append(self.conceal(item) if hidden else self.value(item))
            after_flag = self.is_flag(item)
        return items if all(new is old for new, old in zip(result, items, strict=True)) else result

    def _member(self, key: str, item: object) -> object:
        if self.judge(key) and not _is_reference(key, item):
            return self.conceal(item)
        return self.value(item)

    def _is_secret_entry(self, entry: dict[str, object]) -> bool:
        label = entry.get("name", entry.get("key"))
        return isinstance(label, str) and self.judge(label)

    def _mark(self, match: re.Match[str]) -> str:
        self._found.add(match.group())
        return texts.MARK


def names_from_secrets(value: object) -> Iterator[str]:
    """Yield the names of environment entries in `value` that come from a Secret (`valueFrom.secretKeyRef`)."""
    if isinstance(value, dict):
        source, name = value.get("valueFrom"), value.get("name")
        if isinstance(source, dict) and "secretKeyRef" in source and isinstance(name, str):
            yield name
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from names_from_secrets(item)


def replaced(value: object, secrets: Sequence[str]) -> object:
    """Replace each of `secrets` by the mark in all strings of `value`."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, texts.MARK)
        return value
    if isinstance(value, dict):
        return {key: replaced(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, secrets) for item in value]
    return value


def _is_reference(key: str, item: object) -> bool:
    if key == "secret":
        return isinstance(item, dict) and item.keys() <= _SECRET_VOLUME
    return key in _REFERENCES or key.endswith(_REFERENCE_ENDS)


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str | int | float):
        yield str(value)


def _document(text: str) -> object:
    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return document
