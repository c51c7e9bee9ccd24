"""Claims of the input: what the API server refuses of ResourceClaims and templates that the pods of a job name.

A cluster holds none that it refused, and the pods that name one wait for ever. Source: kubernetes v1.36.3
`pkg/apis/resource/validation/validation.go` (validateDeviceClaim and its parts).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import loose
from muster.strategies.documents.findings import Finding, beginning, error
from muster.strategies.documents.pods import CLAIM_SOURCES
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.webhook.cli.beside import expressions
from muster.webhook.cli.beside.inputs import Inputs, member

__all__ = ["asked", "check", "settled"]

_TEMPLATE, _VERSION = "ResourceClaimTemplate", "resource.k8s.io/v1"
_MOST_CHOICES, _MOST_REQUESTS = 8, 32
_MODES = ("ExactCount", "All")
_SHOWN = 60
_DNS = re.compile(r"[a-z0-9-]{1,63}")
_Fault = tuple[str, str]
"""The place inside the object, and what is wrong there."""
Document = Mapping[str, Any]


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report the claims of a job's pods whose object is among the documents, and would be refused.

    Args:
        job: the job as it will be stored.
        inputs: all documents of the input.
    """
    for template in templates.list_templates(job):
        for index, entry in enumerate(template.spec.get("resourceClaims") or ()):
            for source, kind in CLAIM_SOURCES.items():
                for place, message in _faults_of(inputs, kind, job.namespace, entry.get(source)):
                    said = f"the {kind} has {place}, {message}, so the API server refuses it and the pods wait"
                    field = template.field("resourceClaims", index, source)
                    if not templates.is_of_job(job, field):
                        field = "spec.runtimeRef.name"
                    yield error(field, entry[source], f"{said}; correct it", rule="claims/refused-object")


def settled(job: Job, inputs: Inputs, found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield those findings about missing templates that a controller makes for a document of the input."""
    for finding in found:
        if finding.rule == "claims/unknown-object" and finding.value in _made(inputs, job.namespace):
            yield finding


def _made(inputs: Inputs, namespace: str) -> frozenset[str]:
    """Return the names of the templates that NVIDIA's DRA driver makes, for its ComputeDomains."""
    channels = (member(each.document, "spec", "channel") for each in inputs.of_kind("ComputeDomain", namespace))
    return frozenset(str(member(each, "resourceClaimTemplate").get("name")) for each in channels)


def _faults_of(inputs: Inputs, kind: str, namespace: str, name: object) -> Sequence[_Fault]:
    """Return the faults of the last document of a name, which are looked for once."""
    found = [each for each in inputs.named(kind, namespace, name) if each.document.get("apiVersion") == _VERSION]
    key = ("claims", kind, namespace, name)
    if found and key not in inputs.memory:
        inputs.memory[key] = [*_faults(found[-1].document), *_forbidden(found[-1].document, inputs, namespace)]
    faults: Sequence[_Fault] = inputs.memory[key] if found else ()
    return faults


def asked(template: Template, namespace: str, inputs: Inputs) -> Mapping[str, int]:
    """Return how many devices of each class one pod claims by templates of the input, at most, as a quota counts."""
    found: dict[str, int] = {}
    for entry in template.spec.get("resourceClaims") or ():
        documents = inputs.named(_TEMPLATE, namespace, loose.mapping(entry).get("resourceClaimTemplateName"))
        for request in _requests(documents[-1].document) if documents else ():
            most: dict[str, int] = {}
            for each in [
                loose.mapping(each)
                for each in (*loose.sequence(request.get("firstAvailable")), request.get("exactly") or {})
            ]:
                count = each.get("count", 1) if each.get("allocationMode") != _MODES[1] else _MOST_REQUESTS
                name = each.get("deviceClassName")
                if isinstance(name, str) and type(count) is int:
                    most[name] = max(most.get(name, 0), count)
            for name, count in most.items():
                found[name] = found.get(name, 0) + count
    return found


def _requests(document: Document) -> list[Document]:
    return loose.items(loose.member(document, "spec", "spec", "devices"), "requests")


def _forbidden(document: Document, inputs: Inputs, namespace: str) -> Iterator[_Fault]:
    """Judge access to devices that are in use, which a label of the namespace allows (AuthorizedForAdmin)."""
    found = inputs.named("Namespace", "", namespace)
    if len(found) != 1:
        return
    labels = loose.member(found[0].document.get("metadata"), "labels")
    inner = loose.mapping(document.get("spec"))
    claim = loose.mapping(inner.get("spec")) if document.get("kind") == _TEMPLATE else inner
    requests = loose.items(claim.get("devices"), "requests")
    if labels.get(_ADMIN) != "true" and any(loose.mapping(each.get("exactly")).get("adminAccess") for each in requests):
        yield "adminAccess: true", f"for which the namespace {namespace} of the input lacks the label {_ADMIN}: 'true'"


_ADMIN = "resource.kubernetes.io/admin-access"


def _faults(document: Document) -> Iterator[_Fault]:
    outer, place = loose.mapping(document.get("spec")), "spec"
    if document.get("kind") == _TEMPLATE:
        if "spec" not in outer:
            yield "no spec.spec", "where the claim stands"
            return
        outer, place = loose.mapping(outer.get("spec")), "spec.spec"
    claimed, place = loose.mapping(outer.get("devices")), f"{place}.devices"
    requests = loose.items(claimed, "requests")
    names: dict[str, set[str]] = {}
    if len(requests) > _MOST_REQUESTS:
        yield f"{place}.requests", f"which are more than {_MOST_REQUESTS}"
    for index, request in enumerate(requests):
        where, name = f"{place}.requests[{index}]", str(request.get("name"))
        if name in names:
            yield f"{where}.name", "which another request has too"
        if not _DNS.fullmatch(name) or "-" in (name[0], name[-1]):
            yield f"{where}.name", "which is not a DNS label (lower-case letters, digits and -)"
        names[name] = {str(loose.mapping(each).get("name")) for each in loose.sequence(request.get("firstAvailable"))}
        yield from _request(request, where)
    for index, config in enumerate(loose.sequence(claimed.get("config"))):
        yield from _named_requests(loose.mapping(config), names, f"{place}.config[{index}]")
    for index, constraint in enumerate(loose.sequence(claimed.get("constraints"))):
        yield from _constraint(loose.mapping(constraint), names, f"{place}.constraints[{index}]")


def _request(request: Document, place: str) -> Iterator[_Fault]:
    choices, exactly = loose.sequence(request.get("firstAvailable")), request.get("exactly")
    if bool(choices) == (exactly is not None):
        yield place, "which needs one of exactly and firstAvailable"
    if len(choices) > _MOST_CHOICES:
        yield f"{place}.firstAvailable", f"which has more than {_MOST_CHOICES} choices"
    every = [(f"{place}.exactly", exactly)] if isinstance(exactly, dict) else []
    every += [(f"{place}.firstAvailable[{n}]", each) for n, each in enumerate(choices[:_MOST_CHOICES])]
    for where, each in every:
        yield from _wanted(loose.mapping(each), where)


def _wanted(wanted: Document, place: str) -> Iterator[_Fault]:
    for index, selector in enumerate(loose.sequence(wanted.get("selectors"))):
        text = loose.member(selector, "cel").get("expression")
        fault = expressions.wrong(text) if isinstance(text, str) else ""
        if fault:
            yield f"{place}.selectors[{index}].cel.expression", f"which {fault}"
    mode, count = wanted.get("allocationMode") or _MODES[0], wanted.get("count")
    if not wanted.get("deviceClassName"):
        yield f"{place}.deviceClassName", "which is missing"
    if mode not in _MODES:
        yield f"{place}.allocationMode", f"which is not {' or '.join(_MODES)}"
    elif type(count) is int and count and mode == _MODES[1]:
        yield f"{place}.count", "which does not go with allocationMode All"
    elif type(count) is int and count < 0:
        yield f"{place}.count", "which is below 1"


def _named_requests(part: Document, names: Mapping[str, set[str]], place: str) -> Iterator[_Fault]:
    """Judge the requests that a constraint or a configuration names."""
    for name in loose.sequence(part.get("requests")):
        top, slash, inner = str(name).partition("/")
        if top not in names or (slash and inner not in names[top]):
            yield f"{place}.requests", f"of which {beginning(str(name), _SHOWN)} is not a request"


def _constraint(constraint: Document, names: Mapping[str, set[str]], place: str) -> Iterator[_Fault]:
    yield from _named_requests(constraint, names, place)
    for part in ("matchAttribute", "distinctAttribute"):
        name = constraint.get(part)
        if isinstance(name, str) and "/" not in name:
            yield f"{place}.{part}", f"which is {beginning(name, _SHOWN)} and needs a domain, domain/name"
