"""The page docs/reference/configuration.md: every key of the configuration file, from its models."""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pydantic
import yaml

from muster.strategies.platform.placements import Role
from muster.strategies.platform.profiles import Profile
from muster.webhook.admission import budgets
from muster.webhook.configs import config_file, profile_settings, role_settings, sections
from muster.webhook.configs.sections import Model
from tools.site import tables

__all__ = ["Key", "Section", "page", "sections_of"]

_INTRODUCTION = """\
# Every key of the configuration file

`muster serve --config FILE` reads one YAML file. How it is read, the modes, and what takes effect without a restart are
in [operate](../operate.md#configuration). Every key is optional unless it is marked as required; an unknown key or a
value that is not allowed is an error that names its path. Times are in seconds and sizes in bytes.

This page is written by `make reference` from the models of `webhook/configs`.
"""
_OWNERS: Mapping[type[Model], type] = {
    profile_settings.ProfileSettings: Profile,
    role_settings.RoleSettings: Role,
    sections.Budget: budgets.Budget,
}
"""Where the members of a section are described, if not in its own docstring."""
_PLACEHOLDERS = {"frameworks": "FRAMEWORK", "profiles": "PROFILE", "roles": "ROLE"}
_PAGE = re.compile(r"docs/((?:reference/|internals/)?[\w-]+)\.md")
_ENTRY = re.compile(r"^    (\w+): ")
_LIMITS = {
    "ge": "at least",
    "gt": "more than",
    "le": "at most",
    "lt": "less than",
    "max_length": "at most",
    "min_length": "at least",
}
_WORDS = {str: "text", int: "number", float: "number", bool: "`true` or `false`", Path: "path", Any: "any value"}


@dataclass(frozen=True)
class Key:
    """A key of the file.

    Attributes:
        path: from the root of the file, with capitals for a name that the author chooses.
        values: which values it takes.
        default: its default as YAML, "" for none.
        told: what it means, "" where nothing says so.
        required: whether its section needs it.
    """

    path: str
    values: str
    default: str
    told: str
    required: bool


@dataclass(frozen=True)
class Section:
    """A mapping of the file: its path, "" for the root; what it is for, and its keys."""

    path: str
    told: str
    keys: tuple[Key, ...]


def sections_of(model: type[Model] = config_file.Config, path: str = "") -> Iterator[Section]:
    """Yield a section and those inside of it, in the order of the models."""
    own: list[Key] = []
    inner: list[tuple[type[Model], str]] = []
    for name, field in model.model_fields.items():
        key = f"{path}{field.alias}"
        values = _values(field.annotation, field.metadata, key)
        own.append(Key(key, values, _default(field), _told(model, name), field.is_required()))
        inner += _models(field.annotation, key)
    yield Section(path.rstrip("."), inspect.getdoc(model).partition("\n")[0], tuple(own))  # type: ignore[union-attr]  # each has one
    for below, place in inner:
        yield from sections_of(below, f"{place}.")


def page() -> str:
    """Return the page, as Markdown."""
    return _INTRODUCTION + "".join(map(_section, sections_of()))


def _section(section: Section) -> str:
    rows = [(f"`{key.path}`", key.values, _shown(key), key.told) for key in section.keys]
    heading = f"`{section.path}`" if section.path else "The file"
    return f"\n## {heading}\n\n{section.told}\n\n{tables.table(('key', 'values', 'default', 'meaning'), rows)}"


def _shown(key: Key) -> str:
    return "**required**" if key.required else key.default and f"`{key.default}`"


def _told(model: type[Model], name: str) -> str:
    for described in (*model.__mro__, _OWNERS.get(model)):
        found = _attributes(described).get(name) if described else None
        if found:
            return _PAGE.sub(r"[\1](../\1.md)", re.sub(r"\bNone\b", "`null`", found)).removesuffix(".")
    return ""


def _attributes(described: type) -> dict[str, str]:
    """Return what a docstring of Google's style says about each attribute."""
    _, _, text = (inspect.getdoc(described) or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        name = entry[1] if entry else name
        found[name] = f"{found.get(name, '')} {line[entry.end() :] if entry else line.strip()}".strip()
    return found


def _default(field: pydantic.fields.FieldInfo) -> str:
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Model) or value is None:
        return ""
    plain = json.loads(pydantic.TypeAdapter(type(value)).dump_json(value))
    return str(yaml.safe_dump(plain, default_flow_style=True).removesuffix("\n...\n").strip())


def _models(annotation: Any, path: str) -> Iterator[tuple[type[Model], str]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation, path
        return
    kind, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if kind is Annotated:
        inside = inside[:1]
    if kind is dict:
        inside, path = inside[1:], f"{path}.{_PLACEHOLDERS.get(path, 'NAME')}"
    if kind is tuple:
        inside, path = inside[:1], f"{path}[]"
    for each in inside if kind is not typing.Literal else ():
        yield from _models(each, path)


def _values(annotation: Any, metadata: list[Any], path: str) -> str:
    """Return the values of a type in words."""
    kind, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if kind is Annotated:
        return _values(inside[0], [*inside[1:], *metadata], path)
    if kind in (typing.Union, types.UnionType):
        rest = [each for each in inside if each is not type(None)]
        return f"{' or '.join(_values(each, metadata, path) for each in rest)}, or `null`"
    return ", ".join([_shape(annotation, kind, inside, path), *_bounds(metadata, kind or annotation)])


def _shape(annotation: Any, kind: Any, inside: tuple[Any, ...], path: str) -> str:
    if kind is typing.Literal:
        return ", ".join(f"`{each}`" for each in inside)
    if kind is dict:
        return f"mapping of {_plural(_values(inside[1], [], path))}"
    if kind is tuple:
        return f"list of {_plural(_values(inside[0], [], path))}"
    if issubclass(annotation, Model):
        return "section below"
    if hasattr(annotation, "__members__"):
        return ", ".join(f"`{each.value}`" for each in annotation)
    return _WORDS[annotation]


def _plural(text: str) -> str:
    head, comma, rest = text.partition(",")
    head = {"text": "texts", "number": "numbers", "section below": "sections below", "path": "paths"}.get(head, head)
    return f"{head}{comma}{rest}"


def _bounds(metadata: list[Any], kind: Any) -> Iterator[str]:
    unit = " characters" if kind is str else " entries"
    for rule in (rule for each in metadata for rule in getattr(each, "metadata", [each])):
        for name, words in _LIMITS.items():
            limit = getattr(rule, name, None)
            if limit is not None and (name, limit) != ("min_length", 1):
                yield f"{words} {_number(limit)}{unit if 'length' in name else ''}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


if __name__ == "__main__":
    print(page(), end="")
