"""The budget: how large a document may be before Muster reads it.

Whoever may create a job writes the documents that Muster walks, parses and quotes, while everybody's jobs wait for the
same process. So a document is measured first, in one pass that stops at the first limit, and a document beyond it is
never walked. The limits are far above what jobs have: an object of etcd's largest size (1.5 MiB) with real content is
within them. They bound the whole object, not each list of it, because costs add up.

Three parts are not measured because nothing reads them: `metadata.managedFields`, the `status`, and the text of
annotations of other tools.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import orjson
from msgspec import Struct, structs

from muster.strategies.documents import findings
from muster.strategies.documents.findings import Finding

__all__ = ["Budget", "Extent", "check", "extent"]

_OWN = "muster.dev/"
_LISTS = {
    "replicatedJobs": "replicatedJobs",
    **dict.fromkeys(("containers", "initContainers"), "containers"),
    **dict.fromkeys(("env", "envFrom"), "variables"),
    **dict.fromkeys(("resourceClaims", "claims"), "claims"),
    **dict.fromkeys(("command", "args"), "words"),
}
_SHORT_STEP, _SHORT_FIELD = 63, 300
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_WIDER = 2

_TOLD = {
    "nesting": "is nested deeper than Muster reads; nest it at most {limit} levels deep",
    "values": "is where the object gets more values than Muster reads; give it at most {limit}",
    "entries": "is the number of entries, more than Muster reads; give a list or an object at most {limit}",
    "replicatedJobs": "replicated jobs are more than Muster reads; give one object at most {limit}",
    "containers": "containers are more than Muster reads; give one object at most {limit}",
    "variables": "environment variables are more than Muster reads; give the containers of one object at most {limit}",
    "claims": "claims of pods and containers are more than Muster reads; give one object at most {limit}",
    "words": "words of commands and arguments are more than Muster reads; give one object at most {limit}",
    "text": "characters of text are more than Muster reads; give one object at most {limit}, and mount longer texts",
    "name": "is the length of a name, more than Muster reads; use at most {limit} characters",
    "number": "is the number of bits, more than a number may have; use at most {limit}",
}


class Budget(Struct, frozen=True, dict=True):
    """The limits of one document.

    Attributes:
        nesting: levels of objects and lists.
        values: members and entries of all objects and lists together.
        entries: members or entries of any one object or list.
        replicated_jobs: entries of `replicatedJobs`.
        containers: containers and init containers of all pods together.
        variables: entries of `env` and `envFrom` of all containers together.
        claims: entries of `resourceClaims` of all pods and of `resources.claims` of all containers together.
        words: words of `command` and `args` of all containers together.
        text: characters of all strings together.
        name: characters of a member's name, or of a string called `name`.
    """

    nesting: int = 128
    values: int = 100_000
    entries: int = 5_000
    replicated_jobs: int = 500
    containers: int = 2_000
    variables: int = 20_000
    claims: int = 2_000
    words: int = 20_000
    text: int = 1024 * 1024
    name: int = 8192

    @cached_property
    def wide(self) -> Budget:
        """The budget of what has passed this one and has grown since then by what webhooks added to it."""
        return Budget(**{name: getattr(self, name) * _WIDER for name in self.__struct_fields__})

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """The limits by their keys in the configuration."""
        own = structs.asdict(self)
        return {**own, "replicatedJobs": self.replicated_jobs, "number": 64}

    @cached_property
    def small(self) -> Extent:
        """The extent up to which a document cannot be beyond any limit."""
        lists = min(self.entries, *(self.limits[key] for key in _LISTS.values()))
        return Extent(min(self.text, self.name), lists, min(self.entries, self.values), self.nesting)


class Extent(NamedTuple):
    """What bounds the documents of a text of JSON.

    Attributes:
        length: bytes.
        entries: no list in it has more.
        values: no fewer than the members and entries of all its objects and lists together.
        levels: no fewer than those of objects and lists.
    """

    length: int
    entries: int
    values: int
    levels: int

    def fits(self, budget: Budget) -> bool:
        """Whether a walk through such a document cannot find anything."""
        return all(map(operator.le, self, budget.small))

    def beside(self, other: Extent) -> Extent:
        """Return what bounds documents that are made of two texts."""
        return Extent(*map(operator.add, self, other))


def extent(text: bytes, levels: int | None = None) -> Extent:
    """Measure a text by its brackets and commas, those in strings included.

    Args:
        text: the text.
        levels: how deep it nests at most; None where nobody has looked.
    """
    lists, commas = text.count(b"["), text.count(b",")
    held = lists + text.count(b"{")
    return Extent(len(text), lists + commas, held + commas, held if levels is None else levels)


def check(document: Mapping[str, Any], budget: Budget) -> Finding | None:
    """Return an error for the first limit that a document is beyond, None when it is within its budget.

    Args:
        document: any JSON object; it need not have the shape of its kind.
        budget: the limits.
    """
    try:
        if extent(orjson.dumps(_measured(document))).fits(budget):
            return None
    except TypeError:  # deeper than any JSON, a number of more than 64 bits, half a character
        pass
    walk = _Walk(budget)
    try:
        walk.through(document)
    except _BeyondError as beyond:
        found, key = beyond.found, beyond.key
        message = _TOLD[key].format(limit=budget.limits[key])
        if key != "number":
            message += f" (budget.{key} of Muster's configuration)"
        return findings.error(walk.field(beyond), found, message, rule="core/budget")
    return None


def _measured(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        metadata = {**metadata, "managedFields": None}
    return {**document, "metadata": metadata, "status": None}


class _BeyondError(Exception):
    """A limit is passed at a step of the holder that the walk has reached."""

    def __init__(self, key: str, found: int, step: str | int | None = None) -> None:
        super().__init__(key)
        self.key = key
        self.found = found
        self.step = step


class _Walk:
    """One pass through a document, level by level, which stops at the first limit.

    Args:
        budget: the limits.
    """

    def __init__(self, budget: Budget) -> None:
        self._limits = budget.limits
        self._counts = dict.fromkeys(self._limits, 0)
        self._holders: list[tuple[Any, int, str | int, int]] = []  # each with its parent's position, step and level
        self._position = 0

    def through(self, document: Mapping[str, Any]) -> None:
        """Measure a document.

        Raises:
            _BeyondError: at the first limit.
        """
        values, text, limits = 0, 0, self._limits
        self._holders.append((_measured(document), -1, "", 1))
        for position, (holder, _, step, level) in enumerate(self._holders):  # grows on the way
            self._position = position
            size = len(holder)
            values += size
            if level > limits["nesting"]:
                raise _BeyondError("nesting", level)
            if size > limits["entries"]:
                raise _BeyondError("entries", size)
            if values > limits["values"]:
                raise _BeyondError("values", values)
            if isinstance(holder, dict):
                _check_names(holder, limits["name"])
                text += self._members(holder.items(), level + 1)
                if step == "annotations":
                    text -= _length_of_others(holder)
            else:
                self._count(step, size)
                text += self._members(enumerate(holder), level + 1)
            if text > limits["text"]:
                raise _BeyondError("text", text)

    def field(self, beyond: _BeyondError) -> str:
        """Return where the walk stopped; entries of lists go by their index, since naming them takes longer."""
        steps = [] if beyond.step is None else [beyond.step]
        position = self._position
        while position > 0:
            _, position, step, _ = self._holders[position]
            steps.insert(0, step)
        told = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:_SHORT_STEP]}" for step in steps)
        return told.removeprefix(".")[:_SHORT_FIELD] or "the object"

    def _count(self, step: str | int, size: int) -> None:
        if step in _LISTS:
            key = _LISTS[str(step)]
            self._counts[key] += size
            if self._counts[key] > self._limits[key]:
                raise _BeyondError(key, self._counts[key])

    def _members(self, members: Iterable[tuple[str | int, Any]], level: int) -> int:
        """Note the holders among the members of one, and return the characters of its strings."""
        text = 0
        for step, value in members:
            kind = type(value)
            if kind is str:
                text += len(value)
            elif kind is dict or kind is list:
                self._holders.append((value, self._position, step, level))
            elif kind is int and not _SMALLEST <= value <= _LARGEST:
                raise _BeyondError("number", value.bit_length(), step)
        return text


def _check_names(holder: Mapping[str, Any], longest: int) -> None:
    """Raise for a member whose name is too long, or a `name` that is."""
    if holder and max(map(len, holder)) > longest:
        key = next(key for key in holder if len(key) > longest)
        raise _BeyondError("name", len(key), key)
    named = holder.get("name")
    if isinstance(named, str) and len(named) > longest:
        raise _BeyondError("name", len(named), "name")


def _length_of_others(annotations: Mapping[str, Any] | list[Any]) -> int:
    """Return the characters of annotations of other tools, which nothing reads."""
    if not isinstance(annotations, dict):
        return 0
    return sum(len(text) for key, text in annotations.items() if isinstance(text, str) and not key.startswith(_OWN))
