"""Adapters of a sampler: each is verified beside the serving, and copied to where nobody else writes.

vLLM reads the folder of an adapter when it is loaded, and once more whenever it was evicted meanwhile. It reads the
copy, so that what is loaded is what was verified, also when the files of the volume have changed or are gone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from muster_weights import adapters, names, readings
from muster_weights.manifests import Manifest
from muster_weights.refusals import Refused
from muster_weights.sampler.states import State

__all__ = ["Copies", "place_of"]


def place_of(instance: str) -> Path:
    """Return the folder for copies of one server, which all its workers on a node share; `instance` is vLLM's name."""
    return Path(tempfile.gettempdir()) / f"muster-adapters-{instance}"


class Copies(State):
    """The adapters of one sampler.

    Args:
        root: the folder of versions that it was started with.
        place: the folder of its copies, which is made for this user alone.

    Raises:
        Refused: the place exists and is somebody else's, or is a link.
    """

    def __init__(self, root: Path, place: Path) -> None:
        super().__init__(root, {})
        self._place = place
        self._make()

    def copy(self, told: names.Told) -> dict[str, Any]:
        """Verify and copy an adapter beside the serving, and say how far that is.

        Returns:
            `state`: `verifying`, `missing` or `refused` with the `reason`, or `copied` with the `path`.
        """
        if told == self.served and self._copy(told).exists():
            return {"state": "copied", "path": str(self._copy(told))}
        found = self.stage(told)
        if found["state"] != "verified":
            return found
        try:
            self.take(told).close()
        except Refused as reason:
            self.drop(told)  # it was made of a file that changed
            return {"state": "refused", "reason": str(reason)}
        return {"state": "copied", "path": str(self._copy(told))}

    def drop(self, told: names.Told) -> None:
        """Remove the copy of an adapter that is not loaded any more."""
        shutil.rmtree(self._copy(told), ignore_errors=True)

    def close(self) -> None:
        """End the verification, and remove all copies."""
        super().close()
        shutil.rmtree(self._place, ignore_errors=True)

    def _make(self) -> None:
        self._place.mkdir(mode=0o700, exist_ok=True)
        if self._place.is_symlink() or self._place.stat().st_uid != os.getuid():
            raise Refused(f"{self._place}: is not of this user: remove it")

    def _copy(self, told: names.Told) -> Path:
        return self._place / told.digest

    def _verified(self, told: names.Told) -> readings.Verified:
        verified = super()._verified(told)
        try:
            self._unpack(verified)
        except OSError as fault:
            verified.close()
            raise Refused(f"{told.text}: cannot be copied to {self._place} ({fault}): make room there") from fault
        return verified

    def _unpack(self, verified: readings.Verified) -> None:
        """Write a copy, which appears whole; another worker of this server may have been faster."""
        self._make()  # somebody may have cleared the folder of temporary files
        partial = Path(tempfile.mkdtemp(prefix=".", dir=self._place))
        try:
            adapters.unpack(verified, partial)
            if not self._copy(verified.told).exists():
                partial.rename(self._copy(verified.told))
        except OSError:
            if not self._copy(verified.told).exists():
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _fits(self, told: names.Told, manifest: Manifest) -> None:
        adapters.check(told, manifest)
