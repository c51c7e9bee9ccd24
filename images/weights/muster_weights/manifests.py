"""What a version says of itself: run, number, hash and size of its data, and where in it each tensor lies."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from muster_weights import names
from muster_weights.refusals import Refused

__all__ = ["ITEMS", "MOST", "Entry", "Manifest", "digest", "parse", "size_of", "written"]

FORMAT = "muster.dev/weights/v1"
MOST = 16 << 20
"""Bytes of a manifest; a tensor takes about 100, and models with a matrix for each expert have 40,000."""
ITEMS: Mapping[str, int] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""Bytes of one element by torch's name of its type."""
_TENSORS, _NAME, _SIDES, _SIZE = 200_000, 500, 8, 1 << 50
_HASHES = {"blake3": 64, "sha256": 64}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor: its name, type and shape, and the offset of its first byte in the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """A version: `size` and `value` are those of the data, `hash` is the name of the function."""

    run: str
    version: int
    size: int
    hash: str
    value: str
    tensors: tuple[Entry, ...]


def size_of(entry: Entry) -> int:
    """Return the bytes of a tensor."""
    return math.prod(entry.shape) * ITEMS[entry.dtype]


def written(manifest: Manifest) -> bytes:
    """Return the manifest as it is stored."""
    return json.dumps({"format": FORMAT, **asdict(manifest)}, separators=(",", ":")).encode()


def digest(data: bytes) -> str:
    """Return what a trainer tells a sampler of a manifest's bytes."""
    return hashlib.sha256(data).hexdigest()


def parse(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        Refused: where it is not one, or its tensors overlap, lie outside of the data or have no bytes.
    """
    try:
        return _manifest(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError) as fault:
        raise Refused(f"manifest: cannot be read ({str(fault)[:200]}): publish the version again") from fault


def _manifest(raw: Any) -> Manifest:
    if raw["format"] != FORMAT:
        raise ValueError(f"format {str(raw['format'])[:40]!r}, not {FORMAT}")
    if raw["hash"] not in _HASHES or not re.fullmatch(r"[0-9a-f]{64}", raw["value"]):
        raise ValueError("no hash")
    if not 0 < len(raw["tensors"]) <= _TENSORS:
        raise ValueError(f"{len(raw['tensors'])} tensors, not 1 to {_TENSORS}")
    size = _number(raw["size"])
    tensors = tuple(_entry(each) for each in raw["tensors"])
    _apart(tensors, size)
    return Manifest(names.valid(raw["run"]), _number(raw["version"]), size, raw["hash"], raw["value"], tensors)


def _entry(raw: Any) -> Entry:
    name, dtype, shape = raw["name"], raw["dtype"], raw["shape"]
    if not isinstance(name, str) or not 0 < len(name) <= _NAME:
        raise ValueError(f"tensor {str(name)[:40]!r} has no name of up to {_NAME} characters")
    if dtype not in ITEMS:
        raise ValueError(f"{name[:80]}: type {str(dtype)[:20]!r}")
    if not isinstance(shape, list) or len(shape) > _SIDES:
        raise ValueError(f"{name[:80]}: shape")
    return Entry(name, dtype, tuple(_number(side) for side in shape), _number(raw["offset"]))


def _number(raw: Any) -> int:
    if type(raw) is not int or not 0 <= raw <= _SIZE:
        raise ValueError(f"number {str(raw)[:20]!r}")
    return raw


def _apart(tensors: tuple[Entry, ...], size: int) -> None:
    """Check that tensors lie one after the other, each at a multiple of its item, and all in the data."""
    at, seen = 0, set()
    for each in tensors:
        if each.name in seen:
            raise ValueError(f"{each.name[:80]}: twice")
        if each.offset < at or each.offset % ITEMS[each.dtype]:
            raise ValueError(f"{each.name[:80]}: offset {each.offset}")
        seen.add(each.name)
        at = each.offset + size_of(each)
    if at != size or not size:
        raise ValueError(f"tensors end at byte {at} of {size}")
