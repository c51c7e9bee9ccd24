"""controller-runtime, the library of most Go webhooks: `binaries/ours/typed` and `binaries/ours/patches`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.labs import PINS, Lab
from bench.peers.shapes import Served
from e2e.cluster import builds

__all__ = ["MODULE", "PATCHES", "PATCHES_BOTH", "TYPED", "ControllerRuntime"]

MODULE = builds.Module("ours", root=PINS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRuntime(Served):
    """One of our webhooks on controller-runtime's manager, with metrics and TLS."""

    def versions(self) -> dict[str, str]:
        """Return the version of controller-runtime."""
        return {"controller-runtime": builds.version(MODULE, "sigs.k8s.io/controller-runtime")}

    def command(self, lab: Lab) -> Sequence[str | Path]:
        """Return its command line."""
        return (
            lab.binaries / self.program,
            f"--port={lab.port(self.program)}",
            f"--metrics=127.0.0.1:{lab.port(f'{self.program} metrics')}",
            f"--certificates={lab.certificates()}",
        )


TYPED = ControllerRuntime(
    name="cr-typed",
    title="controller-runtime, typed",
    program="typed",
    note="The object is decoded into its type and encoded again, and the patch is the difference "
    "(PatchResponseFromRaw), as controller-runtime's documentation leads to.",
)
PATCHES = ControllerRuntime(
    name="cr-patches",
    title="controller-runtime, direct patches",
    program="patches",
    note="It decodes the fields that it looks at, and writes the operations of the patch itself.",
)
PATCHES_BOTH = ControllerRuntime(
    name="cr-patches-both",
    title="controller-runtime, direct patches, both phases",
    program="patches",
    validates="/validate",
    judges=True,
    note="As the one before, with one rule as its validation.",
)
