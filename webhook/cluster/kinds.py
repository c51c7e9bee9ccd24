"""The table of all kinds that Muster reads, follows and writes, so that paths, RBAC hints, caches and files agree.

A kind may appear twice, since decisions read claims that the controllers did not make, and the controllers follow only
objects that their label selectors choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.strategies.documents import names
from muster.webhook.cluster import readers, served, snapshots
from muster.webhook.cluster.served import Kind

__all__ = [
    "CLAIM",
    "CONFIGURATIONS",
    "CONFIG_MAP",
    "EVENT",
    "JOB",
    "JOBSET",
    "KINDS",
    "LEASE",
    "MANAGED_LABEL",
    "MANAGER",
    "NAMESPACE",
    "OBJECTS",
    "POD",
    "RANK",
    "REPORTS",
    "SECRET",
    "TEMPLATE",
    "TRAINER_GROUP",
    "TRAINING",
    "VOLUME_CLAIM",
    "kind_of",
    "named",
]

TRAINER_GROUP = "trainer.kubeflow.org"
_DEVICES = "resource.k8s.io"

MANAGED_LABEL = "app.kubernetes.io/managed-by"
"""A label on every object that Muster makes; its value is `MANAGER`."""
MANAGER = "muster"
_OURS = f"{names.PROFILE_LABEL},{MANAGED_LABEL}={MANAGER}"


def _simple(served: str, group: str, version: str, **options: Any) -> Kind:
    return Kind(served, served, group, version, served.lower() + "s", **options)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        _simple("TrainJob", TRAINER_GROUP, "v1alpha1", share=0.35),
        _simple("TrainingRuntime", TRAINER_GROUP, "v1alpha1", share=0.1),
        _simple("ClusterTrainingRuntime", TRAINER_GROUP, "v1alpha1", namespaced=False),
        Kind("RuntimeSnapshot", "ConfigMap", "", "v1", "configmaps", suffix=snapshots.SUFFIX, share=0.1),
        _simple("Namespace", "", "v1", namespaced=False, keep=served.metadata_only, share=0.1),
        _simple("ResourceClaimTemplate", _DEVICES, "v1", optional=True),
        # there may be a claim for each pod with devices
        _simple("ResourceClaim", _DEVICES, "v1", optional=True, selector=names.PROFILE_LABEL, share=0.03),
        # Nodes are always read together, and never fetched; who makes them is trusted.
        _simple("Node", "", "v1", namespaced=False, verbs="list, watch", keep=served.placing, share=0.2),
        Kind(
            "DeviceClass", "DeviceClass", _DEVICES, "v1", "deviceclasses", namespaced=False, optional=True, share=0.02
        ),
    )
}
"""The kinds that decisions read, by the kind of a `Ref`."""

POD: Final = _simple("Pod", "", "v1", page=50, selector=names.PROFILE_LABEL, share=0.25)
JOBSET: Final = _simple("JobSet", names.JOBSET_GROUP, "v1alpha2", page=50, selector=names.PROFILE_LABEL, share=0.1)
CLAIM: Final = _simple("ResourceClaim", _DEVICES, "v1", page=50, selector=_OURS)
TEMPLATE: Final = _simple("ResourceClaimTemplate", _DEVICES, "v1", page=50, selector=_OURS)
NAMESPACE: Final = KINDS["Namespace"]
"""The five kinds that the controllers follow."""
RANK: Final = _simple("Pod", "", "v1", page=50, selector=names.JOBSET_NAME_LABEL, share=0.25)
"""The pods of JobSets, of which the collector of trainings reads termination messages."""
TRAINING: Final = _simple("TrainJob", TRAINER_GROUP, "v1alpha1", page=50, optional=True, share=0.1)
"""The TrainJobs, of which it reads what their guards posted into the status."""
OBJECTS: Final[Mapping[str, Kind]] = {"ResourceClaim": CLAIM, "ResourceClaimTemplate": TEMPLATE}
"""The kinds that the controllers write, by name."""

# Objects of the other kinds are read by name or only written, and never listed.
LEASE: Final = _simple("Lease", "coordination.k8s.io", "v1")
EVENT: Final = _simple("Event", "", "v1")
JOB: Final = _simple("Job", "batch", "v1")
SECRET: Final = _simple("Secret", "", "v1")
VOLUME_CLAIM: Final = _simple("PersistentVolumeClaim", "", "v1")
CONFIG_MAP: Final = _simple("ConfigMap", "", "v1")
CONFIGURATIONS: Final = tuple(
    _simple(f"{each}WebhookConfiguration", "admissionregistration.k8s.io", "v1", namespaced=False)
    for each in ("Mutating", "Validating")
)
"""The webhook configurations, whose `caBundle` Muster writes."""
REPORTS: Final[Mapping[str, Kind]] = {
    "openreports": _simple("Report", "openreports.io", "v1alpha1"),
    "policyreport": _simple("PolicyReport", "wgpolicyk8s.io", "v1alpha2"),
}
"""The kinds of reports, by the value of `audit.reports`."""

_BY_SERVED = {(kind.group, kind.served): kind for kind in KINDS.values()}


def named(name: str) -> Kind:
    """Return the kind of a `Ref`.

    Raises:
        UnknownKindError: the table has no such kind.
    """
    try:
        return KINDS[name]
    except KeyError:
        raise readers.UnknownKindError(name, tuple(KINDS)) from None


def kind_of(document: readers.Document) -> Kind | None:
    """Return the kind of a raw object by its API group and kind, in any version; None for kinds not read."""
    group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
    return _BY_SERVED.get((group, str(document.get("kind", ""))))
