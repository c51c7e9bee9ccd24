"""Reads the runtime out of a snapshot ConfigMap.

Trainer freezes the runtime of each TrainJob as YAML in ConfigMap `<trainjob>-runtime-snapshot`, key `runtime`
(trainer `pkg/runtime/core/snapshot.go`). Anyone who may write ConfigMaps may write such a text too, so it is
limited in length, depth and number of values, and may not use YAML aliases, which Trainer never writes.
Parsing YAML takes milliseconds, and all jobs of one runtime have the same text, so what was read of the latest texts is
remembered, as is that one cannot be read. A text that may take longer is not read where others wait: see `is_quick`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict
from typing import Any

import orjson

from muster.webhook import kubeyaml
from muster.webhook.cluster import readers

__all__ = ["DATA_KEY", "MAX_TEXT", "MAX_VALUES", "SUFFIX", "Readings", "is_quick", "parse", "text", "trimmed"]

SUFFIX = "-runtime-snapshot"
DATA_KEY = "runtime"
MAX_TEXT = 256 * 1024  # characters; the built-in runtimes have 0.5 to 3 thousand
MAX_VALUES = 10_000  # 50 ms of parsing; a large pod template has 500
_QUICK = 8 * 1024  # characters that are read within 20 ms, whatever they are
_REMEMBERED = 4 * 1024 * 1024  # bytes
_SHOWN = 300  # characters of a reason; a key may be as long as the text


def text(configmap: readers.Document) -> str:
    """Return `data.runtime`, cut when it is too long to be accepted.

    Empty when it is missing: a ConfigMap without a runtime is an invalid snapshot, not an absent one.
    """
    value = (configmap.get("data") or {}).get(DATA_KEY)
    return value[: MAX_TEXT + 1] if isinstance(value, str) else ""


def trimmed(configmap: readers.Document) -> dict[str, Any]:
    """Return the parts of a snapshot's ConfigMap that are read: its owners and its text."""
    owners = (configmap.get("metadata") or {}).get("ownerReferences")
    return {"metadata": {"ownerReferences": owners}, "data": {DATA_KEY: text(configmap)}}


def parse(ref: readers.Ref, runtime: str) -> dict[str, Any]:
    """Return the runtime document of a snapshot, a new copy each time.

    Args:
        ref: the snapshot, by the name of its TrainJob; errors name its ConfigMap.
        runtime: YAML, at most `MAX_TEXT` characters.

    Raises:
        SnapshotInvalid: the text is empty, too long or too deep, uses aliases, or is not a JSON object.
    """
    packed, reason = _readings.get(runtime) or _readings.add(runtime, _packed(runtime))
    if reason:
        raise readers.SnapshotInvalid(ref.namespace, ref.name + SUFFIX, reason)
    document: dict[str, Any] = orjson.loads(packed)
    return document


def is_quick(runtime: str) -> bool:
    """Whether `parse` takes a short time: the text is short, too long to be read at all, or was read lately."""
    return len(runtime) <= _QUICK or len(runtime) > MAX_TEXT or _readings.get(runtime) is not None


class Readings:
    """What was read of the latest texts, up to a number of bytes.

    Long and short texts have half of the room each, so that the long ones, which nobody needs often, cannot push out
    the others. All methods may be called on any thread; none waits for another, since a process that is forked
    meanwhile would wait for ever.

    Args:
        room: bytes that texts and readings may take.
    """

    def __init__(self, room: int = _REMEMBERED) -> None:
        self._room = room // 2
        self._known: tuple[OrderedDict[str, tuple[bytes, str]], ...] = (OrderedDict(), OrderedDict())  # latest last
        self._used = [0, 0]
        self._changing = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes that texts and readings take."""
        return sum(self._used)

    def get(self, runtime: str) -> tuple[bytes, str] | None:
        """Return what was read of a text, or None."""
        known = self._known[len(runtime) > _QUICK]
        found = known.get(runtime)
        if found is not None:
            with contextlib.suppress(KeyError):  # another thread may have pushed it out
                known.move_to_end(runtime)
        return found

    def add(self, runtime: str, reading: tuple[bytes, str]) -> tuple[bytes, str]:
        """Remember what was read of a text, unless another thread is just remembering something; return it."""
        if self._changing.acquire(blocking=False):
            try:
                self._add(len(runtime) > _QUICK, runtime, reading)
            finally:
                self._changing.release()
        return reading

    def _add(self, half: bool, runtime: str, reading: tuple[bytes, str]) -> None:
        known, size = self._known[half], _weight(runtime, reading)
        if runtime not in known and size <= self._room:
            known[runtime] = reading
            self._used[half] += size
        while self._used[half] > self._room and known:
            self._used[half] -= _weight(*known.popitem(last=False))


def _weight(runtime: str, reading: tuple[bytes, str]) -> int:
    return sys.getsizeof(runtime) + sum(map(sys.getsizeof, reading)) + 300


_readings = Readings()


def _packed(runtime: str) -> tuple[bytes, str]:
    """Return the runtime as JSON, or else the reason why it cannot be read."""
    try:
        return bytes(memoryview(orjson.dumps(_document(runtime)))), ""
    except kubeyaml.YamlError as error:
        return b"", f"line {error.line}: {error}"[:_SHOWN]
    except (ValueError, TypeError) as error:
        return b"", str(error)[:_SHOWN]


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
