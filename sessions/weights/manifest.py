"""What a folder of weights says of itself: files with their sizes and hashes, tensors with shapes and dtypes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from muster.sessions.refusals import Refused
from muster.sessions.weights import hashes

__all__ = ["NAME", "VERSION", "Entry", "Manifest", "Shape", "bytes_of", "read", "verify", "write"]

NAME = "manifest.json"
VERSION = 2
"""Version 1 has SHA-256 only, so that what is written without BLAKE3 is read by every Muster."""
_MOST = 16 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """One tensor: its dtype as safetensors names it, such as `F32`."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its size in bytes, its hash, and the tensors in it by name."""

    size: int
    digest: hashes.Digest
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
    files = {name: _told(entry) for name, entry in manifest.files.items()}
    first = all(entry.digest.name == "sha256" for entry in manifest.files.values())
    told = {"version": 1 if first else VERSION, "files": files, "about": manifest.about}
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
    if len(data) != entry.size or hashes.digest(data, entry.digest.name) != entry.digest:
        raise Refused(f"weights: {folder.name}: {name} is torn or was changed: pass another checkpoint")
    return data


def verify(folder: Path) -> Manifest:
    """Read all files of a folder and return its manifest. Raises `Refused` for a torn one."""
    manifest = read(folder)
    for name in manifest.files:
        bytes_of(folder, name, manifest)
    return manifest


def _parsed(raw: Mapping[str, Any]) -> Manifest:
    if type(raw["version"]) is not int or not 1 <= raw["version"] <= VERSION:
        raise ValueError(f"version {raw['version']!r}")
    return Manifest({_plain(name): _entry(entry) for name, entry in raw["files"].items()}, dict(raw["about"]))


def _told(entry: Entry) -> dict[str, Any]:
    return {"size": entry.size, entry.digest.name: entry.digest.value, "tensors": entry.tensors}


def _entry(raw: Mapping[str, Any]) -> Entry:
    tensors = {name: Shape(str(each["dtype"]), tuple(map(int, each["shape"]))) for name, each in raw["tensors"].items()}
    (name,) = (each for each in hashes.KNOWN if each in raw)
    return Entry(int(raw["size"]), hashes.Digest(name, str(raw[name])), tensors)


def _plain(name: str) -> str:
    if not name or name != Path(name).name or name.startswith("."):
        raise ValueError(f"name {name[:40]!r}")
    return name
