"""The expected state of an installation of this version, read from the manifests that come with it.

Webhook entries and RBAC rules are compared with `manifests/base` and the RBAC files of overlays, in the checkout or
beside an installed package. RBAC files that depend on an option of the configuration are listed here with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.strategies.documents import paths
from muster.webhook import manifests
from muster.webhook.kubeyaml import sources
from muster.webhook.kubeyaml.sources import Source

__all__ = ["KINDS", "OPTIONAL_RIGHTS", "ExpectationError", "ExpectedState", "Right", "places", "read"]

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")

OPTIONAL_RIGHTS: Mapping[str, tuple[str, ...]] = {
    "rbac.yaml": (),
    "rbac-controllers.yaml": ("controllers", "enabled"),
    "rbac-dry-runs.yaml": ("checks", "dryRun"),
    "rbac-trainings.yaml": ("trainings", "enabled"),
    "rbac-certificates.yaml": ("tls", "secret"),
    "rbac-anchors.yaml": ("audit", "anchors"),
    "rbac-events.yaml": ("audit", "events"),
    "rbac-openreports.yaml": ("audit", "reports"),
    "rbac-policyreports.yaml": ("audit", "reports"),
}
"""Files with RBAC rules, each with the key of the configuration that needs it; () when it is always needed."""

_VALUES: Mapping[str, str] = {
    "rbac-anchors.yaml": "configmap",
    "rbac-openreports.yaml": "openreports",
    "rbac-policyreports.yaml": "policyreport",
}
"""The files among them that only one value of their key needs."""


class ExpectationError(Exception):
    """The manifests of this version are not installed, or cannot be read."""


@dataclass(frozen=True, slots=True)
class Right:
    """One permission that Muster's ServiceAccount must have.

    Attributes:
        verb: `list`.
        group: API group, "" for the core group.
        resource: plural name, with the subresource.
        name: of one object; "" for all.
        own: whether it is for Muster's namespace only; otherwise for all namespaces.
        option: key of the configuration that needs it; () when it is always needed.
        value: the value of that key that needs it; "" for any value that switches it on.
    """

    verb: str
    group: str
    resource: str
    name: str = ""
    own: bool = False
    option: tuple[str, ...] = ()
    value: str = ""

    @property
    def subject(self) -> str:
        """Resource and name: `leases.coordination.k8s.io muster-controllers`."""
        return f"{self.resource}{f'.{self.group}' if self.group else ''}{f' {self.name}' if self.name else ''}"

    def is_needed(self, config: Mapping[str, object]) -> bool:
        """Whether a configuration file, parsed from YAML, needs this permission."""
        found = paths.lookup(config, self.option) if self.option else True
        return found == self.value if self.value else found not in (paths.ABSENT, None, False)


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """The expected state in the manifests.

    Attributes:
        entries: the webhook entries in the manifests, by kind and name.
        rights: the permissions of the ServiceAccount.
    """

    entries: Mapping[str, Mapping[str, Mapping[str, object]]]
    rights: tuple[Right, ...]


def places() -> list[Path]:
    """Return the folder and files of the manifests.

    Raises:
        ExpectationError: they are not installed.
    """
    try:
        base = manifests.folder("base")
    except manifests.ManifestsError as error:
        raise ExpectationError(str(error)) from error
    return [base, *sorted(base.parent.glob("overlays/*/rbac-*.yaml"))]  # a wheel contains them in base


def read(where: Iterable[Path]) -> ExpectedState:
    """Read the manifests of files and folders.

    Raises:
        ExpectationError: one cannot be read, or a webhook configuration is missing.
    """
    where = list(where)
    found = sources.read(list(map(str, where)))
    if found.unreadable:
        raise ExpectationError(str(found.unreadable[0]))
    entries = {
        source.kind: {entry["name"]: entry for entry in source.document["webhooks"]}
        for source in found.sources
        if source.kind in KINDS
    }
    if set(entries) != set(KINDS):
        raise ExpectationError(f"{where[0]}: has no {' and no '.join(sorted(set(KINDS) - set(entries)))}")
    rights = [right for source in found.sources for right in _rights(source)]
    return ExpectedState(entries, tuple(dict.fromkeys(rights)))


def _rights(source: Source) -> Iterator[Right]:
    if source.kind not in {"Role", "ClusterRole"}:
        return
    file = Path(source.origin.file).name
    option, value = OPTIONAL_RIGHTS.get(file, ()), _VALUES.get(file, "")
    for rule in source.document["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or ("",):
                        yield Right(verb, group, resource, name, source.kind == "Role", option, value)
