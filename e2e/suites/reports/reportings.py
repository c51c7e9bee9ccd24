"""A Muster that is told to report in one format, in a cluster that has the kind, or does not have it yet."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from e2e.cluster import upstream
from e2e.cluster.places import REPOSITORY
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space, conditions
from e2e.suites.support.waits import until

__all__ = ["FORMATS", "Reporting"]

FORMATS = {
    "openreports": ("reports.openreports.io", "rbac-openreports.yaml"),
    "policyreport": ("policyreports.wgpolicyk8s.io", "rbac-policyreports.yaml"),
}
"""By the value of `audit.reports`: the kind's name, and the file with what Muster must be allowed."""
_NAME = "muster"
_DEFINITION = "customresourcedefinition"


@dataclass(frozen=True, slots=True)
class Reporting:
    """One format in one cluster.

    Attributes:
        format: the value of `audit.reports`.
        kubectl: kubectl with the administrator's rights.
        installation: Muster.
    """

    format: str
    kubectl: Kubectl
    installation: Installation

    @property
    def resource(self) -> str:
        """Its name, as kubectl takes it."""
        return FORMATS[self.format][0]

    def is_defined(self) -> bool:
        """Whether the cluster has the kind."""
        return self.kubectl.get(_DEFINITION, self.resource) is not None

    @contextmanager
    def defined(self) -> Iterator[None]:
        """Install the kind, and take it away again where the cluster did not have it."""
        theirs = self.is_defined()
        if not theirs:
            self.kubectl.apply(upstream.report_definitions()[self.format], server_side=True).expect()
        try:
            until(f"{self.resource} to be served", self._is_established)
            yield
        finally:
            if not theirs:
                self.kubectl.delete(_DEFINITION, self.resource, wait=True)

    def _is_established(self) -> bool:
        """Whether the API server serves the kind; `kubectl wait` fails while the conditions are null."""
        found = self.kubectl.get(_DEFINITION, self.resource)
        return found is not None and conditions(found).get("Established") == "True"

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Give Muster the rights of the manifests."""
        documents = self._rights()
        self.kubectl.apply(*documents).expect()
        try:
            yield
        finally:
            for each in documents:
                self.kubectl.delete(each["kind"], each["metadata"]["name"])

    @contextmanager
    def without(self, verb: str) -> Iterator[None]:
        """Take one verb away from Muster."""
        role, *_ = self._rights()
        less = [{**rule, "verbs": [each for each in rule["verbs"] if each != verb]} for rule in role["rules"]]
        self.kubectl.apply({**role, "rules": [rule for rule in less if rule["verbs"]]}).expect()
        try:
            yield
        finally:
            self.kubectl.apply(role).expect()

    def report_in(self, space: Space) -> dict[str, Any] | None:
        """Return the report of a namespace, as kubectl shows it; None when there is none."""
        outcome = self.kubectl.run("get", self.resource, _NAME, "-n", space.name, "-o", "json")
        return outcome.json if outcome.ok else None

    def results(self, space: Space, kind: str = "TrainJob") -> dict[str, list[dict[str, Any]]]:
        """Return the results of a namespace about one kind, by the name of the job."""
        found: dict[str, list[dict[str, Any]]] = {}
        for each in (self.report_in(space) or {}).get("results") or ():
            (about,) = each["resources"]
            if about["kind"] == kind:
                found.setdefault(about["name"], []).append(each)
        return found

    def wait(self, space: Space, wanted: Mapping[str, set[str]], seconds: float = 40) -> None:
        """Wait until TrainJobs have results of these outcomes."""

        def look() -> bool:
            found = {name: {each["result"] for each in some} for name, some in self.results(space).items()}
            assert found == wanted, found
            return True

        until(f"the {self.resource} of {space.name}", look, seconds)

    def warnings(self, since: datetime.datetime) -> list[dict[str, Any]]:
        """Return what Muster logged about reports that it could not write."""
        lines = [line for line in self.installation.log(since) if line.startswith("{")]
        found = [json.loads(line) for line in lines if "report not written" in line]
        return [each for each in found if each["level"] == "warning"]

    def _rights(self) -> list[dict[str, Any]]:
        file = REPOSITORY / "manifests" / "overlays" / "production" / FORMATS[self.format][1]
        return list(yaml.safe_load_all(file.read_text()))
