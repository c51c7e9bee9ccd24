"""Shared certificates seen from outside: the Secret, the bundles, the Lease, the replicas."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import yaml
from cryptography import x509

from e2e.cluster.places import REPOSITORY
from e2e.suites.support import waits
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl

__all__ = ["NAMESPACE", "SECRET", "Shared", "installed"]

NAMESPACE, SECRET = "muster-system", "muster-ca"
_RBAC = REPOSITORY / "manifests" / "overlays" / "production" / "rbac-certificates.yaml"
_LEASE = {"name": "muster-certificates", "duration": 6, "deadline": 4, "retry": 1}
_KINDS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
_SHOWN = (
    "import hashlib, ssl; shown = ssl.get_server_certificate(('127.0.0.1', 8443));"
    " print(hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest())"
)
_BEGIN = "-----BEGIN CERTIFICATE-----"

Bundles = Mapping[str, list[str]]


class Shared:
    """The objects by which replicas share certificates.

    Args:
        kubectl: kubectl for the cluster.

    Attributes:
        replicas: the number last set by `scale`, 0 for a process.
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
        """Return the certificates in the bundles, base64, the newest first; all entries must have the same."""
        found = {bundle for each in self.bundles().values() for bundle in each}
        assert len(found) == 1, f"{len(found)} different bundles"
        return _certificates(base64.b64decode(found.pop()).decode())

    def authorities(self) -> list[str]:
        """Return the certificates in the Secret, base64, the newest first; none without a Secret."""
        found = self._kubectl.get("secret", SECRET, NAMESPACE)
        return _certificates(base64.b64decode(found["data"]["authorities.pem"]).decode()) if found else []

    def wait_young(self, seconds: float) -> None:
        """Wait until the newest authority is in the bundles and has so many seconds left.

        No authority comes into use without the API server: an outage may last as long as what is left of the newest.
        """

        def look() -> bool:
            newest = self.authorities()[:1]
            return bool(newest) and newest[0] in self.trusted() and _left(newest[0]) >= seconds

        waits.until(f"an authority in the bundles with {seconds:.0f} s left", look, 60)

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

    def pods(self) -> list[str]:
        """Return the names of the replicas that are there and are to stay."""
        found = self._kubectl.all("pods", NAMESPACE, "app.kubernetes.io/name=muster")
        return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def memory(self, pod: str) -> int:
        """Return what the process of a replica has resident, bytes; 0 when it has not begun or has ended."""
        script = "print(open('/proc/1/status').read())"
        outcome = self._kubectl.run("exec", "-n", NAMESPACE, pod, "--", "python3", "-c", script)
        lines = [line for line in outcome.out.splitlines() if line.startswith("VmRSS:")]
        return int(lines[0].split()[1]) * 1024 if lines else 0

    def served(self, pod: str) -> str:
        """Return SHA-256 of the certificate that a replica shows on its own port, "" when it shows none."""
        outcome = self._kubectl.run("exec", "-n", NAMESPACE, pod, "--", "python3", "-c", _SHOWN)
        return outcome.out.strip()

    def restart(self) -> None:
        """Replace every replica, one after the other."""
        self._kubectl.run("rollout", "restart", "deployment/muster", "-n", NAMESPACE).expect()
        self.rolled_out()

    def rolled_out(self) -> None:
        """Wait until every replica is ready."""
        told = ("rollout", "status", "deployment/muster", "-n", NAMESPACE, "--timeout=170s")
        self._kubectl.run(*told, timeout=180).expect()

    def wait_leader(self, other_than: str = "", seconds: float = 90) -> str:
        """Wait until a replica, another than this one, holds the Lease; return its name."""

        def look() -> str:
            holder = self.leader()
            return holder if holder != other_than else ""

        return waits.within(f"a leader other than {other_than or 'none'}", look, seconds)

    def _entries(self, kind: str) -> list[dict[str, Any]]:
        found = self._kubectl.get(kind, "muster", None)
        assert found is not None, f"there is no {kind} muster"
        entries: list[dict[str, Any]] = json.loads(json.dumps(found["webhooks"]))
        return entries


@contextmanager
def installed(kubectl: Kubectl, installation: Installation, lives: Mapping[str, int]) -> Iterator[Shared]:
    """Run Muster with certificates that its replicas share, two of them where it is a Deployment; then as before.

    Args:
        kubectl: kubectl for the cluster.
        installation: Muster.
        lives: `settle`, `interval`, `authorityValidity` and `leafValidity` of `tls.secret`, seconds.
    """
    rules = list(yaml.safe_load_all(_RBAC.read_text()))
    made = Shared(kubectl)
    bundles = made.bundles()
    kubectl.apply(*rules).expect()
    secret = {"name": SECRET, "lease": _LEASE, **lives}
    tls = {"certFile": None, "keyFile": None, "caFile": None, "names": ["127.0.0.1"], "secret": secret}
    try:
        with installation.configure({"tls": tls}):
            made.scale(2)
            yield made
            made.scale(1)
            # The former certificate is served again when the block ends, and must be trusted then.
            made.trust(bundles)
    finally:
        made.trust(bundles)
        kubectl.delete("secret", SECRET, NAMESPACE)
        kubectl.delete("lease", str(_LEASE["name"]), NAMESPACE)
        for each in rules:
            kubectl.delete(each["kind"].lower(), each["metadata"]["name"], each["metadata"].get("namespace"))


def _bundle(entry: Mapping[str, Any]) -> str:
    return str(entry["clientConfig"].get("caBundle") or "")


def _left(body: str) -> float:
    certificate = x509.load_der_x509_certificate(base64.b64decode(body))
    return (certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds()


def _certificates(pem: str) -> list[str]:
    blocks = (each.partition("-----END CERTIFICATE-----")[0] for each in pem.split(_BEGIN)[1:])
    return [each.strip() for each in blocks]
