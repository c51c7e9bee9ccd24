"""A spare: a second, real `muster serve` as a process on this machine, beside the installed Muster.

No webhook configuration names it, so it affects no other test: tests send it AdmissionReviews themselves.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import urllib.error
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import yaml

from e2e.cluster import ports
from e2e.cluster.places import REPOSITORY
from e2e.suites.support import metrics
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.waits import until

__all__ = ["Answer", "Spare", "kubeconfig"]

_APPLIED = "muster.dev/applied"
_PLURALS = {"TrainJob": "trainjobs", "JobSet": "jobsets"}


class Answer:
    """The answer to an AdmissionReview.

    Attributes:
        allowed: whether the job may be stored.
        message: why not.
        warnings: the warnings that its author gets.
        strategy: the framework whose strategy changed the job, "" for none.
    """

    def __init__(self, response: Mapping[str, Any]) -> None:
        self.allowed = bool(response["allowed"])
        self.message = str((response.get("status") or {}).get("message", ""))
        self.warnings: Sequence[str] = tuple(response.get("warnings") or ())
        operations = json.loads(base64.b64decode(response.get("patch", "")) or b"[]")
        memory = next((each["value"][_APPLIED] for each in operations if each["path"] == "/metadata/annotations"), "{}")
        self.strategy = str(json.loads(memory).get("strategy", ""))

    def __repr__(self) -> str:
        told = f"message={self.message!r}, warnings={self.warnings!r}"
        return f"Answer(allowed={self.allowed}, strategy={self.strategy!r}, {told})"


class Spare:
    """One such process; it begins and ends with the context.

    Args:
        folder: an empty folder for its files.
        kubeconfig: the kubeconfig by which it reaches the API server.
        config: further keys of its configuration file, which win.
    """

    def __init__(self, folder: Path, kubeconfig: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> None:
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._config = config or {}
        (self._port,) = ports.choose(1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it; it is not waited for."""
        (self._folder / "kubeconfig").write_text(json.dumps(self._kubeconfig))
        (self._folder / "muster.yaml").write_text(yaml.safe_dump(self._whole_config()))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "muster", "serve", "--config", str(self._folder / "muster.yaml")],
                cwd=REPOSITORY,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_SERVICE_")},
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it: nobody waits for its answers."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait_ready(self, seconds: float = 30) -> None:
        """Wait until it says that it is ready.

        Raises:
            AssertionError: it does not; with its log.
        """
        try:
            until("the spare Muster to be ready", lambda: not self.problem(), seconds)
        except AssertionError as error:
            raise AssertionError(
                f"{error}: {self.problem()}\n{self._log.read_text(errors='replace')[-8000:]}"
            ) from error

    def problem(self) -> str:
        """Return what it says keeps it from being ready, "" for nothing."""
        try:
            metrics.get(self._url("/readyz"))
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.read().decode()
        except OSError as error:
            return f"it does not answer: {error}"
        return ""

    def ask(
        self,
        document: Mapping[str, Any],
        namespace: str,
        phase: Literal["mutate", "validate"] = "mutate",
        *,
        dry_run: bool = False,
    ) -> Answer:
        """Return the answer to the CREATE of a TrainJob or a JobSet.

        Raises:
            AssertionError: there is none.
        """
        placed = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
        group, _, version = document["apiVersion"].partition("/")
        plural = _PLURALS[document["kind"]]
        request = {
            "uid": str(uuid.uuid4()),
            "kind": {"group": group, "version": version, "kind": document["kind"]},
            "resource": {"group": group, "version": version, "resource": plural},
            "name": document["metadata"]["name"],
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "e2e"},
            "object": placed,
            "oldObject": None,
            "dryRun": dry_run,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        try:
            text = metrics.get(self._url(f"/{phase}/{plural}"), json.dumps(review).encode())
        except OSError as error:
            state = "runs" if self.is_alive() else "has died"
            raise AssertionError(f"a review was not answered, and Muster {state}: {error!r}") from error
        answered = json.loads(text)["response"]
        assert answered["uid"] == request["uid"]
        return Answer(answered)

    def samples(self) -> list[metrics.Sample]:
        """Return its metrics."""
        return metrics.read(metrics.get(self._url("/metrics")))

    def said(self) -> list[dict[str, Any]]:
        """Return the lines of its log, oldest first; a torn last one is left out."""
        lines = self._log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def _log(self) -> Path:
        return self._folder / "muster.log"

    def _url(self, path: str) -> str:
        return f"https://127.0.0.1:{self._port}{path}"

    def _whole_config(self) -> dict[str, Any]:
        return {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "MusterConfig",
            "server": {"host": "127.0.0.1", "port": self._port},
            "tls": {"selfSigned": True},
            **self._config,
            "cluster": {"kubeconfig": str(self._folder / "kubeconfig"), **self._config.get("cluster", {})},
        }


def kubeconfig(kubectl: Kubectl, user: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the kubeconfig of a cluster as one document, of the administrator or of a `user` (`{"token": ...}`)."""
    shown: dict[str, Any] = kubectl.run("config", "view", "--raw", "--minify", "--flatten", "-o", "json").expect().json
    return shown if user is None else {**shown, "users": [{**shown["users"][0], "user": dict(user)}]}
