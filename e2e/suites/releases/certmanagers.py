"""cert-manager beside the cluster: its definitions, its controllers, and what a person does with a Certificate."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2e.cluster import upstream
from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl

__all__ = ["CertManager", "running"]

_PROOF = 3.0  # seconds after which a program that cannot run has ended


class CertManager:
    """cert-manager, running.

    Args:
        kubectl: kubectl for the cluster.
        namespace: the namespace of the Certificates, whose Secrets have their names.
    """

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self._kubectl = kubectl
        self._namespace = namespace

    def fingerprint(self, secret: str) -> str:
        """Return SHA-256 of the certificate in a Secret, "" while there is none."""
        data = (self._kubectl.get("secret", secret, self._namespace) or {}).get("data") or {}
        pem = base64.b64decode(data.get("tls.crt", "")).decode()
        body = pem.partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END CERTIFICATE-----")[0]
        return hashlib.sha256(base64.b64decode(body)).hexdigest() if body else ""

    def authority(self, secret: str) -> str:
        """Return `ca.crt` of a Secret, base64, as a bundle has it."""
        found = self._kubectl.get("secret", secret, self._namespace)
        assert found is not None, f"there is no Secret {secret}"
        return str(found["data"]["ca.crt"])

    def renew(self, certificate: str) -> str:
        """Have a new certificate made now, as `cmctl renew` does; return its fingerprint when it is in the Secret."""
        before = self.fingerprint(certificate)
        found = self._kubectl.get("certificate", certificate, self._namespace)
        assert found is not None, f"there is no Certificate {certificate}"
        asked: dict[str, Any] = {
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "message": "Certificate re-issuance manually triggered",
            "observedGeneration": found["metadata"]["generation"],
        }
        # A merge patch replaces the list.
        conditions = [each for each in found["status"]["conditions"] if each["type"] != "Issuing"]
        status = {"status": {"conditions": [*conditions, asked]}}
        self._kubectl.patch("certificate", certificate, self._namespace, status, "merge", "status").expect()

        def look() -> str:
            now = self.fingerprint(certificate)
            return now if now != before else ""

        return waits.until(f"a new certificate in Secret {certificate}", look, 30)


@contextlib.contextmanager
def running(kubectl: Kubectl, namespace: str, log: Path) -> Iterator[CertManager]:
    """Run cert-manager; afterwards neither it nor its definitions are there."""
    definitions = upstream.cert_manager_definitions()
    kubectl.apply(*definitions, server_side=True).expect()
    binary = Path(kubectl.binary).with_name("certmanager")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [binary, "--kubeconfig", kubectl.kubeconfig], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PROOF)
        assert process.poll() is None, f"cert-manager ended with {process.returncode}:\n{log.read_text()[-4000:]}"
        yield CertManager(kubectl, namespace)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        for each in definitions:
            kubectl.delete("customresourcedefinition", each["metadata"]["name"], wait=True)
