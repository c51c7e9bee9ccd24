"""Patches and initializers: what Trainer refuses about the parts of a runtime that a TrainJob names.

Source: `pkg/runtime/framework/plugins/jobset/jobset.go` Validate. Trainer merges the patches before it looks for the
jobs and containers that they name (`pkg/runtime/core/trainingruntime.go`), so a name that the runtime lacks becomes a
job or a container of its own, which has no image, and the API server refuses it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from muster.strategies.documents import loose, names, overrides, paths, pods
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs.jobs import Job

__all__ = ["check"]

_INSIDE = {"podTemplateOverrides": ".spec", "podSpecOverrides": ""}
_MEMBERS = ("containers", "initContainers")
_INITIALIZERS = {"dataset": "dataset-initializer", "model": "model-initializer"}
_OWN_ENV = (*_INITIALIZERS.values(), names.CONTAINER_NODE)
_VOLUME = "initializer"
_SCHEMES = {"dataset": ("hf", "s3", "cache"), "model": ("hf", "s3")}
"""What Trainer's own initializers fetch (`pkg/initializers/{dataset,model}/__main__.py`)."""
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_LONGEST, _SHOWN = 253, 60


def check(job: Job) -> Iterator[Finding]:
    """Check `runtimePatches` and `initializer` of a TrainJob against its runtime."""
    if job.kind != "TrainJob" or job.runtime is None:
        return
    spec = job.document.get("spec") or {}
    every = overrides.entries(job.document)
    if not every and not spec.get("initializer"):
        return
    bare = job.runtime.document if job.runtime.bare is None else job.runtime.bare
    template = loose.member(bare, "spec", "template", "spec")
    held = {
        str(each.get("name")): loose.member(each, "template", "spec", "template")
        for each in loose.items(template, "replicatedJobs")
    }
    known: dict[str, _Known] = {}
    for entry in every:
        if entry.is_own:
            yield from _manager(entry)
        yield from _patched(entry, held, known, job.runtime.kind)
    for member, name in _INITIALIZERS.items():
        if loose.member(spec, "initializer").get(member):
            yield from _initializer(member, name, held, job.runtime.kind)
            yield from _scheme(member, loose.member(spec, "initializer", member).get("storageUri"))
            yield from _two_sources(member, loose.member(spec, "initializer", member))
            yield from _unheard(member, name, loose.items(template, "replicatedJobs"), job.runtime.kind)


def _named(entry: overrides.Entry) -> str:
    return paths.field({}, entry.place)


def _manager(entry: overrides.Entry) -> Iterator[Finding]:
    """Report a manager that is no domain with a path (`validation.IsDomainPrefixedPath`)."""
    manager = str(entry.patch.get("manager") or "")
    domain, slash, rest = manager.partition("/")
    fits = len(domain) <= _LONGEST and _SUBDOMAIN.fullmatch(domain) is not None and _PATH.search(rest) is not None
    if not slash or not fits:
        message = "has to be a domain and a path, such as example.org/team, or Trainer refuses the job"
        yield error(f"{_named(entry)}.manager", manager, message, rule="core/patches")


def _patched(
    entry: overrides.Entry,
    held: Mapping[str, Mapping[str, Any]],
    known: dict[str, _Known],
    kind: str,
) -> Iterator[Finding]:
    """Check one patch; `known` gets what each replicated job that is named has, the patches before included."""
    inside = loose.member(entry.patch, "trainingRuntimeSpec", "template", "spec")
    place = _named(entry)
    for each in loose.items(inside, "replicatedJobs"):
        name = str(each.get("name"))
        where = (
            f"{place}.{'trainingRuntimeSpec.template.spec.replicatedJobs' if entry.is_own else 'targetJobs'}[{name}]"
        )
        if name not in held:
            message = (
                f"the {kind} has no replicated job of this name, so no pod of it could be made; use {_either(held)}"
            )
            yield error(f"{where}.name", name, message, rule="core/patches")
            continue
        pod = loose.member(each, "template", "spec", "template")
        if name not in known:
            known[name] = _known(held[name])
        where = f"{where}.template.spec.template.spec" if entry.is_own else f"{place}{_INSIDE[str(entry.place[1])]}"
        for member in _MEMBERS:
            for container in loose.items(loose.member(pod, "spec"), member):
                yield from _container(f"{where}.{member}", container, known[name].containers[member], name)
        for volume in loose.items(loose.member(pod, "spec"), "volumes"):
            yield from _volume(f"{where}.volumes", volume, known[name].sources)


class _Known(Struct, frozen=True):
    """What a pod of the runtime has: the names in its two lists of containers, and the sources of its volumes."""

    containers: Mapping[str, Mapping[str, Any]]
    sources: dict[str, set[str]]


def _known(pod: Mapping[str, Any]) -> _Known:
    spec = loose.member(pod, "spec")
    own = {member: {str(each.get("name")): each for each in loose.items(spec, member)} for member in _MEMBERS}
    return _Known(own, {str(each.get("name")): _sources(each) for each in loose.items(spec, "volumes")})


def _sources(volume: Mapping[str, Any]) -> set[str]:
    return {member for member in volume if member != "name" and volume[member] is not None}


def _volume(place: str, volume: Mapping[str, Any], known: dict[str, set[str]]) -> Iterator[Finding]:
    """Report a volume that gets a second source: volumes are merged by name, and nothing of the first is removed."""
    name, own = str(volume.get("name")), _sources(volume)
    before = known.setdefault(name, own)
    if own - before and before:
        message = (
            f"is added to the {' and '.join(sorted(before))} of the volume of this name, which a patch does not take "
            "away, so that it has two sources and the API server refuses the pod; give it a name of its own"
        )
        yield error(f"{place}[{name}]", " and ".join(sorted(own))[:_SHOWN], message, rule="core/patches")
    known[name] = before | own


def _container(place: str, container: Mapping[str, Any], known: Mapping[str, Any], job: str) -> Iterator[Finding]:
    name, member = str(container.get("name")), "init container" if place.endswith("initContainers") else "container"
    if name not in known:
        message = f"replicated job {job} of the runtime has no {member} of this name; use {_either(known)}"
        yield error(f"{place}[{name}].name", name, message, rule="core/patches")
    elif container.get("env") and name in _OWN_ENV and place.endswith(".containers"):
        cure = "spec.trainer.env" if name == names.CONTAINER_NODE else "spec.initializer"
        message = f"Trainer refuses env in a patch of {name}; write it into {cure}"
        yield error(f"{place}[{name}].env", None, message, rule="core/patches")


def _initializer(member: str, name: str, held: Mapping[str, Mapping[str, Any]], kind: str) -> Iterator[Finding]:
    field, containers = f"spec.initializer.{member}", _containers(held.get(name) or {})
    missing = ""
    if name not in held:
        missing = f"replicated job {name}"
    elif name not in containers:
        missing = f"container {name} in its replicated job {name}"
    elif all(mount.get("name") != _VOLUME for mount in loose.items(containers[name], "volumeMounts")):
        missing = f"mount of a volume {_VOLUME} in its container {name}"
    if missing:
        message = f"the {kind} has no {missing}, so Trainer refuses the job; remove it, or use a runtime that has one"
        yield error(field, None, message, rule="core/initializer")


def _two_sources(member: str, wanted: Mapping[str, Any]) -> Iterator[Finding]:
    """Report a source in env, which wins over `storageUri` (`plugins/jobset/builder.go` Initializer)."""
    uri = wanted.get("storageUri")
    for entry in loose.items(wanted, "env"):
        if entry.get("name") == _SOURCE and uri and entry.get("value") not in (None, uri):
            message = "wins over storageUri, so that another source than that is loaded; remove one of the two"
            field = f"spec.initializer.{member}.env[{_SOURCE}]"
            yield warning(field, entry["value"], message, rule="core/initializer")


_SOURCE = "STORAGE_URI"


def _unheard(member: str, name: str, jobs: list[Mapping[str, Any]], kind: str) -> Iterator[Finding]:
    """Report an initializer that Trainer does not tell its source, and a training that does not wait for its end."""
    steps = {str(each.get("name")): pods.labels(each).get(names.ANCESTOR_LABEL) for each in jobs}
    if name not in steps:
        return
    if steps[name] != name:
        message = (
            f"replicated job {name} of the {kind} has no label {names.ANCESTOR_LABEL}: {name}, by which Trainer finds "
            "it, so it is not told the source; label its template"
        )
        yield error(f"spec.initializer.{member}", None, message, rule="core/initializer")
    training = next((each for each in jobs if steps[str(each.get("name"))] == names.ANCESTOR_TRAINER), None)
    if training is not None and name not in _awaited(training, jobs):
        message = (
            f"the training of the {kind} does not wait for {name} to end, so it starts before its files are there; add "
            f"dependsOn to it, with {name} and status: Complete"
        )
        yield warning(f"spec.initializer.{member}", None, message, rule="core/initializer")


def _awaited(training: Mapping[str, Any], jobs: list[Mapping[str, Any]]) -> set[str]:
    """Return the replicated jobs that have ended before a training starts, through others that it waits for."""
    waits = {
        str(each.get("name")): [
            str(item.get("name")) for item in loose.items(each, "dependsOn") if item.get("status") == "Complete"
        ]
        for each in jobs
    }
    found: set[str] = set()
    left = list(waits.get(str(training.get("name")), ()))
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += waits.get(name, ())
    return found


def _scheme(member: str, uri: Any) -> Iterator[Finding]:
    """Warn about a source that Trainer's initializer ends at; an image of one's own may know it."""
    scheme, separator, _ = uri.partition("://") if isinstance(uri, str) else ("", "", "")
    if separator and scheme not in _SCHEMES[member]:
        among = ", ".join(f"{each}://" for each in _SCHEMES[member])
        message = f"Trainer's initializer of a {member} reads only {among}, and fails at others; use one of them"
        yield warning(f"spec.initializer.{member}.storageUri", uri, message, rule="core/initializer")


def _containers(pod: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    spec = loose.member(pod, "spec")
    return {str(each.get("name")): each for member in reversed(_MEMBERS) for each in loose.items(spec, member)}


def _either(known: Mapping[str, Any]) -> str:
    return " or ".join(itertools.islice(known, 5)) or "another runtime"
