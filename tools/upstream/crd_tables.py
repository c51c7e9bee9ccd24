"""Tables of CustomResourceDefinitions: what decides whether the API server takes an object, and no descriptions.

Equal types stand once, under the name of the member that has one first.
"""

from __future__ import annotations

import collections
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any  # schemas as upstream writes them

import yaml

__all__ = ["members", "table"]

Schema = dict[str, Any]

# The definitions say nothing about an object's own metadata, because every kind has the same.
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

KEPT = (
    *("type", "format", "nullable", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "required"),
)
RENAMED = {
    "x-kubernetes-int-or-string": "intOrString",
    "x-kubernetes-preserve-unknown-fields": "open",
    "x-kubernetes-list-map-keys": "keys",
}
READ = {
    *KEPT,
    *RENAMED,
    *("description", "properties", "items", "additionalProperties", "default", "anyOf"),
    *("x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-map-type"),
}
# JobSet's own webhook names the rules of a failure policy (pkg/webhooks/jobset_webhook.go Default).
NAMED_BY_JOBSET = {frozenset({"action", "name"}): {"name"}}
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
SHORT = 60  # characters of a type that is not worth a name


def table(files: Sequence[Path], openapi: Path, rows: Sequence[Schema] = ()) -> Schema:
    """Return kinds and types of some definitions.

    Args:
        files: of CustomResourceDefinitions.
        openapi: the schemas of Kubernetes that have ObjectMeta.
        rows: what is merged upstream and not released: schemas that are laid over those of a kind, at a path.
    """
    schemas = json.loads(openapi.read_text())["components"]["schemas"]
    meta = compact(resolved(schemas[OBJECT_META], schemas))
    kinds, shapes = named(dict(definition(file, meta, rows) for file in files))
    return {"kinds": kinds, "shapes": shapes}


def definition(file: Path, meta: Schema, rows: Sequence[Schema]) -> tuple[str, Schema]:
    """Kind and facts of a CustomResourceDefinition, rows laid over it; the status, which no user writes, is open."""
    spec = yaml.load(file.read_text(), yaml.CSafeLoader)["spec"]
    served = [version for version in spec["versions"] if version["served"]]
    assert len(served) == 1, f"{file} serves {len(served)} versions; say which is whose"
    whole = served[0]["schema"]["openAPIV3Schema"]
    for row in rows:
        if spec["names"]["kind"] in row["kinds"]:
            lay(whole, row["at"].split("."), row["schema"])
    shape = compact(whole)
    shape["properties"]["status"] = {"open": True}
    shape["properties"]["metadata"] = metadata(meta, shape)
    facts = {"group": spec["group"], "version": served[0]["name"], "scope": spec["scope"], "shape": shape}
    return spec["names"]["kind"], facts


def lay(schema: Schema, at: list[str], added: Schema) -> None:
    """Merge a schema into the one at a path; only the last member may be new."""
    for member in at[:-1]:
        schema = schema["items"] if member == "[]" else schema["properties"][member]
    schema.setdefault("properties", {}).setdefault(at[-1], {}).update(added)


def metadata(meta: Schema, shape: Schema) -> Schema:
    """ObjectMeta, with what the kind's own rules say about the name."""
    own = {**meta["properties"], "managedFields": {"open": True}}
    return {**meta, "properties": {**own, "name": {**own["name"], **shape.pop("name", {})}}}


def resolved(schema: Schema, schemas: Schema) -> Schema:
    """A schema of Kubernetes' OpenAPI without references; its times may be null."""
    every = schema.get("allOf") or [schema]
    schema = {**schema, **schemas[every[0]["$ref"].rpartition("/")[2]]} if "$ref" in every[0] else schema
    schema = {word: value for word, value in schema.items() if word != "allOf"}
    if "properties" in schema:
        schema["properties"] = {name: resolved(each, schemas) for name, each in schema["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            schema[word] = resolved(schema[word], schemas)
    return schema


def compact(schema: Schema) -> Schema:
    """What decides about an object, in the words that `muster.webhook.cli.schemas` reads.

    Raises:
        AssertionError: upstream uses a word that this does not know, so that nothing is dropped unnoticed.
    """
    unknown = [word for word in schema if word not in READ and word not in {"allOf", "x-kubernetes-group-version-kind"}]
    unknown = [word for word in unknown if not word.startswith("x-kubernetes-patch-")]
    assert not unknown, f"new words in a schema: {unknown}"
    assert schema.get("anyOf", INT_OR_STRING) == INT_OR_STRING, schema["anyOf"]
    out: Schema = {word: schema[word] for word in KEPT if word in schema and word != "required"}
    out |= {ours: schema[theirs] for theirs, ours in RENAMED.items() if theirs in schema}
    if schema.get("x-kubernetes-list-type") == "set":
        out["keys"] = []
    if out.get("format") not in {None, "int32"}:
        del out["format"]
    for rule in schema.get("x-kubernetes-validations", ()):
        out |= translated(rule["rule"])
    if "required" in schema:  # what has a default is never missing
        defaulted = {name for name, each in schema["properties"].items() if "default" in each}
        out["required"] = sorted(
            set(schema["required"]) - defaulted - NAMED_BY_JOBSET.get(frozenset(schema["required"]), set())
        )
    if "properties" in schema:
        out["properties"] = {name: compact(each) for name, each in sorted(schema["properties"].items())}
    if isinstance(schema.get("additionalProperties"), dict):
        out["members"] = compact(schema["additionalProperties"])
    if "items" in schema:
        out["items"] = compact(schema["items"])
        if out.get("keys"):
            # Pairs, because null takes a member away where a table is a difference to another one.
            out["keys"] = [[key, schema["items"]["properties"][key].get("default")] for key in out["keys"]]
    return {word: value for word, value in out.items() if value != [] or word == "keys"}


def translated(rule: str) -> Schema:
    """A rule in CEL as words of a schema; only the simple ones about one value, and the name's."""
    if found := re.fullmatch(r"self\.metadata\.name\.matches\('(.*)'\)", rule):
        return {"name": {"pattern": found[1], "maxLength": 63}}
    if found := re.fullmatch(r"self == '' \|\| self\.matches\('\^(.*)\$'\)", rule):
        return {"pattern": f"^({found[1]})?$"}
    if found := re.fullmatch(r"self in \[(.*)\]", rule):
        return {"enum": [word.strip().strip("'") for word in found[1].split(",")]}
    if found := re.fullmatch(r"self >= ([0-9]+)", rule):
        return {"minimum": int(found[1])}
    return {}


def named(kinds: Mapping[str, Schema]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The kinds with references instead of the types that occur more than once, and those types by name."""
    counts: collections.Counter[str] = collections.Counter()
    places: dict[str, str] = {}
    for kind, facts in kinds.items():
        for member, shape in parts(facts["shape"], kind):
            text = json.dumps(shape, sort_keys=True)
            counts[text] += 1
            places.setdefault(text, member)
    # A type keeps its name from version to version for as long as it stays the same.
    names = {
        text: f"{member}.{hashlib.sha256(text.encode()).hexdigest()[:4]}"
        for text, member in places.items()
        if counts[text] > 1 and len(text) > SHORT
    }
    shapes = {name: reference(json.loads(text), names, top=True) for text, name in names.items()}
    return {kind: {**facts, "shape": reference(facts["shape"], names)} for kind, facts in kinds.items()}, shapes


def members(found: Schema) -> Schema:
    """Return a table as trees of members, for people: `[]` is an entry of a list, `*` a free name, `is` the rest."""
    shapes = found["shapes"]

    def tree(shape: Schema | str) -> Schema:
        whole: Schema = shapes[shape] if isinstance(shape, str) else shape
        inner = {"[]": whole.get("items"), "*": whole.get("members"), **whole.get("properties", {})}
        facts = {word: value for word, value in whole.items() if word not in ("items", "members", "properties")}
        return {"is": facts, **{name: tree(each) for name, each in inner.items() if each is not None}}

    return {kind: tree(facts["shape"]) for kind, facts in found["kinds"].items()}


def parts(shape: Schema, member: str) -> Iterator[tuple[str, Schema]]:
    """A type and all types in it, each with the name of the member that has it."""
    yield member, shape
    for name, each in shape.get("properties", {}).items():
        yield from parts(each, name)
    for word in ("items", "members"):
        if word in shape:
            yield from parts(shape[word], member)


def reference(shape: Schema, names: dict[str, str], *, top: bool = False) -> Any:
    """A type with references by name; `top` for one that is the type of a name itself."""
    name = names.get(json.dumps(shape, sort_keys=True))
    if name is not None and not top:
        return name
    out = dict(shape)
    if "properties" in out:
        out["properties"] = {each: reference(inner, names) for each, inner in out["properties"].items()}
    for word in ("items", "members"):
        if word in out:
            out[word] = reference(out[word], names)
    return out
