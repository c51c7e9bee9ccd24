"""Spaces: each test has its own namespace, so that tests can run in parallel."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e.suites.support import documents, waits
from e2e.suites.support.kubectls import Kubectl, Outcome

__all__ = ["JOBSETS", "TRAINJOBS", "Space", "conditions", "named"]

TRAINJOBS = "trainjobs.trainer.kubeflow.org"
JOBSETS = "jobsets.jobset.x-k8s.io"
_MODE_LABEL = "muster.dev/mode"
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Space:
    """One namespace of one test.

    Attributes:
        name: the name of the namespace.
        kubectl: kubectl for the cluster.
    """

    name: str
    kubectl: Kubectl

    def make(self, mode: str | None = None) -> Space:
        """Create the namespace, with a mode label or without."""
        labels = {_MODE_LABEL: mode} if mode else {}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": labels}}
        self.kubectl.create(namespace).expect()
        return self

    def remove(self) -> None:
        """Delete the namespace without waiting."""
        self.kubectl.delete("namespace", self.name)

    def apply(
        self,
        *documents: Mapping[str, Any],
        server_side: bool = False,
        manager: str | None = None,
        dry_run: bool = False,
        options: tuple[str, ...] = (),
    ) -> Outcome:
        """`Kubectl.apply` in this namespace."""
        return self.kubectl.apply(
            *documents,
            server_side=server_side,
            manager=manager,
            namespace=self.name,
            dry_run=dry_run,
            options=options,
        )

    def create(self, *documents: Mapping[str, Any], dry_run: bool = False, options: tuple[str, ...] = ()) -> Outcome:
        """`Kubectl.create` in this namespace."""
        return self.kubectl.create(*documents, namespace=self.name, dry_run=dry_run, options=options)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object of this namespace, None when there is none."""
        return self.kubectl.get(kind, name, self.name)

    def all(self, kind: str, selector: str | None = None) -> list[dict[str, Any]]:
        """Return the objects of a kind in this namespace."""
        return self.kubectl.all(kind, self.name, selector)

    def patch(
        self,
        kind: str,
        name: str,
        body: Any,
        type: str = "merge",  # noqa: A002  # kubectl's own word
        subresource: str | None = None,
    ) -> Outcome:
        """`Kubectl.patch` in this namespace."""
        return self.kubectl.patch(kind, name, self.name, body, type, subresource)

    def delete(self, kind: str, name: str, *, wait: bool = False, grace: int | None = None) -> Outcome:
        """`Kubectl.delete` in this namespace."""
        return self.kubectl.delete(kind, name, self.name, wait=wait, grace=grace)

    def trainjob(self, name: str) -> dict[str, Any] | None:
        """Return a TrainJob, None when there is none."""
        return self.get(TRAINJOBS, name)

    def jobset(self, name: str) -> dict[str, Any] | None:
        """Return a JobSet, None when there is none."""
        return self.get(JOBSETS, name)

    def pods(self, selector: str | None = None) -> list[dict[str, Any]]:
        """Return the pods of this namespace."""
        return self.all("pods", selector)

    def events(self) -> list[dict[str, Any]]:
        """Return the namespace's events, oldest first."""
        return sorted(self.all("events"), key=lambda event: str(event["metadata"]["creationTimestamp"]))

    def wait_jobset(self, name: str, seconds: float = 30) -> dict[str, Any]:
        """Wait for a JobSet to be there, and return it."""
        found = waits.until(f"JobSet {self.name}/{name}", lambda: self.jobset(name), seconds)
        assert found is not None
        return found

    def wait_trainjob(self, name: str, condition: str, status: str = "True", seconds: float = 60) -> dict[str, Any]:
        """Wait until a TrainJob has a condition with a status, and return the job."""

        def look() -> dict[str, Any]:
            found = self.trainjob(name)
            assert found is not None, "there is no such TrainJob"
            assert conditions(found).get(condition) == status, f"its conditions are {conditions(found)}"
            return found

        return waits.until(f"TrainJob {self.name}/{name} to be {condition}={status}", look, seconds)

    def wait_gone(self, kind: str, name: str, seconds: float = 30) -> None:
        """Wait until an object is deleted."""
        waits.until(f"{kind} {self.name}/{name} to be gone", lambda: self.get(kind, name) is None, seconds)

    def conditions(self, found: Mapping[str, Any]) -> dict[str, str]:
        """Return the statuses of an object's conditions by type."""
        return conditions(found)

    def mode(self, mode: str | None) -> None:
        """Label the namespace with a mode (None removes the label), and wait until Muster uses it.

        Audit and off look the same from outside, and so do enforce and a label that is not a mode; a change between
        those is not waited for.
        """
        self.kubectl.patch("namespace", self.name, None, {"metadata": {"labels": {_MODE_LABEL: mode}}}).expect()
        look = {"warn": "warn", "audit": "silent", "off": "silent"}.get(str(mode), "enforce")
        waits.until(f"Muster to be in mode {mode} in {self.name}", lambda: self._looks_like(look))

    def _looks_like(self, look: str) -> bool:
        job = documents.trainjob("probe", "torch-distributed", kind="ClusterTrainingRuntime", trainer={"numNodes": 0})
        outcome = self.create(job, dry_run=True)
        warned = any("spec.trainer.numNodes" in warning for warning in outcome.warnings)
        seen = "enforce" if not outcome.ok else "warn" if warned else "silent"
        return seen == look


def conditions(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the statuses of an object's conditions by type."""
    return {each["type"]: each["status"] for each in (found.get("status") or {}).get("conditions") or ()}


def named(words: str) -> str:
    """Return a name for a test's namespace: `e2e-<words>-<hex>`."""
    cleaned = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in words.lower())
    short = "-".join(part for part in cleaned.split("-") if part)[:_LONGEST].strip("-")
    return f"e2e-{short}-{secrets.token_hex(3)}"
