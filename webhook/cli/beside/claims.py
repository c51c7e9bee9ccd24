"""Claims of the input: what the API server refuses of ResourceClaims and templates that the pods of a job name.

A cluster holds none that it refused, and the pods that name one wait for ever. Source: kubernetes v1.36.3
`pkg/apis/resource/validation/validation.go` (validateDeviceClaim and its parts).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strategies.documents.findings import Finding, beginning, error
from strategies.documents.pods import CLAIM_SOURCES
from strategies.jobs import templates
from strategies.jobs.jobs import Job
from webhook.cli.beside.inputs import Inputs

__all__ = ["check"]

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
            for member, kind in CLAIM_SOURCES.items():
                for place, message in _faults_of(inputs, kind, job.namespace, entry.get(member)):
                    said = f"the {kind} has {place}, {message}, so the API server refuses it and the pods wait"
                    field = template.field("resourceClaims", index, member)
                    if job.kind == "TrainJob":
                        field = "spec.runtimeRef.name"
                    yield error(field, entry[member], f"{said}; correct it", rule="claims/refused-object")


def _faults_of(inputs: Inputs, kind: str, namespace: str, name: object) -> Sequence[_Fault]:
    """Return the faults of the last document of a name, which are looked for once."""
    found = [each for each in inputs.named(kind, namespace, name) if each.document.get("apiVersion") == _VERSION]
    key = ("claims", kind, namespace, name)
    if found and key not in inputs.memory:
        inputs.memory[key] = list(_faults(found[-1].document))
    faults: Sequence[_Fault] = inputs.memory[key] if found else ()
    return faults


def _faults(document: Document) -> Iterator[_Fault]:
    outer, place = _object(document.get("spec")), "spec"
    if document.get("kind") == _TEMPLATE:
        if "spec" not in outer:
            yield "no spec.spec", "where the claim stands"
            return
        outer, place = _object(outer.get("spec")), "spec.spec"
    claimed, place = _object(outer.get("devices")), f"{place}.devices"
    requests = [each for each in _list(claimed.get("requests")) if isinstance(each, dict)]
    names: dict[str, set[str]] = {}
    if len(requests) > _MOST_REQUESTS:
        yield f"{place}.requests", f"which are more than {_MOST_REQUESTS}"
    for index, request in enumerate(requests):
        where, name = f"{place}.requests[{index}]", str(request.get("name"))
        if name in names:
            yield f"{where}.name", "which another request has too"
        if not _DNS.fullmatch(name) or "-" in (name[0], name[-1]):
            yield f"{where}.name", "which is not a DNS label (lower-case letters, digits and -)"
        names[name] = {str(_object(each).get("name")) for each in _list(request.get("firstAvailable"))}
        yield from _request(request, where)
    for index, config in enumerate(_list(claimed.get("config"))):
        yield from _named_requests(_object(config), names, f"{place}.config[{index}]")
    for index, constraint in enumerate(_list(claimed.get("constraints"))):
        yield from _constraint(_object(constraint), names, f"{place}.constraints[{index}]")


def _request(request: Document, place: str) -> Iterator[_Fault]:
    choices, exactly = _list(request.get("firstAvailable")), request.get("exactly")
    if bool(choices) == (exactly is not None):
        yield place, "which needs one of exactly and firstAvailable"
    if len(choices) > _MOST_CHOICES:
        yield f"{place}.firstAvailable", f"which has more than {_MOST_CHOICES} choices"
    every = [(f"{place}.exactly", exactly)] if isinstance(exactly, dict) else []
    every += [(f"{place}.firstAvailable[{n}]", each) for n, each in enumerate(choices[:_MOST_CHOICES])]
    for where, each in every:
        yield from _wanted(_object(each), where)


def _wanted(wanted: Document, place: str) -> Iterator[_Fault]:
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
    for name in _list(part.get("requests")):
        top, slash, inner = str(name).partition("/")
        if top not in names or (slash and inner not in names[top]):
            yield f"{place}.requests", f"of which {beginning(str(name), _SHOWN)} is not a request"


def _constraint(constraint: Document, names: Mapping[str, set[str]], place: str) -> Iterator[_Fault]:
    yield from _named_requests(constraint, names, place)
    for member in ("matchAttribute", "distinctAttribute"):
        name = constraint.get(member)
        if isinstance(name, str) and "/" not in name:
            yield f"{place}.{member}", f"which is {beginning(name, _SHOWN)} and needs a domain, domain/name"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> Document:
    return value if isinstance(value, dict) else {}
