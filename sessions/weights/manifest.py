"""What a folder of weights says of itself: files with their sizes and hashes, tensors with shapes and dtypes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from sessions.refusals import Refused

__all__ = ["NAME", "VERSION", "Entry", "Manifest", "Shape", "bytes_of", "read", "verify", "write"]

NAME = "manifest.json"
VERSION = 1
_MOST = 16 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """One tensor: its dtype as safetensors names it, such as `F32`."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its size in bytes, the SHA-256 of it as hex digits, and the tensors in it by name."""

    size: int
    sha256: str
    tensors: Mapping[str, Shape] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """All files by name, and what the writer says of them.

    Attributes:
        files: plain names, without folders.
        about: JSON, such as the rank of an adapter.
    """

    files: Mapping[str, Entry]
    about: Mapping[str, Any]


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder."""
    told = {"version": VERSION, "files": manifest.files, "about": manifest.about}
    (folder / NAME).write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))


def read(folder: Path) -> Manifest:
    """Read the manifest of a folder. Raises `Refused` where there is none that this version can read."""
    try:
        with (folder / NAME).open("rb") as stream:
            return _parsed(json.loads(stream.read(_MOST)))
    except FileNotFoundError as fault:
        raise Refused(f"weights: {folder.name}: has no {NAME}: pass a checkpoint that was saved whole") from fault
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise Refused(f"weights: {folder.name}: {NAME} cannot be read: pass another checkpoint") from fault


def bytes_of(folder: Path, name: str, manifest: Manifest) -> bytes:
    """Return the bytes of a file that are what the manifest says. Raises `Refused` for others."""
    if name not in manifest.files:
        raise Refused(f"weights: {folder.name}: holds no {name}: pass a checkpoint that has it")
    try:
        data = (folder / name).read_bytes()
    except FileNotFoundError as fault:
        raise Refused(f"weights: {folder.name}: {name} is missing: pass another checkpoint") from fault
    entry = manifest.files[name]
    if len(data) != entry.size or hashlib.sha256(data).hexdigest() != entry.sha256:
        raise Refused(f"weights: {folder.name}: {name} is torn or was changed: pass another checkpoint")
    return data


def verify(folder: Path) -> Manifest:
    """Read all files of a folder and return its manifest. Raises `Refused` for a torn one."""
    manifest = read(folder)
    for name in manifest.files:
        bytes_of(folder, name, manifest)
    return manifest


def _parsed(raw: Mapping[str, Any]) -> Manifest:
    if raw["version"] != VERSION:
        raise ValueError(f"version {raw['version']!r}")
    return Manifest({_plain(name): _entry(entry) for name, entry in raw["files"].items()}, dict(raw["about"]))


def _entry(raw: Mapping[str, Any]) -> Entry:
    tensors = {name: Shape(str(each["dtype"]), tuple(map(int, each["shape"]))) for name, each in raw["tensors"].items()}
    return Entry(int(raw["size"]), str(raw["sha256"]), tensors)


def _plain(name: str) -> str:
    if not name or name != Path(name).name or name.startswith("."):
        raise ValueError(f"name {name[:40]!r}")
    return name
