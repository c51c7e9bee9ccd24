"""Notations: how the annotation `muster.dev/resource-claims` is read.

Its JSON has the shape of `resourceClaimsPerNode` in KEP-2782 (kubeflow/trainer#3540), a list of `{name,
resourceClaimTemplateName}`, so that a job can move to the field when Trainer has it. An earlier draft of that shape had
`resourceClaimName` and `containerNames`; both are read, and a note says that the field will not take them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from muster.strategies.documents.findings import Finding, error, note
from muster.strategies.documents.model import PodClaim
from muster.strategies.documents.pods import CLAIM_SOURCES

__all__ = ["AskedClaim", "read"]

_RULE = "claims/notation"
_MOST = 32  # claims of one pod; Kubernetes allows 256, more than there are kinds of devices
_MOST_CONTAINERS = 256  # that use one claim
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_KNOWN = {"name", "containerNames", *CLAIM_SOURCES}


class AskedClaim(Struct, frozen=True):
    """One claim of each pod.

    Attributes:
        name: name of the entry in the pod's `resourceClaims`.
        member: `resourceClaimName` or `resourceClaimTemplateName`.
        object: name of the object.
        containers: names of the containers that use it; empty for the training container.
        field: field path of the entry.
    """

    name: str
    member: str
    object: str
    containers: tuple[str, ...]
    field: str

    @property
    def kind(self) -> str:
        """Kind of the object."""
        return CLAIM_SOURCES[self.member]

    @property
    def entry(self) -> PodClaim:
        """The entry of `resourceClaims`."""
        if self.member == "resourceClaimName":
            return PodClaim(self.name, resource_claim_name=self.object)
        return PodClaim(self.name, resource_claim_template_name=self.object)


def read(text: str, field: str) -> tuple[tuple[AskedClaim, ...], tuple[Finding, ...]]:
    """Return the claims and notes about them, or no claims and the errors in the text.

    Args:
        text: the annotation's value.
        field: its field path.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as bad:
        return (), (error(field, text, f"is not JSON ({bad}); write a list such as {_EXAMPLE}", rule=_RULE),)
    if not isinstance(entries, list) or len(entries) > _MOST:
        message = f"must be a list of at most {_MOST} claims, such as {_EXAMPLE}"
        return (), (error(field, text, message, rule=_RULE),)
    problems = [problem for index, entry in enumerate(entries) for problem in _problems(entry, f"{field}[{index}]")]
    if problems:
        return (), tuple(problems)
    claims = tuple(_asked(entry, f"{field}[{index}]") for index, entry in enumerate(entries))
    called = Counter(each.name for each in claims)
    twice = [each for each in claims if called[each.name] > 1]
    if twice:
        message = "is the name of two claims; each claim of a pod needs its own name"
        return (), (error(f"{twice[-1].field}.name", twice[-1].name, message, rule=_RULE),)
    return claims, tuple(note for index, entry in enumerate(entries) for note in _drafted(entry, f"{field}[{index}]"))


def _drafted(entry: Mapping[str, Any], field: str) -> Iterator[Finding]:
    for member, cure in _DRAFT.items():
        if entry.get(member):
            message = f"is of an earlier draft of KEP-2782: Muster reads it, Trainer's field will not; {cure}"
            yield note(f"{field}.{member}", None, message, rule="claims/draft")


_DRAFT = {
    "resourceClaimName": "remove it, and write the claim that the pods share into resourceClaims of the runtime's pods",
    "containerNames": "remove it: the training container gets the claim; write other claims into the runtime",
}
_EXAMPLE = '[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]'


def _asked(entry: Mapping[str, Any], field: str) -> AskedClaim:
    member = next(member for member in CLAIM_SOURCES if entry.get(member) is not None)
    return AskedClaim(entry["name"], member, entry[member], tuple(entry.get("containerNames") or ()), field)


def _problems(entry: Any, field: str) -> Iterator[Finding]:
    if not isinstance(entry, dict):
        yield error(field, _shown(entry), f"must be an object, as in {_EXAMPLE}", rule=_RULE)
        return
    for member in sorted(entry.keys() - _KNOWN):
        message = f"is not a member of a claim; the members are {', '.join(sorted(_KNOWN))}"
        yield error(f"{field}.{_shown(member)}", _shown(entry[member]), message, rule=_RULE)
    if not _is(entry.get("name"), _LABEL):
        shown = _shown(entry.get("name"))
        yield error(f"{field}.name", shown, "must be a DNS label of at most 63 characters", rule=_RULE)
    given = [member for member in CLAIM_SOURCES if entry.get(member) is not None]
    if len(given) != 1:
        yield error(field, _shown(entry), f"must have exactly one of {' and '.join(CLAIM_SOURCES)}", rule=_RULE)
    for member in given:
        if not _is(entry[member], _SUBDOMAIN):
            yield error(f"{field}.{member}", _shown(entry[member]), "must be the name of an object", rule=_RULE)
    containers = entry.get("containerNames")
    if containers is not None and not _are_names(containers):
        message = f"must be a list of at most {_MOST_CONTAINERS} container names"
        yield error(f"{field}.containerNames", _shown(containers), message, rule=_RULE)


def _are_names(containers: Any) -> bool:
    few = isinstance(containers, list) and len(containers) <= _MOST_CONTAINERS
    return few and all(_is(each, _LABEL) for each in containers)


def _is(value: Any, pattern: str) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _shown(value: Any) -> str | None:
    """Return a value that any log can hold: JSON may escape lone surrogates, which UTF-8 cannot encode."""
    if value is None or (isinstance(value, str) and value.isprintable() and value.isascii()):
        return value
    return json.dumps(value)
