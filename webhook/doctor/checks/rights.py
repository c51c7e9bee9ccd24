"""Checks that Muster's ServiceAccount has the permissions in the RBAC manifests."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from muster.strategies.documents import paths
from muster.webhook import kubeyaml
from muster.webhook.doctor import diagnoses
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.expectations import Right
from muster.webhook.doctor.installations import Installation, Options
from muster.webhook.doctor.permissions import Need, allowed

__all__ = ["CHECK", "look", "needs"]

CHECK = "rights"
_OWN = "muster"  # in the manifests
_NAMES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("secrets", "muster-ca"): ("tls", "secret", "name"),
    ("leases", "muster-certificates"): ("tls", "secret", "lease", "name"),
    ("leases", "muster-controllers"): ("controllers", "lease", "name"),
    ("leases", "muster-trainings"): ("trainings", "lease", "name"),
}
"""Objects of the manifests that a configuration may rename, each with its key."""


def needs(_options: Options) -> tuple[Need, ...]:
    """Return the permission to check those of another account."""
    return (Need("create", "subjectaccessreviews", "authorization.k8s.io"),)


async def look(installation: Installation) -> list[Diagnosis]:
    """Check every permission that the configuration needs.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    config = _raw(installation.config_text(await installation.get(installation.config_path)))
    wanted = [
        _renamed(right, config, installation.options) for right in installation.base.rights if right.is_needed(config)
    ]
    user = installation.options.account
    answers = await asyncio.gather(
        *(allowed(installation, _need(right, installation.options), user) for right in wanted)
    )
    missing = [right for right, granted in zip(wanted, answers, strict=True) if not granted]
    if not missing:
        return [diagnoses.ok(CHECK, f"{user} has all {len(wanted)} permissions that it needs")]
    return list(_said(missing, user))


def _renamed(right: Right, config: Mapping[str, Any], options: Options) -> Right:
    """Return the permission with the name that the object has in this configuration and installation."""
    if right.name == _OWN:
        return replace(right, name=options.name)
    key = _NAMES.get((right.resource, right.name))
    found = paths.lookup(config, key) if key else None
    return replace(right, name=found) if isinstance(found, str) else right


def _need(right: Right, options: Options) -> Need:
    return Need(right.verb, right.resource, right.group, options.namespace if right.own else "", right.name)


def _said(missing: Iterable[Right], user: str) -> Iterable[Diagnosis]:
    verbs: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for right in missing:
        verbs[right.subject, right.option].append(right.verb)
    for (subject, option), lacked in verbs.items():
        needed = f", which {'.'.join(option)} needs" if option else ""
        what = f"{user} may not {', '.join(lacked)} {subject}{needed}"
        yield diagnoses.error(CHECK, what, "apply the roles and bindings of this version again (docs/installation.md)")


def _raw(text: str) -> Mapping[str, Any]:
    """Return the configuration as YAML, so that keys of other versions count too; {} when it is not an object."""
    try:
        found = kubeyaml.load(text)
    except kubeyaml.YamlError:
        return {}
    return found if isinstance(found, Mapping) else {}
