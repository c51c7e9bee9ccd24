"""The two formats of reports, which differ in little but their names.

Report is that of `openreports.io/v1alpha1` in github.com/openreports/reports-api (v0.2.1); PolicyReport is that of
`wgpolicyk8s.io/v1alpha2`, as Kyverno installs it (v1.18). Muster never changes reports of other tools: its own report
has a fixed name and a label that names its manager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.webhook.cluster import kinds, served
from muster.webhook.notices.reports import folds, outcomes

__all__ = ["FORMATS", "NAME", "Format", "is_ours", "rendered"]

NAME = "muster"
"""The name of the report in each namespace; RBAC names it too."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format of reports.

    Attributes:
        kind: the kind of its objects.
        brought: what installs the CustomResourceDefinition.
        rights: the file with the RBAC rules that Muster needs.
        own_source: whether the report itself, besides each result, names its source and its limit of results.
    """

    kind: served.Kind
    brought: str
    rights: str
    own_source: bool


FORMATS: Mapping[str, Format] = {
    "openreports": Format(
        kinds.REPORTS["openreports"],
        "config/crd of github.com/openreports/reports-api, or its Helm chart",
        "rbac-openreports.yaml",
        own_source=True,
    ),
    "policyreport": Format(
        kinds.REPORTS["policyreport"],
        "Kyverno, or policy-report/crd/v1alpha2 of github.com/kubernetes-sigs/wg-policy-prototypes",
        "rbac-policyreports.yaml",
        own_source=False,
    ),
}
"""The formats, by the value of `audit.reports`."""


def is_ours(report: Mapping[str, Any]) -> bool:
    """Whether Muster made a report."""
    labels = report["metadata"].get("labels") or {}
    return dict(labels).get(kinds.MANAGED_LABEL) == kinds.MANAGER


def rendered(
    form: Format, present: Mapping[str, Any] | None, namespace: str, results: Sequence[outcomes.Result], most: int
) -> dict[str, Any]:
    """Return a report with these results: the present report with its other members unchanged, or a new one.

    Args:
        form: the format.
        present: the report as the API server has it, None when there is none.
        namespace: the namespace of a new report.
        results: all of its results.
        most: how many results it can have.
    """
    base: dict[str, Any] = (
        dict(present)
        if present
        else {
            "apiVersion": form.kind.api_version,
            "kind": form.kind.served,
            "metadata": {"name": NAME, "namespace": namespace, "labels": {kinds.MANAGED_LABEL: kinds.MANAGER}},
        }
    )
    if form.own_source:
        base |= {"source": outcomes.SOURCE, "configuration": {"limits": {"maxResults": most}}}
    return base | {"summary": folds.summary(results), "results": list(results)}
