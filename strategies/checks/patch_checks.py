"""Patches and initializers: what Trainer refuses about the parts of a runtime that a TrainJob names.

Source: `pkg/runtime/framework/plugins/jobset/jobset.go` Validate. Trainer merges the patches before it looks for the
jobs and containers that they name (`pkg/runtime/core/trainingruntime.go`), so a name that the runtime lacks becomes a
job or a container of its own, which has no image, and the API server refuses it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from muster.strategies.documents import decoding, names, paths, trainjobs
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.model import (
    Container,
    InitializerSource,
    PodSpec,
    ReplicatedJob,
    Runtime,
    RuntimePatch,
    Volume,
)
from muster.strategies.jobs.jobs import Job

__all__ = ["check"]

_INSIDE = {"podTemplateOverrides": ".spec", "podSpecOverrides": ""}
_INITIALIZERS = {"dataset": "dataset-initializer", "model": "model-initializer"}
_OWN_ENV = (*_INITIALIZERS.values(), names.CONTAINER_NODE)
_VOLUME = "initializer"
_SCHEMES = {"dataset": ("hf", "s3", "cache"), "model": ("hf", "s3")}
"""What Trainer's own initializers fetch (`pkg/initializers/{dataset,model}/__main__.py`)."""
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_LONGEST, _SHOWN = 253, 60


def check(job: Job) -> Iterator[Finding]:
    """Check `runtimePatches` and `initializer` of a TrainJob against its runtime."""
    if job.kind != "TrainJob" or job.runtime is None or job.trainjob is None:
        return
    sources = job.trainjob.spec.initializer
    wanted = {"dataset": sources.dataset, "model": sources.model}
    every = trainjobs.entries(job.document)
    if not every and not any(wanted.values()):
        return
    runtime = job.runtime.value if job.runtime.bare is None else decoding.read(job.runtime.bare, Runtime)
    jobs, kind = runtime.spec.template.spec.replicated_jobs, job.runtime.kind
    held = {each.name: each.pod for each in jobs}
    known: dict[str, _Known] = {}
    for entry in every:
        patch = decoding.read(entry.patch, RuntimePatch)
        if entry.is_own:
            yield from _manager(paths.field({}, entry.place), patch.manager)
        for each in patch.training_runtime_spec.template.spec.replicated_jobs:
            yield from _patched(entry, each, held, known, kind)
    for member, source in wanted.items():
        if source is not None:
            name = _INITIALIZERS[member]
            yield from _initializer(member, name, held, kind)
            yield from _scheme(member, source.storage_uri)
            yield from _two_sources(member, source)
            yield from _unheard(member, name, jobs, kind)


def _manager(place: str, manager: str) -> Iterator[Finding]:
    """Report a manager that is no domain with a path (`validation.IsDomainPrefixedPath`)."""
    domain, slash, rest = manager.partition("/")
    fits = (
        len(domain) <= _LONGEST and re.fullmatch(_SUBDOMAIN, domain) is not None and re.search(_PATH, rest) is not None
    )
    if not slash or not fits:
        message = "has to be a domain and a path, such as example.org/team, or Trainer refuses the job"
        yield error(f"{place}.manager", manager, message, rule="core/patches")


def _patched(
    entry: trainjobs.Entry, patched: ReplicatedJob, held: Mapping[str, PodSpec], known: dict[str, _Known], kind: str
) -> Iterator[Finding]:
    """Check one replicated job of a patch; `known` gets what it has, the patches before included."""
    name, place = patched.name, paths.field({}, entry.place)
    where = f"{place}.{'trainingRuntimeSpec.template.spec.replicatedJobs' if entry.is_own else 'targetJobs'}[{name}]"
    if name not in held:
        message = f"the {kind} has no replicated job of this name, so no pod of it could be made; use {_either(held)}"
        yield error(f"{where}.name", name, message, rule="core/patches")
        return
    if name not in known:
        known[name] = _Known(
            {"containers": _names(held[name].containers), "initContainers": _names(held[name].init_containers)},
            {each.name: set(each.sources) for each in held[name].volumes},
        )
    where = f"{where}.template.spec.template.spec" if entry.is_own else f"{place}{_INSIDE[str(entry.place[1])]}"
    for member, containers in (("containers", patched.pod.containers), ("initContainers", patched.pod.init_containers)):
        for container in containers:
            yield from _container(f"{where}.{member}", container, known[name].containers[member], name)
    for volume in patched.pod.volumes:
        yield from _volume(f"{where}.volumes", volume, known[name].sources)


class _Known(Struct, frozen=True):
    """What a pod of the runtime has: the names in its two lists of containers, and the sources of its volumes."""

    containers: Mapping[str, Sequence[str]]
    sources: dict[str, set[str]]


def _names(containers: Sequence[Container]) -> list[str]:
    return [each.name for each in containers]


def _volume(place: str, volume: Volume, known: dict[str, set[str]]) -> Iterator[Finding]:
    """Report a volume that gets a second source: volumes are merged by name, and nothing of the first is removed."""
    name, own = volume.name, set(volume.sources)
    before = known.setdefault(name, own)
    if own - before and before:
        message = (
            f"is added to the {' and '.join(sorted(before))} of the volume of this name, which a patch does not take "
            "away, so that it has two sources and the API server refuses the pod; give it a name of its own"
        )
        yield error(f"{place}[{name}]", " and ".join(sorted(own))[:_SHOWN], message, rule="core/patches")
    known[name] = before | own


def _container(place: str, container: Container, known: Iterable[str], job: str) -> Iterator[Finding]:
    name, member = container.name, "init container" if place.endswith("initContainers") else "container"
    if name not in known:
        message = f"replicated job {job} of the runtime has no {member} of this name; use {_either(known)}"
        yield error(f"{place}[{name}].name", name, message, rule="core/patches")
    elif container.env and name in _OWN_ENV and place.endswith(".containers"):
        cure = "spec.trainer.env" if name == names.CONTAINER_NODE else "spec.initializer"
        message = f"Trainer refuses env in a patch of {name}; write it into {cure}"
        yield error(f"{place}[{name}].env", None, message, rule="core/patches")


def _initializer(member: str, name: str, held: Mapping[str, PodSpec], kind: str) -> Iterator[Finding]:
    field, pod = f"spec.initializer.{member}", held.get(name, PodSpec())
    containers = {each.name: each for each in (*pod.init_containers, *pod.containers)}
    missing = ""
    if name not in held:
        missing = f"replicated job {name}"
    elif name not in containers:
        missing = f"container {name} in its replicated job {name}"
    elif all(mount.name != _VOLUME for mount in containers[name].volume_mounts):
        missing = f"mount of a volume {_VOLUME} in its container {name}"
    if missing:
        message = f"the {kind} has no {missing}, so Trainer refuses the job; remove it, or use a runtime that has one"
        yield error(field, None, message, rule="core/initializer")


def _two_sources(member: str, wanted: InitializerSource) -> Iterator[Finding]:
    """Report a source in env, which wins over `storageUri` (`plugins/jobset/builder.go` Initializer)."""
    for entry in wanted.env:
        if entry.name == _SOURCE and wanted.storage_uri not in ("", entry.value) and entry.value_from is None:
            message = "wins over storageUri, so that another source than that is loaded; remove one of the two"
            field = f"spec.initializer.{member}.env[{_SOURCE}]"
            yield warning(field, entry.value, message, rule="core/initializer")


_SOURCE = "STORAGE_URI"


def _unheard(member: str, name: str, jobs: Sequence[ReplicatedJob], kind: str) -> Iterator[Finding]:
    """Report an initializer that Trainer does not tell its source, and a training that does not wait for its end."""
    steps = {each.name: each.labels.get(names.ANCESTOR_LABEL) for each in jobs}
    if name not in steps:
        return
    if steps[name] != name:
        message = (
            f"replicated job {name} of the {kind} has no label {names.ANCESTOR_LABEL}: {name}, by which Trainer finds "
            "it, so it is not told the source; label its template"
        )
        yield error(f"spec.initializer.{member}", None, message, rule="core/initializer")
    training = next((each for each in jobs if steps[each.name] == names.ANCESTOR_TRAINER), None)
    if training is not None and name not in _awaited(training, jobs):
        message = (
            f"the training of the {kind} does not wait for {name} to end, so it starts before its files are there; add "
            f"dependsOn to it, with {name} and status: Complete"
        )
        yield warning(f"spec.initializer.{member}", None, message, rule="core/initializer")


def _awaited(training: ReplicatedJob, jobs: Sequence[ReplicatedJob]) -> set[str]:
    """Return the replicated jobs that have ended before a training starts, through others that it waits for."""
    waits = {each.name: [item.name for item in each.depends_on if item.status == "Complete"] for each in jobs}
    found: set[str] = set()
    left = list(waits[training.name])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += waits.get(name, ())
    return found


def _scheme(member: str, uri: str) -> Iterator[Finding]:
    """Warn about a source that Trainer's initializer ends at; an image of one's own may know it."""
    scheme, separator, _ = uri.partition("://")
    if separator and scheme not in _SCHEMES[member]:
        among = ", ".join(f"{each}://" for each in _SCHEMES[member])
        message = f"Trainer's initializer of a {member} reads only {among}, and fails at others; use one of them"
        yield warning(f"spec.initializer.{member}.storageUri", uri, message, rule="core/initializer")


def _either(known: Iterable[str]) -> str:
    return " or ".join(itertools.islice(known, 5)) or "another runtime"
