"""Shapes: the types of the `schemas.json` of Trainer and JobSet, and which of them an object is."""

from __future__ import annotations

import difflib
import functools
import operator
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from muster.strategies import upstream
from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.runtimes import NEWEST, VERSIONS, Version
from muster.webhook.cluster.readers import Document

__all__ = ["Kind", "Limits", "Shape", "kinds", "known_as", "misnamed"]

_NEAR = 0.8
_LONGEST = 100  # characters of a name that is compared with others
_ORGANISATIONS = re.compile(r"(?:^|\.)(?:kubeflow\.org|(?:x-)?k8s\.io|kubernetes\.io)$")
"""Whose groups have no other kind of these names, under any version."""

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


class Limits(Struct, frozen=True, rename="camel"):
    """Words of JSON Schema about one value."""

    enum: tuple[object, ...] | None = None
    format: str | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    pattern: str | None = None


class _Described(Limits, frozen=True, rename="camel"):
    """A shape as the table has it; a text is the name of another one."""

    type: str = ""
    open: bool = False
    members: str | _Described | None = None
    properties: dict[str, str | _Described] = {}  # msgspec copies it
    items: str | _Described | None = None
    required: tuple[str, ...] = ()
    keys: tuple[tuple[str, object], ...] | None = None


class Shape(Struct):
    """What a value may be.

    Attributes:
        types: of JSON; empty where any value is allowed.
        properties: the members that an object may have; None where any name is allowed.
        members: of an object whose names are free.
        items: of a list.
        required: members without which an object is refused.
        keys: the members that tell entries of a list apart, with their defaults; empty for a list without repetitions;
            None where entries may repeat.
        limits: what is said of the value itself; None where its type is all.
        pattern: that a text must match, from its start to its end.
        is_leaf: whether the type is all that there is to know.
    """

    types: tuple[type, ...] = ()
    properties: dict[str, Shape] | None = None
    members: Shape | None = None
    items: Shape | None = None
    required: tuple[str, ...] = ()
    keys: Mapping[str, object] | None = None
    limits: Limits | None = None
    pattern: re.Pattern[str] | None = None
    is_leaf: bool = False


class Kind(Struct, frozen=True):
    """One kind that the definitions serve.

    Attributes:
        name: such as `TrainJob`.
        group: its API group.
        version: the one that is served.
        shape: of the whole object.
        trainer: the version of Trainer whose definition it is.
    """

    name: str
    group: str
    version: str
    shape: Shape
    trainer: Version = NEWEST

    @property
    def api_version(self) -> str:
        """`trainer.kubeflow.org/v1alpha1`."""
        return f"{self.group}/{self.version}"


class _Facts(Struct, frozen=True):
    group: str
    version: str
    shape: str | _Described


class _Table(Struct, frozen=True):
    kinds: Mapping[str, _Facts]
    shapes: Mapping[str, str | _Described]


@functools.cache
def kinds(trainer: str = NEWEST.name) -> Mapping[str, Kind]:
    """Return the kinds by their names, as a version of Trainer defines them, and JobSet's."""
    version, found = VERSIONS[trainer], {}
    for package, release in (("trainer", version.release.removeprefix("v")), ("jobset", "")):
        table = msgspec.convert(upstream.data(package, "schemas", release), _Table)
        linker = _Linker(table.shapes)
        for name, facts in table.kinds.items():
            found[name] = Kind(name, facts.group, facts.version, linker.link(facts.shape), version)
    return found


_limits = operator.attrgetter(*Limits.__struct_fields__)
_UNLIMITED = _limits(Limits())


class _Linker:
    """Makes shapes of their descriptions; each name becomes one shape."""

    def __init__(self, described: Mapping[str, str | _Described]) -> None:
        self._described = described
        self._made: dict[str, Shape] = {}

    def link(self, described: str | _Described) -> Shape:
        if isinstance(described, _Described):
            return self._make(described)
        if described not in self._made:
            self._made[described] = self.link(self._described[described])
        return self._made[described]

    def _make(self, described: _Described) -> Shape:
        if described.open:
            return Shape()
        made = Shape(_TYPES.get(described.type, (int, str)), required=described.required)
        made.keys = None if described.keys is None else dict(described.keys)
        if described.members is not None:
            made.members = self.link(described.members)
        elif made.types == (dict,):
            made.properties = {name: self.link(each) for name, each in described.properties.items()}
        made.items = None if described.items is None else self.link(described.items)
        if _limits(described) != _UNLIMITED:
            made.limits = described
        if described.pattern is not None:
            made.pattern = re.compile(re.sub(r"\$$", r"\\Z", described.pattern))
        made.is_leaf = made.limits is None and dict not in made.types and list not in made.types
        return made


def known_as(document: Document, trainer: Version = NEWEST) -> Kind | None:
    """Return the kind that an object is, or is meant to be: other spelling, other version, a group that is gone.

    Args:
        document: an object whose `apiVersion` and `kind` are texts.
        trainer: the version in force.
    """
    return _meant(document["apiVersion"].rpartition("/")[0], document["kind"].lower(), trainer.name)


@functools.lru_cache(maxsize=256)
def _meant(group: str, name: str, trainer: str) -> Kind | None:
    every = _kinds(trainer)
    called = re.sub(r"[-_ ]", "", name[:_LONGEST])
    found = every.get(called) or every.get(called.removesuffix("s"))
    if found is not None:
        return found if _is_near(group, every) else None
    mine = [each for each, kind in every.items() if kind.group == group]
    near = difflib.get_close_matches(name[:_LONGEST], mine, 1, _NEAR)
    return every[near[0]] if near else None


def misnamed(document: Document, kind: Kind) -> list[Finding]:
    """Return an error for an `apiVersion` and for a `kind` that the API server does not know."""
    found = []
    if document["apiVersion"] != kind.api_version:
        message = f"does not exist; a {kind.name} is of {kind.api_version}"
        found.append(error("apiVersion", document["apiVersion"], message, rule="core/api-version"))
    if document["kind"] != kind.name:
        message = f"is not a kind of {kind.group}; did you mean {kind.name}?"
        found.append(error("kind", document["kind"], message, rule="core/api-version"))
    return found


@functools.cache
def _kinds(trainer: str) -> Mapping[str, Kind]:
    return {name.lower(): kind for name, kind in kinds(trainer).items()}


def _is_near(group: str, every: Mapping[str, Kind]) -> bool:
    """Whether only a mistake gives this group to a kind of Trainer or JobSet: it is theirs, or misspelt, or built in.

    A group without a dot is one that Kubernetes has built in, for a CustomResourceDefinition needs one.
    """
    if "." not in group or _ORGANISATIONS.search(group):
        return True
    wanted = {kind.group for kind in every.values()} | {"kubeflow.org"}
    return any(difflib.SequenceMatcher(None, group[:_LONGEST], each).ratio() >= _NEAR for each in wanted)
