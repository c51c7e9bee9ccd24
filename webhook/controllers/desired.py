"""Which templates and claims should exist: a pure comparison of what profiles and jobs ask for with what exists.

Specs of claims and templates are immutable, so a changed profile needs another object under the same name. An object
is therefore not touched while it is in use, replaced when it is free, and removed when nothing names it any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.strategies.documents import names
from muster.strategies.platform.profiles import Profile, claim_names, claim_spec, spec_hash, template_name
from muster.webhook.cluster import kinds
from muster.webhook.controllers import views

__all__ = ["Steps", "Uses", "made", "spec_hash", "steps", "wanted"]

_API_VERSION = "resource.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Uses:
    """What one namespace asks for.

    Attributes:
        profiles: names of profiles that jobs, pods or the namespace itself ask for.
        named: names of claims and templates in the specs of live jobs and pods, which cannot change any more.
        busy: names of claims that live pods use or have a seat on.
    """

    profiles: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do in one namespace, in this order.

    Attributes:
        replace: unused objects of an older version of their profile, each with its replacement.
        create: documents that are missing.
        remove: objects that nothing names; they are deleted after the grace period.
        drains: claims of an older version of their profile that are in use; they are replaced when they are free.
    """

    replace: tuple[tuple[views.Managed, dict[str, Any]], ...] = ()
    create: tuple[dict[str, Any], ...] = ()
    remove: tuple[views.Managed, ...] = ()
    drains: tuple[views.Managed, ...] = ()


def wanted(namespace: str, profiles: Iterable[Profile]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the documents that these profiles need in a namespace, by kind and name."""
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for profile in profiles:
        kind = "ResourceClaim" if profile.is_shared else "ResourceClaimTemplate"
        for name in claim_names(profile) if profile.is_shared else (template_name(profile),):
            out[kind, name] = made(namespace, name, profile)
    return out


def made(namespace: str, name: str, profile: Profile) -> dict[str, Any]:
    """Return the document of one claim or template.

    It has no owner, because it does not belong to one job, and no finalizer, so that its namespace can be deleted.
    """
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": {names.PROFILE_LABEL: profile.name, kinds.MANAGED_LABEL: kinds.MANAGER},
        "annotations": {names.SPEC_HASH_ANNOTATION: spec_hash(profile)},
    }
    if profile.is_shared:
        metadata["annotations"][names.SEATS_ANNOTATION] = "{}"
        return {
            "apiVersion": _API_VERSION,
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": claim_spec(profile),
        }
    # Claims that Kubernetes generates get no label: they belong to Kubernetes, and Muster does not seat or count them.
    return {
        "apiVersion": _API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": claim_spec(profile)},
    }


def steps(namespace: str, profiles: Mapping[str, Profile], uses: Uses, present: Collection[views.Managed]) -> Steps:
    """Compare; see `Plan`. Objects that are being deleted count as present: their names cannot be used yet."""
    needed = wanted(namespace, (profiles[name] for name in sorted(uses.profiles) if name in profiles))
    found = {(each.kind, each.name): each for each in present}
    replace, remove, drains = [], [], []
    for key, each in sorted(found.items()):
        document = needed.get(key)
        if each.deleting:
            continue
        if document is None:
            if each.name not in uses.named and not _in_use(each, uses):
                remove.append(each)
        elif each.hash != document["metadata"]["annotations"][names.SPEC_HASH_ANNOTATION]:
            if _in_use(each, uses):
                drains.append(each)
            else:
                replace.append((each, document))
    create = [document for key, document in sorted(needed.items()) if key not in found]
    return Steps(tuple(replace), tuple(create), tuple(remove), tuple(drains))


def _in_use(each: views.Managed, uses: Uses) -> bool:
    """Whether it has a device, a seat or a pod; a template never has, since generated claims are separate objects."""
    return each.kind == "ResourceClaim" and (each.allocated or each.seats not in {"", "{}"} or each.name in uses.busy)
