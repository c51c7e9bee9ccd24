"""Which weights a sampler serves, and which it may serve next; knows neither vLLM nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from muster_weights import adapters, names, readings
from muster_weights.manifests import Manifest
from muster_weights.refusals import Missing, Refused

__all__ = ["Shapes", "State"]

Shapes = Mapping[str, tuple[int, ...]]


class State:
    """The weights of one sampler.

    Args:
        root: the folder that it was started with.
        shapes: of all tensors that a version must have; empty where nobody knows them.

    Attributes:
        run: whose versions are taken; None before a trainer came.
        served: the version that was loaded last; None for the model as it was started.
    """

    def __init__(self, root: Path, shapes: Shapes) -> None:
        self._root = root
        self._shapes = shapes
        self._beside = ThreadPoolExecutor(1, "muster-weights")
        self._asked: names.Told | None = None
        self._found: Future[readings.Verified] | None = None
        self.run: str | None = None
        self.served: names.Told | None = None

    def bind(self, run: Any) -> None:
        """Take the versions of a run from now on. Raises `Refused` for what is not a name of a run."""
        self.run = names.valid(run)

    def check(self, told: names.Told) -> None:
        """Raise `Refused` for a version of another run, an older one, and the served number with other contents."""
        if told.run != self.run:
            raise Refused(f"{told.text}: is of another run than {self.run}: start one trainer for each sampler")
        if self.served is None or self.served.run != told.run or told == self.served:
            return
        if told.version <= self.served.version:
            raise Refused(f"{told.text}: {self.served.text} is served already: publish a higher version")

    def stage(self, told: names.Told) -> dict[str, Any]:
        """Verify a version beside the serving, and say how far that is.

        Returns:
            `state`: `verifying`, `verified`, `missing` or `refused`; and the `reason` of the last two.
        """
        try:
            self.check(told)
            return self._staged(told)
        except Missing as reason:
            return {"state": "missing", "reason": str(reason)}
        except Refused as reason:
            return {"state": "refused", "reason": str(reason)}

    def take(self, told: names.Told) -> readings.Verified:
        """Return a verified version, and wait where it was not staged before. Raises `Refused` for all others."""
        self.check(told)
        self._begin(told)
        if self._asked != told or self._found is None:
            raise Refused(f"{told.text}: another version is being verified: wait for it")
        found, self._asked, self._found = self._found, None, None
        verified = found.result()
        if not verified.unchanged():
            raise Refused(f"{told.text}: changed after it was verified: let nobody else write to this folder")
        return verified

    def told(self) -> dict[str, Any]:
        """Return run, version and digest of what is served, as JSON."""
        served = self.served
        return {"run": self.run, "version": served and served.version, "digest": served and served.digest}

    def close(self) -> None:
        """End the verification."""
        self._beside.shutdown(wait=False, cancel_futures=True)

    def _staged(self, told: names.Told) -> dict[str, Any]:
        self._begin(told)
        if self._asked != told or self._found is None or not self._found.done():
            return {"state": "verifying"}
        if self._found.exception() is not None:
            found, self._asked, self._found = self._found, None, None
            found.result()
        return {"state": "verified"}

    def _begin(self, told: names.Told) -> None:
        """Start to verify, unless that is on its way; one at a time."""
        if self._asked == told or (self._found is not None and not self._found.done()):
            return
        if self._found is not None and self._found.exception() is None:
            self._found.result().close()
        self._asked, self._found = told, self._beside.submit(self._verified, told)

    def _verified(self, told: names.Told) -> readings.Verified:
        try:
            verified = readings.verify(self._root, told)
        except OSError as fault:
            raise Refused(
                f"{told.text}: cannot be read ({fault}): look at the volume, then publish it again"
            ) from fault
        try:
            self._fits(told, verified.manifest)
        except Refused:
            verified.close()
            raise
        return verified

    def _fits(self, told: names.Told, manifest: Manifest) -> None:
        if adapters.is_adapter(manifest):
            raise Refused(f"{told.text}: is an adapter and no whole model: its trainer loads it as an adapter")
        found = {each.name: each.shape for each in manifest.tensors}
        for name, shape in found.items() if self._shapes else ():
            if self._shapes.get(name) != shape:
                ours = self._shapes.get(name, "not in the model")
                raise Refused(f"{told.text}: {name}: {shape}, here {ours}: give both roles the same model and revision")
        lacking = sorted(self._shapes.keys() - found.keys())
        if lacking:
            raise Refused(f"{told.text}: lacks {len(lacking)} tensors, first {lacking[0]}: publish the whole model")
