"""How runs and versions are named: a request has a run and a number, and never a path."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any

from muster_weights.refusals import Refused

__all__ = ["BACKEND", "CURRENT", "DATA", "MANIFEST", "Told", "folder_of", "new_run", "told", "valid"]

BACKEND = "muster_files"
"""The name of the engine in vLLM's `--weight-transfer-config`."""
DATA, MANIFEST, CURRENT = "weights.bin", "manifest.json", "current.json"
_RUN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LAST = 10**9


@dataclass(frozen=True, slots=True)
class Told:
    """Which weights a trainer speaks of.

    Attributes:
        run: of one process of a trainer.
        version: from 1 on.
        digest: of the manifest's bytes, as hex digits, so that nobody else's files pass for these.
    """

    run: str
    version: int
    digest: str

    @property
    def text(self) -> str:
        """The run and the version in one word, for vLLM's `weight_version` and messages."""
        return f"{self.run}/{self.version}"


def new_run() -> str:
    """Return a name that no other run has."""
    return f"run-{secrets.token_hex(8)}"


def valid(run: Any) -> str:
    """Return the name of a run. Raises `Refused` for what is none."""
    if isinstance(run, str) and _RUN.fullmatch(run):
        return run
    raise Refused(f"run: {str(run)[:70]!r} is not a name of a run: pass up to 63 small letters, digits and '-'")


def told(raw: Any) -> Told:
    """Read run, version and digest from JSON. Raises `Refused` when one of them is none."""
    raw = raw if isinstance(raw, dict) else {}
    version, digest = raw.get("version"), raw.get("digest")
    if type(version) is not int or not 0 < version < _LAST:
        raise Refused(f"version: {str(version)[:20]!r} is not a version: pass a number from 1 on")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise Refused(f"digest: {str(digest)[:70]!r} is not a digest: pass 64 hex digits")
    return Told(valid(raw.get("run")), version, digest)


def folder_of(version: int) -> str:
    """Return the name of a version's folder in the folder of its run."""
    return f"v{version:09d}"
