"""helm, as a platform engineer types it, in a cluster from which Muster was taken for as long."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import upstream
from e2e.cluster.places import REPOSITORY
from e2e.suites.support import waits
from e2e.suites.support.kubectls import Kubectl
from muster.webhook import installer

__all__ = ["NAMESPACE", "RELEASE", "Helm", "alone"]

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


@contextmanager
def alone(kubectl: Kubectl, home: Path) -> Iterator[Helm]:
    """Take Muster out of the cluster, and give helm to install it; afterwards it is installed as before.

    Skips the test where Muster is not a Deployment, and where there is no helm.

    Args:
        kubectl: kubectl for the cluster.
        home: a folder for helm.
    """
    deployment = kubectl.get("deployment", "muster", NAMESPACE)
    if deployment is None:
        pytest.skip("Muster is a process in this cluster; the node tier runs it in pods")
    binary = Path(kubectl.binary).with_name("helm")
    found = str(binary) if binary.exists() else shutil.which("helm")
    if found is None:
        pytest.skip("helm is neither beside kubectl nor on PATH")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    program = installer.Kubectl(kubectl.binary, Path(kubectl.kubeconfig))
    installer.uninstall(program, lambda _: None)
    made = Helm(
        found, kubectl, REPOSITORY / "manifests" / "chart", image, {"PATH": os.environ["PATH"], "HOME": str(home)}
    )
    try:
        yield made
    finally:
        made.uninstall()
        made.remove_namespace()
        installer.install(program, installer.Installation(image=image), lambda _: None)
        kubectl.apply(*upstream.writers(), server_side=True).expect()
