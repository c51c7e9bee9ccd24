"""The steps of the control plane tier: everything is a process of this machine and listens on 127.0.0.1.

It needs neither root nor kernel features, so it runs wherever Python does. It cannot show pods that really run or
webhooks behind Services; the node tier shows those.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from e2e.cluster import managers, ports, processes, sites, upstream
from e2e.cluster.places import REPOSITORY, Places

__all__ = ["install", "prepare"]

_FAST = {"qps": 300, "burst": 600}


def prepare() -> sites.Site:
    """Choose the ports."""
    chosen = ports.choose(len(fields(sites.Ports)))
    return sites.Site(tier="control-plane", address="127.0.0.1", ports=sites.Ports(*chosen))


def install(places: Places, site: sites.Site, binaries: Path) -> None:
    """Install and start JobSet, Trainer and Muster, and then register their webhooks; the API server is up.

    Raises:
        ClusterError: one of them does not start; the message names its log.
    """
    kubectl = binaries / "kubectl"
    all_of_them = (_jobset(site, binaries), _trainer(places, site, binaries), _muster(places, site, binaries))
    managers.prepare(places, kubectl, all_of_them)
    for manager in all_of_them:
        managers.start(places, site, kubectl, manager)
    for manager in all_of_them:
        processes.wait(places, manager.name)
    managers.webhooks(places, kubectl, all_of_them)


def _jobset(site: sites.Site, binaries: Path) -> managers.Manager:
    documents = upstream.jobset(binaries / "kubectl")
    config: dict[str, Any] = managers.config_of(documents, "jobset-manager-config", "controller_manager_config.yaml")
    config |= {
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{site.ports.jobset_health}"},
        "webhook": {"port": site.ports.jobset, "host": "127.0.0.1"},
        "clientConnection": _FAST,
    }
    command = (f"{binaries}/jobset-controller-manager", "--config={config}", "--zap-log-level=2")
    account = ("jobset-system", "jobset-controller-manager")
    return managers.Manager("jobset", documents, command, account, config, site.ports.jobset)


def _trainer(places: Places, site: sites.Site, binaries: Path) -> managers.Manager:
    documents = upstream.trainer(binaries / "kubectl", places.state / "upstream" / "trainer")
    config: dict[str, Any] = managers.config_of(documents, "kubeflow-trainer-config", "controller_manager_config.yaml")
    config |= {
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {**config["health"], "healthProbeBindAddress": f"127.0.0.1:{site.ports.trainer_health}"},
        "webhook": {"port": site.ports.trainer, "host": "127.0.0.1"},
        "clientConnection": _FAST,
    }
    command = (f"{binaries}/trainer-controller-manager", "--config={config}", "--zap-log-level=2")
    account = ("kubeflow-system", "kubeflow-trainer-controller-manager")
    return managers.Manager("trainer", documents, command, account, config, site.ports.trainer)


def _muster(places: Places, site: sites.Site, binaries: Path) -> managers.Manager:
    documents = [*upstream.kustomize(binaries / "kubectl", REPOSITORY / "manifests" / "base"), *upstream.writers()]
    account, port = ("muster-system", "muster"), site.ports.muster
    command = (sys.executable, "-m", "muster", "serve", "--config", "{config}")
    config: dict[str, Any] = managers.config_of(documents, "muster", "muster.yaml")
    names = ("muster.muster-system.svc",)
    manager = managers.Manager("muster", documents, command, account, config, port, names)
    folder = manager.certificates(places)
    config |= {
        "server": {**config.get("server", {}), "host": "127.0.0.1", "port": port, "readinessDelay": 0},
        "tls": {"certFile": f"{folder}/tls.crt", "keyFile": f"{folder}/tls.key", "caFile": f"{folder}/ca.crt"},
        "cluster": {"source": "live", "kubeconfig": str(places.credentials / "muster" / "kubeconfig")},
        "audit": {"stdout": False, "file": {"path": str(places.log("audit"))}},
    }
    return manager
