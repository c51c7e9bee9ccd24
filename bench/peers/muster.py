"""Muster as its manifests install it: TLS, audit file and metrics on, and its own webhook configurations."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass
from typing import Any

import yaml

from bench.peers import changes, packages, servers
from bench.peers.labs import Lab
from bench.peers.shapes import Peer
from e2e.cluster import places, processes

__all__ = ["ALL", "Muster"]

_COMPONENT = "muster"
_REQUIREMENTS = places.REPOSITORY / "requirements" / "run.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Muster(Peer):
    """The service of this checkout; with `validates` both of its phases."""

    validates: bool = True

    def prepare(self, lab: Lab) -> None:
        """Offer the profile of the rows with claims, and the class of its devices."""
        path = lab.where.configs / f"{_COMPONENT}.yaml"
        config: dict[str, Any] = yaml.safe_load(path.read_text())
        profile = {"deviceClass": "gpu.nvidia.com", "count": 4, "replaces": "nvidia.com/gpu"}
        path.write_text(yaml.safe_dump({**config, "profiles": {changes.PROFILE: profile}}, sort_keys=False))
        metadata = {"name": "gpu.nvidia.com"}
        lab.apply({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": {}})

    def start(self, lab: Lab) -> None:
        """Start `muster serve` as the cluster's own component, with its ServiceAccount's rights."""
        processes.again(lab.where, _COMPONENT)

    def ready(self, lab: Lab) -> bool:
        """Whether its readiness probe would let traffic in."""
        trust = lab.where.credentials / _COMPONENT / "k8s-webhook-server" / "serving-certs" / "ca.crt"
        return servers.Server(f"https://127.0.0.1:{lab.site.ports.muster}", trust).ready("/readyz")

    def register(self, lab: Lab) -> None:
        """Apply its own configurations."""
        lab.apply(*self._configurations(lab))

    def unregister(self, lab: Lab) -> None:
        """Delete them."""
        lab.delete(*self._configurations(lab))

    def stop(self, lab: Lab) -> None:
        """End its process by its id."""
        processes.end(lab.where, _COMPONENT)

    def component(self) -> str:
        """Return the name of the cluster's component."""
        return _COMPONENT

    def size(self, lab: Lab) -> int:
        """Return the bytes of the packages in requirements/run.txt; an interpreter is beside them."""
        del lab
        return packages.size(packages.names(_REQUIREMENTS.read_text(encoding="utf-8")))

    def versions(self) -> dict[str, str]:
        """Return Muster's own version."""
        return {"Muster": f"{importlib.metadata.version('muster-admission')} on Python {platform.python_version()}"}

    def _configurations(self, lab: Lab) -> list[dict[str, Any]]:
        phases = ["mutatingwebhookconfiguration", *(["validatingwebhookconfiguration"] if self.validates else [])]
        return [lab.registered[phase] for phase in phases]


_BOTH = "All of its checks are in the validating phase, and both phases write a record of audit."
_CLAIM = "The job asks for a claim profile as well, which is written on the JobSet."

ALL = (
    Muster(name="muster-mutate", title="Muster, mutation alone", validates=False),
    Muster(name="muster", title="Muster, both phases", note=_BOTH),
    Muster(
        name="muster-mutate-claims",
        title="Muster, mutation alone, with a claim",
        note=_CLAIM,
        lacks=(),
        claims=True,
        validates=False,
    ),
    Muster(name="muster-claims", title="Muster, both phases, with a claim", note=_CLAIM, lacks=(), claims=True),
)
