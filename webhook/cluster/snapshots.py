"""Reads the runtime out of a snapshot ConfigMap.

The Trainer freezes the runtime of each TrainJob as YAML in ConfigMap `<trainjob>-runtime-snapshot`, key `runtime`
(trainer v2.3.0 `pkg/runtime/core/snapshot.go`). Whoever may write ConfigMaps may write such a thing too, so the text
is capped in length, depth and nodes, and may not use YAML aliases, with which a few lines expand to gigabytes.
Reading YAML takes milliseconds, and all jobs of one runtime have one text: each text is read once.
"""

from __future__ import annotations

import functools
from typing import Any

import orjson
import yaml

from webhook.cluster import readers

__all__ = ["DATA_KEY", "MAX_DEPTH", "MAX_NODES", "MAX_TEXT", "SUFFIX", "parse", "text"]

SUFFIX = "-runtime-snapshot"
DATA_KEY = "runtime"
MAX_TEXT = 256 * 1024  # characters; the built-in runtimes have 0.5 to 3 thousand
MAX_DEPTH = 100  # a pod template goes about 20 deep
MAX_NODES = 10_000  # 50 ms of parsing; a large pod template has 500

_Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Go quotes by other rules than YAML 1.1: left to PyYAML, a bare date would become a `datetime` and a bare `=` an error.
_NOT_JSON = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})


class _Loader(_Base):  # type: ignore[misc, valid-type]  # the base is libyaml's when it was compiled in
    """Reads only what JSON has."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - overrides PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in pairs if tag not in _NOT_JSON]
        for first, pairs in _Base.yaml_implicit_resolvers.items()
    }


def text(configmap: readers.Document) -> str:
    """Return `data.runtime`, cut where it is too long to be read anyway.

    Empty when there is none: a ConfigMap without a runtime reads as an invalid snapshot, not as an absent one.
    """
    value = (configmap.get("data") or {}).get(DATA_KEY)
    return value[: MAX_TEXT + 1] if isinstance(value, str) else ""


def parse(ref: readers.Ref, runtime: str) -> dict[str, Any]:
    """Return the runtime document of a snapshot, a fresh copy each time.

    Args:
        ref: the snapshot, by the name of its TrainJob; errors name its ConfigMap.
        runtime: YAML, at most `MAX_TEXT` characters.

    Raises:
        SnapshotInvalid: the text is empty, too long or too deep, uses aliases or tags, or is no JSON object.
    """
    packed, reason = _packed(runtime)
    if reason:
        raise readers.SnapshotInvalid(ref.namespace, ref.name + SUFFIX, reason)
    document: dict[str, Any] = orjson.loads(packed)
    return document


@functools.lru_cache(maxsize=32)
def _packed(runtime: str) -> tuple[bytes, str]:
    """Return the runtime as JSON, or else why there is none."""
    try:
        return orjson.dumps(_document(runtime)), ""
    except (yaml.YAMLError, ValueError, TypeError) as error:
        return b"", " ".join(str(error).split()) or type(error).__name__


def _document(runtime: str) -> dict[str, Any]:
    if not runtime:
        raise ValueError(f"the key data.{DATA_KEY} is missing or empty")
    if len(runtime) > MAX_TEXT:
        raise ValueError(f"it has more than {MAX_TEXT} characters")
    _refuse_traps(runtime)
    document = yaml.load(runtime, Loader=_Loader)  # noqa: S506 - _Loader is a safe loader
    if not isinstance(document, dict):
        raise TypeError(f"it holds {type(document).__name__}, not an object")
    if not isinstance(document.get("metadata"), dict):
        raise TypeError("its metadata is not an object")
    return document


def _refuse_traps(runtime: str) -> None:
    """Look through the text flatly before it is composed recursively, in C, where too deep a text ends the process."""
    depth = 0
    for number, event in enumerate(yaml.parse(runtime, Loader=_Loader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
            raise ValueError("it uses YAML aliases or tags, which the Trainer never writes")
        if depth > MAX_DEPTH or number > MAX_NODES:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep, or has more than {MAX_NODES} nodes")
