"""What a platform switches on for the guard: a feature gate of Trainer, and two sections of Muster's configuration."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from e2e.cluster import upstream
from e2e.suites.support import musters, waits
from e2e.suites.support.kubectls import Kubectl
from muster.webhook import installer

__all__ = ["IMAGE", "configured", "with_status"]

IMAGE = os.environ.get("MUSTER_E2E_IMAGE", "localhost/muster:e2e")
"""Muster's own image, as the nodes have it."""

_TRAINER = ("kubeflow-trainer-controller-manager", "kubeflow-system")
_CONFIG, _KEY = "kubeflow-trainer-config", "controller_manager_config.yaml"
# One replica needs no lease, which it would lose, and end, when the machine is busy with trainings.
_STATUS = {"featureGates": {"TrainJobStatus": True}, "leaderElection": {"leaderElect": False}}
_SERVES = "Starting runtime status server"
_ROLLOUT = 180


@contextlib.contextmanager
def with_status(kubectl: Kubectl) -> Iterator[None]:
    """Have Trainer keep what trainings post as `status.trainerStatus`, which 2.3 does not by default; then back."""
    found = kubectl.get("configmap", _CONFIG, _TRAINER[1])
    assert found is not None, f"there is no ConfigMap {_CONFIG}"
    before = str(found["data"][_KEY])
    _restarted(kubectl, musters.changed(before, _STATUS))
    waits.until("Trainer to serve statuses", lambda: _SERVES in _log(kubectl), 60)
    try:
        yield
    finally:
        _restarted(kubectl, before)


@contextlib.contextmanager
def configured(kubectl: Kubectl, changes: Mapping[str, Any]) -> Iterator[None]:
    """Install Muster again, by `muster install`, with further keys of the configuration; then as before."""
    found = kubectl.get("configmap", "muster", "muster-system")
    assert found is not None, "there is no ConfigMap muster-system/muster"
    before = str(found["data"]["muster.yaml"])
    _installed(kubectl, musters.changed(before, changes))
    try:
        yield
    finally:
        _installed(kubectl, before)
        # `muster install` takes away the rights of controllers that the configuration has off; the suites start them.
        kubectl.apply(*upstream.writers(), server_side=True).expect()


def _installed(kubectl: Kubectl, config: str) -> None:
    tool = installer.Kubectl(Path(kubectl.binary), Path(kubectl.kubeconfig))
    installer.install(tool, installer.Installation(image=IMAGE, config=config), lambda _: None)
    # A replica that ends still answers, by the configuration that it has read.
    waits.until("the Muster before to be gone", lambda: _is_alone(kubectl), 90)
    musters.wait_ready(kubectl, 60)


def _is_alone(kubectl: Kubectl) -> bool:
    deployment = kubectl.get("deployment", "muster", "muster-system")
    pods = kubectl.all("pods", "muster-system", "app.kubernetes.io/name=muster")
    return deployment is not None and len(pods) == deployment["spec"]["replicas"]


def _restarted(kubectl: Kubectl, config: str) -> None:
    name, namespace = _TRAINER
    kubectl.patch("configmap", _CONFIG, namespace, {"data": {_KEY: config}}).expect()
    kubectl.run("rollout", "restart", f"deployment/{name}", "-n", namespace).expect()
    which = (f"deployment/{name}", "-n", namespace, f"--timeout={_ROLLOUT}s")
    kubectl.run("rollout", "status", *which, timeout=_ROLLOUT + 10).expect()
    waits.until("the Trainer before to be gone", lambda: len(_pods(kubectl)) == 1, 60)


def _pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    return kubectl.all("pods", _TRAINER[1], "app.kubernetes.io/component=manager")


def _log(kubectl: Kubectl) -> str:
    return kubectl.run("logs", f"deployment/{_TRAINER[0]}", "-n", _TRAINER[1], "--tail=-1").out
