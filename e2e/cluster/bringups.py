"""Brings a cluster up, step by step, and takes it down whatever state it is in."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from e2e.cluster import builds, commands, controlplane, credentials, kwok, managers, ports, processes, sites, upstream
from e2e.cluster.errors import ClusterError
from e2e.cluster.places import REPOSITORY, Places

__all__ = ["down", "up"]

_FAST = {"qps": 300, "burst": 600}


def up(places: Places, tier: sites.Tier) -> None:
    """Bring a cluster up in its state folder; nothing happens when it is up.

    Raises:
        ClusterError: it cannot be built or started; what was started until then keeps running, for its logs, until
            `down`.
    """
    if processes.running(places):
        if sites.load(places).tier != tier:
            raise ClusterError(f"{places.state}: a cluster of the other tier is up here; bring it down first")
        return
    binaries = builds.binaries()
    shutil.rmtree(places.state, ignore_errors=True)
    places.make()
    begun = time.monotonic()
    if tier == "node":
        from e2e.cluster import node

        site = node.prepare(places, binaries)
    else:
        site = _loopback()
    site.save(places)
    credentials.make(places, site)
    controlplane.start(places, site, binaries)
    kwok.start(places, site, binaries)
    kubectl = binaries / "kubectl"
    upstream.apply(kubectl, [kwok.node("kwok-0"), kwok.node("kwok-1")], places.kubeconfig)
    if tier == "node":
        node.install(places, site, binaries)
    else:
        _install(places, site, binaries)
    upstream.apply(kubectl, _runtimes(places, kubectl), places.kubeconfig)
    _write_env(places, site, binaries)
    commands.say(f"{tier} tier is up in {time.monotonic() - begun:.0f} s: {places.state}")


def down(places: Places) -> None:
    """End what runs for this cluster and remove its folder; also after a crash in the middle of `up`."""
    processes.end_all(places)
    if (places.state / "node").exists():
        from e2e.cluster import node

        node.clear(places)
    shutil.rmtree(places.state, ignore_errors=True)


def _loopback() -> sites.Site:
    chosen = ports.choose(len(fields(sites.Ports)))
    return sites.Site(tier="control-plane", address="127.0.0.1", ports=sites.Ports(*chosen))


def _install(places: Places, site: sites.Site, binaries: Path) -> None:
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
    documents = upstream.kustomize(binaries / "kubectl", REPOSITORY / "manifests" / "base")
    account, port = ("muster-system", "muster"), site.ports.muster
    command = (sys.executable, "-m", "webhook", "serve", "--config", "{config}")
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


def _runtimes(places: Places, kubectl: Path) -> list[upstream.Document]:
    ours = upstream.kustomize(kubectl, REPOSITORY / "manifests" / "runtimes")
    taken = {document["metadata"]["name"] for document in ours}
    theirs = upstream.runtimes(kubectl, places.state / "upstream" / "runtimes")
    return [*ours, *(document for document in theirs if document["metadata"]["name"] not in taken)]


def _write_env(places: Places, site: sites.Site, binaries: Path) -> None:
    again = [sys.executable, "-m", "e2e.cluster", "restart", "kube-apiserver", "--kill", "--state", str(places.state)]
    values = {
        "KUBECONFIG": places.kubeconfig,
        "MUSTER_E2E_KUBECTL": binaries / "kubectl",
        "MUSTER_E2E_STATE": places.state,
        "MUSTER_E2E_TIER": site.tier,
        "MUSTER_E2E_RESTART_API_SERVER": f"cd {shlex.quote(str(REPOSITORY))} && {shlex.join(again)}",
    }
    places.env.write_text("".join(f"{key}={shlex.quote(str(value))}\n" for key, value in values.items()))
