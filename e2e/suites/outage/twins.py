"""A twin: a second, real `muster serve` that follows the real API server through a `Line`.

Cutting the installed Muster off from its API server would take a firewall; a second process needs only another address
in its kubeconfig. No webhook configuration names it: tests send it their AdmissionReviews themselves.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib import parse

import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.outage.lines import Line
from e2e.suites.scale import metrics
from e2e.suites.support import documents
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

__all__ = ["Answer", "Stalled", "Twin"]

_APPLIED = "muster.dev/applied"


class Answer:
    """What an AdmissionReview of a TrainJob came to.

    Attributes:
        allowed: whether the job may be stored.
        message: why not.
        strategy: the framework whose strategy changed the job, "" for none.
    """

    def __init__(self, response: Mapping[str, Any]) -> None:
        self.allowed = bool(response["allowed"])
        self.message = str((response.get("status") or {}).get("message", ""))
        operations = json.loads(base64.b64decode(response.get("patch", "")) or b"[]")
        memory = next((each["value"][_APPLIED] for each in operations if each["path"] == "/metadata/annotations"), "{}")
        self.strategy = str(json.loads(memory).get("strategy", ""))

    def __repr__(self) -> str:
        return f"Answer(allowed={self.allowed}, strategy={self.strategy!r}, message={self.message!r})"


class Twin:
    """A Muster behind a line; use it as a context.

    Args:
        kubectl: of the cluster that it follows.
        folder: for its files.
    """

    def __init__(self, kubectl: Kubectl, folder: Path) -> None:
        self._folder = folder
        config = kubectl.run("config", "view", "--raw", "--minify", "--flatten", "-o", "json").expect().json
        cluster = config["clusters"][0]["cluster"]
        server = parse.urlsplit(cluster["server"])
        self.line = Line(server.hostname or "", server.port or 443)
        # Behind the line the server has another address, which its certificate need not name.
        config["clusters"][0]["cluster"] = {
            "server": f"https://127.0.0.1:{self.line.port}",
            "insecure-skip-tls-verify": True,
        }
        (folder / "kubeconfig").write_text(json.dumps(config))
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._write_config()
        log = (self._folder / "twin.log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "webhook", "serve", "--config", str(self._folder / "twin.yaml")],
                cwd=REPOSITORY,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_SERVICE_")},
            )
        try:
            until("the twin to be ready", lambda: metrics.get(self._url("/readyz")), 30)
        except AssertionError as error:
            self.__exit__()
            raise AssertionError(f"{error}\n{(self._folder / 'twin.log').read_text()}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, trainjob: Mapping[str, Any], namespace: str) -> Answer:
        """Return the answer to the CREATE of a TrainJob, in the mutating phase."""
        document = {**trainjob, "metadata": {**trainjob["metadata"], "namespace": namespace}}
        group, _, version = document["apiVersion"].partition("/")
        request = {
            "uid": str(uuid.uuid4()),
            "kind": {"group": group, "version": version, "kind": "TrainJob"},
            "resource": {"group": group, "version": version, "resource": "trainjobs"},
            "name": document["metadata"]["name"],
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "twin"},
            "object": document,
            "oldObject": None,
            "dryRun": False,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        try:
            text = metrics.get(self._url("/mutate/trainjobs"), json.dumps(review).encode())
        except OSError as error:
            state = "runs" if self.is_alive() else "has died"
            raise AssertionError(f"a review was not answered, and the twin {state}: {error!r}") from error
        answered = json.loads(text)["response"]
        assert answered["uid"] == request["uid"]
        return Answer(answered)

    def age(self, kind: str) -> float:
        """Return the seconds since the API server last said anything about a kind, as the metric says."""
        return metrics.total(self.samples(), "muster_cluster_cache_age_seconds", kind=kind)

    def samples(self) -> list[metrics.Sample]:
        """Return its metrics."""
        return metrics.read(metrics.get(self._url("/metrics")))

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def _url(self, path: str) -> str:
        return f"https://127.0.0.1:{self._port}{path}"

    def _write_config(self) -> None:
        config = {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "MusterConfig",
            "server": {"host": "127.0.0.1", "port": self._port},
            "tls": {"selfSigned": True},
            "cluster": {"kubeconfig": str(self._folder / "kubeconfig")},
        }
        (self._folder / "twin.yaml").write_text(yaml.safe_dump(config))


@dataclass(frozen=True, slots=True)
class Stalled:
    """A twin whose watches stalled at some moment, when runtime `old` was changed from torch to trl.

    To doubt a watch takes Muster more than a minute, so it begins with the first test and is looked at by the last.

    Attributes:
        twin: that Muster.
        namespace: of the runtime.
        since: the moment.
    """

    twin: Twin
    namespace: str
    since: datetime.datetime

    @classmethod
    def begin(cls, twin: Twin, space: Space) -> Stalled:
        """Let the twin see a runtime, stall its watches, and change the runtime."""
        space.apply(documents.training_runtime("old", "torch")).expect()
        begun = cls(twin, space.name, datetime.datetime.now(datetime.UTC))
        until("the twin to know the runtime", lambda: begun.goes_by("torch"))
        until("the twin to be told the runtime", lambda: twin.age("TrainingRuntime") < 1)
        twin.line.stall()
        space.apply(documents.training_runtime("old", "trl")).expect()
        assert begun.goes_by("torch"), "the line did not stall"
        return begun

    def seconds(self) -> float:
        """Return for how long the watches have stalled."""
        return (datetime.datetime.now(datetime.UTC) - self.since).total_seconds()

    def goes_by(self, framework: str) -> bool:
        """Whether the twin answers by this framework."""
        return self.twin.ask(documents.trainjob("job", "old"), self.namespace).strategy == framework


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
