"""The two formats of reports, which differ in little more than their names.

Report is that of `openreports.io/v1alpha1` in github.com/openreports/reports-api (v0.2.1); PolicyReport is that of
`wgpolicyk8s.io/v1alpha2`, as Kyverno brings it (v1.18). Reports of a tool other than Muster are never touched: its
own one has a fixed name and says who manages it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.cluster import kinds, served
from webhook.notices.reports import folds, outcomes

__all__ = ["FORMATS", "NAME", "Format", "is_ours", "rendered"]

NAME = "muster"
"""Of the one report of a namespace; RBAC names it too."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        kind: of its objects.
        brought: what brings the CustomResourceDefinition.
        rights: the file with what Muster must be allowed.
        own_source: whether a report itself, besides each result, says who made it, and how many results it can have.
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
"""By the value of `audit.reports`."""


def is_ours(report: Mapping[str, Any]) -> bool:
    """Whether Muster made a report."""
    labels = report["metadata"].get("labels") or {}
    return dict(labels).get(kinds.MANAGED_LABEL) == kinds.MANAGER


def rendered(
    form: Format, present: Mapping[str, Any] | None, namespace: str, results: Sequence[outcomes.Result], most: int
) -> dict[str, Any]:
    """Return a report with these results: the present one with all else that it has, or a new one.

    Args:
        form: the format.
        present: as the API server has it.
        namespace: of a new one.
        results: all that it shall have.
        most: how many it can have.
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
