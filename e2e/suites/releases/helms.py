"""helm, as a platform engineer types it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl

__all__ = ["NAMESPACE", "RELEASE", "Helm"]

NAMESPACE, RELEASE = "muster-system", "muster"


class Helm:
    """One release of the chart in one cluster.

    Args:
        binary: path of helm.
        kubectl: kubectl for the cluster.
        chart: the folder.
        image: the image of Muster, which is on the nodes already.
        environment: the environment of helm.
    """

    def __init__(self, binary: str, kubectl: Kubectl, chart: Path, image: str, environment: Mapping[str, str]) -> None:
        self._kubectl = kubectl
        self._command = [binary, "--kubeconfig", kubectl.kubeconfig, "--namespace", NAMESPACE]
        self._chart = str(chart)
        self._environment = dict(environment)
        repository, _, tag = image.rpartition(":")
        self._values: dict[str, Any] = {
            "image": {"registry": "", "repository": repository, "tag": tag},
            "runtimes": {"trlDistributed": {"enabled": False}},
        }

    def install(self, values: Mapping[str, Any] | None = None) -> str:
        """Install and wait until every replica is ready; return what helm says."""
        return self._run("install", RELEASE, self._chart, "--create-namespace", values=values)

    def upgrade(self, values: Mapping[str, Any] | None = None) -> str:
        """Upgrade to these values and wait until every replica is ready."""
        return self._run("upgrade", RELEASE, self._chart, values=values)

    def uninstall(self) -> str:
        """Uninstall; nothing happens when there is no release."""
        return self._run("uninstall", RELEASE, "--ignore-not-found")

    def remove_namespace(self) -> None:
        """Delete the namespace of the release, and wait until it is gone."""
        # Kubernetes looks again after half of the longest grace of a pod that was left, and again.
        self._kubectl.run("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false").expect()
        waits.until(f"namespace {NAMESPACE} to be gone", lambda: self._kubectl.get("namespace", NAMESPACE) is None, 60)

    def _run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        given = [] if arguments[0] == "uninstall" else ["--values", "-"]
        command = [*self._command, *arguments, "--wait", "--timeout", "170s", *given]
        text = json.dumps({**self._values, **(values or {})}) if given else None
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=180, check=False, env=self._environment
        )
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout
