"""Shared certificates seen from outside: the Secret, the bundles, the Lease, the replicas."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl

__all__ = ["NAMESPACE", "SECRET", "Shared"]

NAMESPACE, SECRET = "muster-system", "muster-ca"
_KINDS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
_BEGIN = "-----BEGIN CERTIFICATE-----"

Bundles = Mapping[str, list[str]]


class Shared:
    """The objects by which replicas share certificates.

    Args:
        kubectl: of the cluster.

    Attributes:
        replicas: as last asked for by `scale`, 0 for a process.
    """

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self.replicas = 0

    def bundles(self) -> Bundles:
        """Return every entry's `caBundle`, base64, by kind."""
        return {kind: [_bundle(entry) for entry in self._entries(kind)] for kind in _KINDS}

    def trust(self, bundles: Bundles) -> None:
        """Write every entry's `caBundle`."""
        for kind, wanted in bundles.items():
            steps = [
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
                for index, bundle in enumerate(wanted)
            ]
            self._kubectl.patch(kind, "muster", None, steps, "json").expect()

    def trusted(self) -> list[str]:
        """Return the certificates in the bundles, PEM, the newest first; all entries must have the same."""
        found = {bundle for each in self.bundles().values() for bundle in each}
        assert len(found) == 1, f"{len(found)} different bundles"
        return _certificates(base64.b64decode(found.pop()).decode())

    def authorities(self) -> list[str]:
        """Return the certificates in the Secret, PEM, the newest first; none without a Secret."""
        found = self._kubectl.get("secret", SECRET, NAMESPACE)
        return _certificates(base64.b64decode(found["data"]["authorities.pem"]).decode()) if found else []

    def lose(self) -> None:
        """Delete the Secret."""
        self._kubectl.delete("secret", SECRET, NAMESPACE, wait=True).expect()

    def leader(self) -> str:
        """Return the holder of the Lease."""
        lease = self._kubectl.get("lease", "muster-certificates", NAMESPACE)
        return str(((lease or {}).get("spec") or {}).get("holderIdentity", ""))

    def scale(self, replicas: int) -> None:
        """Have so many replicas, where Muster is a Deployment, and wait until they are ready."""
        if self._kubectl.get("deployment", "muster", NAMESPACE) is None:
            return
        self._kubectl.run("scale", "deployment/muster", "-n", NAMESPACE, f"--replicas={replicas}").expect()
        self.rolled_out()
        self.replicas = replicas

    def restart(self) -> None:
        """Replace every replica, one after the other."""
        self._kubectl.run("rollout", "restart", "deployment/muster", "-n", NAMESPACE).expect()
        self.rolled_out()

    def rolled_out(self) -> None:
        """Wait until every replica is ready."""
        told = ("rollout", "status", "deployment/muster", "-n", NAMESPACE, "--timeout=170s")
        self._kubectl.run(*told, timeout=180).expect()

    def wait_leader(self, other_than: str = "", seconds: float = 30) -> str:
        """Wait until a replica, another than this one, holds the Lease; return its name."""

        def look() -> str:
            holder = self.leader()
            return holder if holder != other_than else ""

        return waits.until(f"a leader other than {other_than or 'none'}", look, seconds)

    def _entries(self, kind: str) -> list[dict[str, Any]]:
        found = self._kubectl.get(kind, "muster", None)
        assert found is not None, f"there is no {kind} muster"
        entries: list[dict[str, Any]] = json.loads(json.dumps(found["webhooks"]))
        return entries


def _bundle(entry: Mapping[str, Any]) -> str:
    return str(entry["clientConfig"].get("caBundle") or "")


def _certificates(pem: str) -> list[str]:
    blocks = (each.partition("-----END CERTIFICATE-----")[0] for each in pem.split(_BEGIN)[1:])
    return [each.strip() for each in blocks]
