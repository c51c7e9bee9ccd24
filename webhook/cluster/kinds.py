"""The kinds that Muster reads, and how little of each it keeps.

One table, so that paths, RBAC hints, caches and files agree. Status, managed fields and kubectl's copy of the manifest
are half of a typical object and no decision looks at them, so they are dropped before anything is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib import parse

from strategies import names, paths
from webhook.cluster import readers, snapshots

__all__ = ["KINDS", "TRAINER_GROUP", "Kind", "named", "of"]

TRAINER_GROUP = "trainer.kubeflow.org"

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# What the API server lets a name be, for all kinds here; anything else cannot exist and must not reach a URL.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def _trimmed(document: readers.Document) -> dict[str, Any]:
    kept = {key: value for key, value in document.items() if key != "status"}
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key != "managedFields"}
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    kept["metadata"] = metadata
    return kept


def _metadata_only(document: readers.Document) -> dict[str, Any]:
    return {"metadata": _trimmed(document)["metadata"]}


def _placing(document: readers.Document) -> dict[str, Any]:
    """Of a node, what decides whether pods fit: its images and conditions are most of it, and change all the time."""
    kept: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {}}
    for part, member in (("metadata", "name"), ("metadata", "labels"), ("spec", "taints")):
        found = paths.lookup(document, (part, member))
        if found not in (paths.ABSENT, None):
            kept[part][member] = found
    memory = paths.lookup(document, ("status", "allocatable", "memory"))
    if memory not in (paths.ABSENT, None):
        kept["status"] = {"allocatable": {"memory": memory}}
    return kept


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: where the API server serves it and what is kept of it.

    Attributes:
        name: as in `Ref.kind`.
        served: the API's own name of the kind; differs from `name` for snapshots, which are ConfigMaps.
        group: API group, empty for the core group.
        version: API version.
        plural: as in URLs and RBAC rules.
        namespaced: whether its objects live in namespaces.
        page: objects per list page; a page is parsed at once, which costs 8 times its size and stops the event loop.
        optional: not every cluster serves it; when this one does not, its objects are absent, which is no error.
        suffix: what an object's name has after the `Ref`'s name; objects without it are not kept.
        selector: label selector of the objects that are cached; any other is fetched when it is asked for.
        verbs: that a ClusterRole has to allow.
        keep: drops what no decision looks at.
    """

    name: str
    served: str
    group: str
    version: str
    plural: str
    namespaced: bool = True
    page: int = 100
    optional: bool = False
    suffix: str = ""
    selector: str = ""
    verbs: str = "get, list, watch"
    keep: Callable[[readers.Document], dict[str, Any]] = _trimmed

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def query(self) -> dict[str, str]:
        """What a list or a watch of this kind says besides its path."""
        return {"labelSelector": self.selector} if self.selector else {}

    @property
    def rbac(self) -> str:
        """The rule that a ClusterRole needs for this kind, in words."""
        return f"{self.verbs} on {self.plural}.{self.group or 'core'}"

    def path(self, namespace: str = "", name: str = "") -> str:
        """URL path of one object, by its `Ref`'s names, or of all objects in all namespaces."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name + self.suffix)
        return "/" + "/".join(parse.quote(part, safe="") for part in parts)

    def can_exist(self, ref: readers.Ref) -> bool:
        """Whether the API server could hold such an object: valid names, and a namespace where one is needed."""
        namespace_fits = bool(_NAME.fullmatch(ref.namespace)) if self.namespaced else not ref.namespace
        return namespace_fits and _NAME.fullmatch(ref.name) is not None

    def ref(self, document: readers.Document) -> readers.Ref | None:
        """Return under what name the object is kept; None for a ConfigMap that is no snapshot."""
        metadata = document["metadata"]
        name = metadata["name"]
        if not name.endswith(self.suffix) or len(name) == len(self.suffix):
            return None
        namespace = metadata.get("namespace", "") if self.namespaced else ""
        return readers.Ref(self.name, namespace, name.removesuffix(self.suffix))

    def trim(self, document: readers.Document) -> readers.Document:
        """Return a shallow copy without what is never read, and with the apiVersion and kind that lists leave out."""
        return {"apiVersion": self.api_version, "kind": self.served, **self.keep(document)}

    def read(self, ref: readers.Ref, document: readers.Document) -> readers.Document:
        """Return what `ClusterReader.get` answers for a served object: it trimmed, or the runtime in a snapshot.

        A snapshot's runtime has the owners of its ConfigMap, since a job may have had a namesake before it.

        Raises:
            SnapshotInvalid: a snapshot that is no runtime.
        """
        if not self.suffix:
            return self.trim(document)
        runtime = _trimmed(snapshots.parse(ref, snapshots.text(document)))
        if owners := (document.get("metadata") or {}).get("ownerReferences"):
            runtime["metadata"] = {**runtime["metadata"], "ownerReferences": owners}
        return runtime


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("TrainJob", "TrainJob", TRAINER_GROUP, "v1alpha1", "trainjobs"),
        Kind("TrainingRuntime", "TrainingRuntime", TRAINER_GROUP, "v1alpha1", "trainingruntimes"),
        Kind(
            "ClusterTrainingRuntime",
            "ClusterTrainingRuntime",
            TRAINER_GROUP,
            "v1alpha1",
            "clustertrainingruntimes",
            namespaced=False,
        ),
        Kind("RuntimeSnapshot", "ConfigMap", "", "v1", "configmaps", suffix=snapshots.SUFFIX),
        Kind("Namespace", "Namespace", "", "v1", "namespaces", namespaced=False, keep=_metadata_only),
        Kind(
            "ResourceClaimTemplate",
            "ResourceClaimTemplate",
            "resource.k8s.io",
            "v1",
            "resourceclaimtemplates",
            optional=True,
        ),
        Kind(
            "ResourceClaim",
            "ResourceClaim",
            "resource.k8s.io",
            "v1",
            "resourceclaims",
            optional=True,
            selector=names.PROFILE_LABEL,  # one pod may bring one, so a cluster has as many as it has pods with devices
        ),
        # Nodes are looked at all together, and never fetched.
        Kind("Node", "Node", "", "v1", "nodes", namespaced=False, verbs="list, watch", keep=_placing),
        Kind("DeviceClass", "DeviceClass", "resource.k8s.io", "v1", "deviceclasses", namespaced=False, optional=True),
    )
}

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


def of(document: readers.Document) -> Kind | None:
    """Return the kind of a raw object by its API group and kind, whatever its version; None for kinds not read."""
    group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
    return _BY_SERVED.get((group, str(document.get("kind", ""))))
