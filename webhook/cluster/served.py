"""One kind: where the API server serves it, which names its objects may have, and what is kept of them.

What is kept of the documents of each kind: only the parts that are read.

Status, managed fields and kubectl's copy of the manifest are half of a typical object and no decision reads them, so
they are dropped before an object is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib import parse

from msgspec import Struct

from muster.kube import transports
from muster.strategies.documents import paths
from muster.webhook.cluster import readers, snapshots

__all__ = ["Kind", "metadata_only", "placing", "trimmed"]


Document = Mapping[str, Any]
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def trimmed(document: Document) -> dict[str, Any]:
    """Return an object without status, managed fields and kubectl's copy of the manifest."""
    kept = {key: value for key, value in document.items() if key != "status"}
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key != "managedFields"}
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    kept["metadata"] = metadata
    return kept


def metadata_only(document: Document) -> dict[str, Any]:
    """Return only an object's metadata, trimmed."""
    return {"metadata": trimmed(document)["metadata"]}


def placing(document: Document) -> dict[str, Any]:
    """Return the parts of a node that decide whether pods fit; images and conditions, most of it, change often."""
    kept: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {}}
    for part, member in (("metadata", "name"), ("metadata", "labels"), ("spec", "taints")):
        found = paths.lookup(document, (part, member))
        if found not in (paths.ABSENT, None):
            kept[part][member] = found
    memory = paths.lookup(document, ("status", "allocatable", "memory"))
    if memory not in (paths.ABSENT, None):
        kept["status"] = {"allocatable": {"memory": memory}}
    return kept


# The names that the API server allows for all kinds here; any other name cannot exist and must not reach a URL.
_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"


class Kind(Struct, frozen=True):
    """One kind: where the API server serves it and what is kept of it.

    Attributes:
        name: the name in `Ref.kind`.
        served: the API's own name of the kind; differs from `name` for snapshots, which are ConfigMaps.
        group: API group, empty for the core group.
        version: API version.
        plural: the name in URLs and RBAC rules.
        namespaced: whether its objects live in namespaces.
        page: objects per list page; a page is parsed in one go, which takes 8 times its size in memory and blocks the
            event loop.
        optional: whether a cluster may not serve the kind; its objects are then absent, which is not an error.
        suffix: what follows the `Ref`'s name in an object's name; objects without it are not kept.
        selector: label selector of the objects that are cached; any other object is fetched on demand.
        verbs: the verbs that a ClusterRole has to allow.
        keep: drops the parts that no decision reads.
        share: the part of the memory for caches that its objects may take; those of `kinds.KINDS` add up to one.
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
    keep: Callable[[readers.Document], dict[str, Any]] = trimmed
    share: float = 0.05

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of a list or a watch of this kind."""
        return {"labelSelector": self.selector} if self.selector else {}

    @property
    def rbac(self) -> str:
        """The rule that a ClusterRole needs for this kind, in words."""
        return f"{self.verbs} on {self.plural}.{self.group or 'core'}"

    def path(self, namespace: str = "", name: str = "") -> str:
        """URL path of one object, by its `Ref`'s names, or of all objects in all namespaces.

        Raises:
            RefusedError: 404, because no object can have such a name or be in such a namespace.
        """
        for part in (namespace if self.namespaced else "", name):
            if part and re.fullmatch(_NAME, part) is None:
                raise transports.RefusedError(404, f"no {self.served} can have {part[:60]!r} as its name or namespace")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name + self.suffix)
        return "/" + "/".join(parse.quote(part, safe="") for part in parts)

    def can_exist(self, ref: readers.Ref) -> bool:
        """Whether the API server could hold such an object: valid names, and a namespace where one is needed."""
        namespace_fits = bool(re.fullmatch(_NAME, ref.namespace)) if self.namespaced else not ref.namespace
        return namespace_fits and re.fullmatch(_NAME, ref.name) is not None

    def ref(self, document: readers.Document) -> readers.Ref | None:
        """Return the `Ref` under which the object is kept; None for a ConfigMap that is not a snapshot."""
        metadata = document["metadata"]
        name = metadata["name"]
        if not name.endswith(self.suffix) or len(name) == len(self.suffix):
            return None
        namespace = metadata.get("namespace", "") if self.namespaced else ""
        return readers.Ref(self.name, namespace, name.removesuffix(self.suffix))

    def trim(self, document: readers.Document) -> readers.Document:
        """Return a shallow copy without what is never read, and with the apiVersion and kind that lists leave out."""
        return {"apiVersion": self.api_version, "kind": self.served, **self.keep(document)}

    def typed(self, document: readers.Document) -> dict[str, Any]:
        """Return a shallow copy with the apiVersion and kind that lists leave out, and with all that it has."""
        return {**document, "apiVersion": self.api_version, "kind": self.served}

    def whole(self, document: readers.Document) -> dict[str, Any]:
        """Return a shallow copy with its type, and without what no reader needs: status, managed fields."""
        return {"apiVersion": self.api_version, "kind": self.served, **trimmed(document)}

    def read(self, ref: readers.Ref, document: readers.Document) -> readers.Document:
        """Return what `ClusterReader.get` answers for a served object: the trimmed object, or a snapshot's runtime.

        A snapshot's runtime gets the owners of its ConfigMap, since an earlier job may have had the same name.

        Raises:
            SnapshotInvalid: the snapshot does not hold a runtime.
        """
        if not self.suffix:
            return self.trim(document)
        runtime = trimmed(snapshots.parse(ref, snapshots.text(document)))
        if owners := (document.get("metadata") or {}).get("ownerReferences"):
            runtime["metadata"] = {**runtime["metadata"], "ownerReferences": owners}
        return runtime
