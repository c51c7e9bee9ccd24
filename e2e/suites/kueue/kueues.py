"""Kueue, as a process beside a cluster of the control plane's tier, from its own manifests."""

from __future__ import annotations

import base64
import ipaddress
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.utils import CryptographyDeprecationWarning

from e2e.cluster import builds, managers, ports, processes, sites, upstream
from e2e.cluster.places import Places
from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl

__all__ = ["MULTIKUEUE", "NAMESPACE", "admission", "queue", "start", "workload"]

NAMESPACE = "kueue-system"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""The controller that hands a job to another cluster, as `spec.managedBy` names it."""

_FLAVOR = "any"
_KUEUE = "sigs.k8s.io/kueue"
_API = "kueue.x-k8s.io/v1beta2"
_FRAMEWORKS = ("jobset", "trainjob")
_SERVED = ("clusterqueue", "cohort", "resourceflavor", "workload", *_FRAMEWORKS)
"""The kinds whose webhooks Kueue answers with these frameworks; its manifests name those of all frameworks."""
_NOT_HERE = {"APIService", "Deployment", "Service"}
_SECRET = "kueue-webhook-server-cert"


def start(state: Path, kubectl: Path, binary: Path) -> None:
    """Install and start Kueue in a cluster, and wait until its queues can be made.

    Args:
        state: state folder of the cluster.
        kubectl: path of kubectl.
        binary: path of Kueue's program.
    """
    places = Places(state)
    site = sites.load(places)
    port, health, metrics = ports.choose(3)
    documents = [
        _served(each)
        for each in upstream.kustomize(kubectl, builds.module_folder("kueue", _KUEUE) / "config" / "default")
        if each["kind"] not in _NOT_HERE
    ]
    config: dict[str, Any] = managers.config_of(documents, "kueue-manager-config", "controller_manager_config.yaml")
    config |= {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 300, "burst": 600},
        "integrations": {"frameworks": ["jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]},
    }
    command = (str(binary), "--config={config}", "--zap-log-level=2", "--feature-gates=VisibilityOnDemand=false")
    account = (NAMESPACE, "kueue-controller-manager")
    manager = managers.Manager("kueue", documents, command, account, config, port)
    folder = manager.certificates(places)
    config["webhook"] = {"port": port, "host": "127.0.0.1", "certDir": str(folder)}
    for each in documents:
        if "conversion" in each.get("spec", {}):
            each["spec"]["conversion"]["webhook"]["clientConfig"] = {"url": f"https://127.0.0.1:{port}/convert"}
    managers.prepare(places, kubectl, [manager])
    upstream.apply(kubectl, [each for each in documents if each["kind"] == "Secret"], places.kubeconfig)
    # Kueue makes an authority and writes it into its webhook configurations, so these exist before Kueue starts.
    managers.webhooks(places, kubectl, [manager])
    managers.start(places, site, kubectl, manager)
    _signed(Kubectl(str(places.kubeconfig), str(kubectl)), folder)
    processes.wait(places, manager.name)


def _signed(kubectl: Kubectl, folder: Path) -> None:
    """Give Kueue a certificate of its own authority for the address at which it listens, in place of a Service's."""

    def made() -> dict[str, str]:
        found = kubectl.get("secret", _SECRET, NAMESPACE) or {}
        return dict(found.get("data") or {})

    data = {name: base64.b64decode(text) for name, text in waits.until("Kueue's authority", made, 60).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)  # the serial number of Kueue's authority is 0
        authority = x509.load_pem_x509_certificate(data["ca.crt"])
    signer = serialization.load_pem_private_key(data["ca.key"], None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    key = rsa.generate_private_key(65537, 2048)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(authority.not_valid_before_utc)
        .not_valid_after(authority.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
        .sign(signer, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "tls.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain))
    (folder / "tls.crt").write_bytes(leaf.public_bytes(pem))


def _served(document: upstream.Document) -> upstream.Document:
    """Return a document without webhooks of kinds that Kueue is not configured for."""
    if "webhooks" not in document:
        return document
    kept = [each for each in document["webhooks"] if each["name"].removesuffix(".kb.io")[1:] in _SERVED]
    return {**document, "webhooks": kept}


def queue(kubectl: Kubectl, namespace: str, quota: Mapping[str, str | int], *, checks: Sequence[str] = ()) -> None:
    """Make a LocalQueue `queue` in a namespace, with a ClusterQueue of the namespace's name.

    Args:
        kubectl: kubectl for the cluster.
        namespace: the namespace of jobs.
        quota: nominal quota of each resource.
        checks: names of AdmissionChecks.
    """
    flavors = [
        {"name": _FLAVOR, "resources": [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]}
    ]
    spec: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "resourceGroups": [{"coveredResources": [*quota], "flavors": flavors}],
    }
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": each} for each in checks]}
    made = (
        {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": _FLAVOR}, "spec": {}},
        {"apiVersion": _API, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": spec},
        {
            "apiVersion": _API,
            "kind": "LocalQueue",
            "metadata": {"name": "queue", "namespace": namespace},
            "spec": {"clusterQueue": namespace},
        },
    )
    # Kueue's webhooks are registered just before; the API server asks them a moment later.
    waits.until("Kueue to take queues", lambda: kubectl.apply(*made, server_side=True).ok, 60)


def admission(kubectl: Kubectl, name: str, kubeconfig: str) -> None:
    """Make an AdmissionCheck that hands jobs to the worker cluster of a kubeconfig.

    Args:
        kubectl: kubectl for the manager cluster.
        name: of the check, its configuration, its cluster and its Secret.
        kubeconfig: text of the worker's kubeconfig.
    """
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
    source = {"kubeConfig": {"locationType": "Secret", "location": name}}
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "stringData": {"kubeconfig": kubeconfig},
        },
        {
            "apiVersion": _API,
            "kind": "MultiKueueCluster",
            "metadata": {"name": name},
            "spec": {"clusterSource": source},
        },
        {"apiVersion": _API, "kind": "MultiKueueConfig", "metadata": {"name": name}, "spec": {"clusters": [name]}},
        {
            "apiVersion": _API,
            "kind": "AdmissionCheck",
            "metadata": {"name": name},
            "spec": {"controllerName": MULTIKUEUE, "parameters": reference},
        },
        server_side=True,
    ).expect()

    def active() -> bool:
        found = kubectl.get("admissioncheck", name) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)

    waits.until(f"AdmissionCheck {name} to reach its cluster", active, 60)


def workload(kubectl: Kubectl, namespace: str, job: str) -> dict[str, Any]:
    """Return the Workload of a job once Kueue has made it."""

    def look() -> dict[str, Any]:
        for each in kubectl.all("workloads", namespace):
            if any(owner["name"] == job for owner in each["metadata"].get("ownerReferences", ())):
                return each
        return {}

    return waits.until(f"a Workload of {job}", look, 60)


if __name__ == "__main__":  # Kueue ends with its cluster, so it is no child of the tests
    start(*map(Path, sys.argv[1:]))
