"""etcd, the API server, the controller manager and the scheduler, with the flags that matter here.

Durability is given away for speed (`--unsafe-no-fsync`): a cluster lives as long as its tests.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from e2e.cluster import credentials, processes
from e2e.cluster.errors import ClusterError
from e2e.cluster.places import Places
from e2e.cluster.sites import Site

__all__ = ["start"]

_API_PATIENCE = 60.0
# Tests make many objects at once; the defaults (20 or 50 a second) would only add waiting.
_CLIENT = ("--kube-api-qps=300", "--kube-api-burst=600")


def start(places: Places, site: Site, binaries: Path) -> None:
    """Start all four and wait until the API server is ready.

    Raises:
        ClusterError: it does not become ready; the message names the log.
    """
    _start(places, site, "etcd", _etcd(places, site, binaries), site.ports.etcd)
    _start(places, site, "kube-apiserver", _api_server(places, site, binaries), site.ports.api)
    _wait_for_api(places, site)
    _start(places, site, "kube-controller-manager", _controller_manager(places, site, binaries))
    _start(places, site, "kube-scheduler", _scheduler(places, site, binaries))


def _start(places: Places, site: Site, name: str, command: list[str], port: int | None = None) -> None:
    listens = None if port is None else (site.address, port)
    processes.start(places, name, [*site.prefix, *command], listens=listens)


def _etcd(places: Places, site: Site, binaries: Path) -> list[str]:
    peer = f"http://{site.address}:{site.ports.etcd_peer}"
    return [
        f"{binaries}/etcd",
        f"--data-dir={places.state}/etcd",
        f"--listen-client-urls={site.etcd}",
        f"--advertise-client-urls={site.etcd}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(places: Places, site: Site, binaries: Path) -> list[str]:
    key = credentials.service_account_key(places)
    command = [
        f"{binaries}/kube-apiserver",
        f"--etcd-servers={site.etcd}",
        f"--bind-address={site.address}",
        f"--advertise-address={site.address}",
        f"--secure-port={site.ports.api}",
        f"--cert-dir={credentials.api_certificate(places).parent}",
        f"--token-auth-file={credentials.tokens(places)}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={site.services}",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        "--shutdown-delay-duration=0s",
    ]
    # Loopback is refused as an endpoint of the Service `kubernetes`; without nodes nobody looks for it.
    return [*command, "--endpoint-reconciler-type=none"] if site.tier == "control-plane" else command


def _controller_manager(places: Places, site: Site, binaries: Path) -> list[str]:
    return [
        f"{binaries}/kube-controller-manager",
        f"--kubeconfig={places.kubeconfig}",
        f"--bind-address={site.address}",
        f"--secure-port={site.ports.controller_manager}",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        f"--service-account-private-key-file={credentials.service_account_key(places)}",
        f"--root-ca-file={credentials.api_certificate(places)}",
        "--concurrent-job-syncs=20",
        *_CLIENT,
    ]


def _scheduler(places: Places, site: Site, binaries: Path) -> list[str]:
    # The flags for client rates exist, but not for the kubeconfig beside them; a file has both.
    config = places.configs / "scheduler.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(places.kubeconfig), "qps": 300, "burst": 600},
    }
    config.write_text(json.dumps(document))
    return [
        f"{binaries}/kube-scheduler",
        f"--config={config}",
        f"--bind-address={site.address}",
        f"--secure-port={site.ports.scheduler}",
    ]


def _wait_for_api(places: Places, site: Site) -> None:

    deadline = time.monotonic() + _API_PATIENCE
    token = credentials.tokens(places).read_text().partition(",")[0]
    request = urllib.request.Request(f"{site.server}/readyz", headers={"Authorization": f"Bearer {token}"})
    while time.monotonic() < deadline:
        try:
            trust = ssl.create_default_context(cafile=credentials.api_certificate(places))
            with urllib.request.urlopen(request, timeout=2, context=trust) as answer:
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    raise ClusterError(f"the API server is not ready after {_API_PATIENCE:.0f} s; see {places.log('kube-apiserver')}")
