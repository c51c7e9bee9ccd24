"""Whether a document has only fields that Kubernetes knows, of the types that it wants, and all that it needs.

What the API server checks with `fieldValidation=Strict`, from the same description: the OpenAPI files in the module of
the pinned Kubernetes. Kinds that others define are none of its business.
"""

from __future__ import annotations

import functools
import json

__all__ = ["Kubernetes"]

_TYPES = {"string": str, "boolean": bool, "object": dict, "array": list, "number": (int, float)}


class Kubernetes:
    """The kinds of one Kubernetes.

    Args:
        folder: `api/openapi-spec/v3` of its source.
    """

    def __init__(self, folder):
        self._folder = folder

    def knows(self, document):
        """Whether the kind is one of Kubernetes itself."""
        return self._path(document).exists()

    def problems(self, document):
        """Return one sentence per place that is wrong."""
        schemas = _schemas(self._path(document))
        group, _, version = document["apiVersion"].rpartition("/")
        wanted = {"group": group, "version": version, "kind": document["kind"]}
        (schema,) = (each for each in schemas.values() if wanted in each.get("x-kubernetes-group-version-kind", ()))
        return list(_problems(document, schema, schemas, document["kind"]))

    def _path(self, document):
        name = document["apiVersion"].replace("/", "__")
        prefix = "apis__" if "/" in document["apiVersion"] else "api__"
        return self._folder / f"{prefix}{name}_openapi.json"


@functools.cache
def _schemas(path):
    return json.loads(path.read_text())["components"]["schemas"]


def _problems(value, schema, schemas, path):
    schema = _resolved(schema, schemas)
    options = schema.get("oneOf")
    if options:  # a quantity, an IntOrString
        if all(list(_problems(value, option, schemas, path)) for option in options):
            yield f"{path}: {value!r} is nothing of what it may be"
        return
    kind = schema.get("type")
    if kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            yield f"{path}: {value!r} is not an integer"
        return
    if kind is None:
        return
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{path}: {value!r} is not of type {kind}"
    elif kind == "array":
        for index, member in enumerate(value):
            yield from _problems(member, schema["items"], schemas, f"{path}[{index}]")
    elif kind == "object":
        yield from _members(value, schema, schemas, path)


def _members(value, schema, schemas, path):
    known, others = schema.get("properties"), schema.get("additionalProperties")
    for name, member in value.items():
        if known and name in known:
            yield from _problems(member, known[name], schemas, f"{path}.{name}")
        elif others:
            yield from _problems(member, others, schemas, f"{path}.{name}")
        elif known:
            yield f"{path}.{name}: no such field"
    yield from (f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value)


def _resolved(schema, schemas):
    """Follow `$ref`, also where it stands alone in `allOf` beside a description or a default."""
    while True:
        (reference,) = [schema, *schema.get("allOf", ())][-1:]
        if "$ref" not in reference:
            return schema
        schema = schemas[reference["$ref"].rpartition("/")[2]]
