"""JobSet, Trainer and Muster in pods: installed by their own manifests, as on a production cluster.

The manifests of JobSet and Trainer are not changed; their images are on the node under the names that the manifests
use. Each controller makes its own certificates, so an installation is finished not at the end of a rollout but when
the webhooks admit a runtime and a JobSet.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import commands, upstream
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import images
from e2e.cluster.places import Places
from muster.webhook import installer

__all__ = ["Manifests", "install", "rendered"]

_PATIENCE = 120.0
_AWAY = ("failed calling webhook", "no endpoints", "took longer than", "connection refused", "TLS handshake")
# Sent to the webhooks in dry runs: one of the two controllers answers each.
_QUESTIONS: tuple[Mapping[str, object], ...] = (
    {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "e2e-question"},
        "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": []}}},
    },
    {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "e2e-question", "namespace": "default"},
        "spec": {"replicatedJobs": []},
    },
)


@dataclass(frozen=True, slots=True)
class Manifests:
    """What installs JobSet and Trainer."""

    jobset: list[upstream.Document]
    trainer: list[upstream.Document]

    def images(self, binaries: Path) -> dict[str, Path]:
        """The images that they ask for, by name, each with the one binary that is in it."""
        return {
            _image(self.jobset): binaries / "jobset-controller-manager",
            _image(self.trainer): binaries / "trainer-controller-manager",
        }


def rendered(places: Places, kubectl: Path) -> Manifests:
    """Render both from the module cache."""
    return Manifests(upstream.jobset(kubectl), upstream.trainer(kubectl, places.state / "upstream" / "trainer"))


def install(places: Places, kubectl: Path, manifests: Manifests) -> None:
    """Install all three and wait until each of them answers the API server.

    Raises:
        ClusterError: one does not answer within two minutes; the message quotes the API server.
    """
    documents = sorted([*manifests.jobset, *manifests.trainer], key=lambda each: each["kind"] != "Namespace")
    upstream.apply(kubectl, documents, places.kubeconfig)
    upstream.established(kubectl, places.kubeconfig)
    try:
        muster = installer.Installation(image=images.MUSTER)
        installer.install(installer.Kubectl(kubectl, places.kubeconfig), muster, commands.say)
    except installer.InstallError as error:
        raise ClusterError(str(error)) from error
    upstream.apply(kubectl, upstream.writers(), places.kubeconfig)
    for question in _QUESTIONS:
        _wait(kubectl, places, json.dumps(question))


def _wait(kubectl: Path, places: Places, question: str) -> None:
    command = [str(kubectl), "--kubeconfig", str(places.kubeconfig), "create", "--dry-run=server", "--filename=-"]
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            commands.run(command, stdin=question, timeout=30)
        except ClusterError as error:
            # Any other refusal comes from the webhook itself, which therefore answers.
            if not any(words in str(error) for words in _AWAY):
                return
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


def _image(documents: list[upstream.Document]) -> str:
    for document in documents:
        if document["kind"] == "Deployment":
            name: str = document["spec"]["template"]["spec"]["containers"][0]["image"]
            return name
    raise ClusterError("the manifests contain no Deployment")
