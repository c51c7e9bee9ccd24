"""Reads the runtime out of a snapshot ConfigMap.

Trainer freezes the runtime of each TrainJob as YAML in ConfigMap `<trainjob>-runtime-snapshot`, key `runtime`
(trainer v2.3.0 `pkg/runtime/core/snapshot.go`). Anyone who may write ConfigMaps may write such a text too, so it is
limited in length, depth and number of values, and may not use YAML aliases, which Trainer never writes.
Parsing YAML takes milliseconds, and all jobs of one runtime have the same text, so each text is parsed once.
"""

from __future__ import annotations

import functools
from typing import Any

import orjson

from webhook import kubeyaml
from webhook.cluster import readers

__all__ = ["DATA_KEY", "MAX_TEXT", "MAX_VALUES", "SUFFIX", "parse", "text"]

SUFFIX = "-runtime-snapshot"
DATA_KEY = "runtime"
MAX_TEXT = 256 * 1024  # characters; the built-in runtimes have 0.5 to 3 thousand
MAX_VALUES = 10_000  # 50 ms of parsing; a large pod template has 500


def text(configmap: readers.Document) -> str:
    """Return `data.runtime`, cut when it is too long to be accepted.

    Empty when it is missing: a ConfigMap without a runtime is an invalid snapshot, not an absent one.
    """
    value = (configmap.get("data") or {}).get(DATA_KEY)
    return value[: MAX_TEXT + 1] if isinstance(value, str) else ""


def parse(ref: readers.Ref, runtime: str) -> dict[str, Any]:
    """Return the runtime document of a snapshot, a new copy each time.

    Args:
        ref: the snapshot, by the name of its TrainJob; errors name its ConfigMap.
        runtime: YAML, at most `MAX_TEXT` characters.

    Raises:
        SnapshotInvalid: the text is empty, too long or too deep, uses aliases, or is not a JSON object.
    """
    packed, reason = _packed(runtime)
    if reason:
        raise readers.SnapshotInvalid(ref.namespace, ref.name + SUFFIX, reason)
    document: dict[str, Any] = orjson.loads(packed)
    return document


@functools.lru_cache(maxsize=32)
def _packed(runtime: str) -> tuple[bytes, str]:
    """Return the runtime as JSON, or else the reason why it cannot be read."""
    try:
        return orjson.dumps(_document(runtime)), ""
    except kubeyaml.YamlError as error:
        return b"", f"line {error.line}: {error}"
    except (ValueError, TypeError) as error:
        return b"", str(error)


def _document(runtime: str) -> dict[str, Any]:
    if not runtime:
        raise ValueError(f"the key data.{DATA_KEY} is missing or empty")
    if len(runtime) > MAX_TEXT:
        raise ValueError(f"it has more than {MAX_TEXT} characters")
    document = kubeyaml.load(runtime, aliases=False, most=MAX_VALUES)
    if not isinstance(document, dict):
        raise TypeError(f"it holds {type(document).__name__}, not an object")
    if not isinstance(document.get("metadata"), dict):
        raise TypeError("its metadata is not an object")
    return document
