"""Held: the containers of a job as they will run, and the files of ConfigMaps and Secrets that they see.

On a TrainJob, `spec.trainer` replaces the command and the arguments of the training container, and adds to its env.
Sources: kubernetes `pkg/volume/configmap/configmap.go` and `pkg/volume/secret/secret.go` MakePayload (a listed key that
the object lacks is an error unless the source is optional), `pkg/volume/projected/projected.go`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.webhook.cli.related.related_documents import Inputs, items, member

__all__ = ["Held", "Payload", "Seen", "containers", "find", "parts", "payload", "values", "volumes"]


_MEMBERS = ("initContainers", "containers")


class Held(Struct, frozen=True, eq=False):
    """A container of a job.

    Attributes:
        job: the job.
        template: its replicated job.
        inside: its place in the pod spec.
        container: as its pod template has it.
        own: `spec.trainer`, where that is about this container; else empty.
    """

    job: Job
    template: Template
    inside: Path
    container: Mapping[str, Any]
    own: Mapping[str, Any]

    @property
    def command(self) -> Sequence[str]:
        """The command and the arguments."""
        return [*self._part("command"), *self._part("args")]

    @property
    def env(self) -> Sequence[Mapping[str, Any]]:
        """The list of variables; later ones win."""
        return [*items(self.container, "env"), *items(self.own, "env")]

    def mounts(self) -> Sequence[Mapping[str, Any]]:
        """Return what the container mounts."""
        return items(self.container, "volumeMounts")

    @property
    def name(self) -> object:
        """Its name."""
        return self.container.get("name")

    def field(self, part: str) -> tuple[str, bool]:
        """Return the field of a member, and whether `spec.trainer` wrote it."""
        mine = bool(self.own.get(part))
        return (f"spec.trainer.{part}", True) if mine else (self.template.field(*self.inside, part), False)

    def report(self, make: Callable[..., Finding], part: str, value: Any, message: str, rule: str) -> Finding:
        """Report a finding about a member of the container."""
        field, mine = self.field(part)
        found = make(field, value, message, rule=rule)
        return found if mine else templates.placed(self.job, found)

    def _part(self, name: str) -> Sequence[str]:
        own = self.own.get(name)
        return own if own is not None else self.container.get(name) or ()


def containers(job: Job) -> Iterator[Held]:
    """Yield all containers of a job, those that run first before the others."""
    for template in templates.list_templates(job):
        mine = job.kind == "TrainJob" and job.container is not None and template.path == job.container.job_path
        for part in _MEMBERS:
            for index, container in enumerate(items(template.raw_spec, part)):
                own = mine and part == "containers" and container.get("name") == names.CONTAINER_NODE
                yield Held(job, template, (part, index), container, job.raw_trainer if own else {})


def volumes(template: Template) -> Mapping[object, Mapping[str, Any]]:
    """Return the volumes of the pods of a replicated job by their names."""
    return {each.get("name"): each for each in items(template.raw_spec, "volumes")}


_KINDS = {"configMap": "ConfigMap", "secret": "Secret"}
_TEXTS = {"ConfigMap": ("data", "binaryData"), "Secret": ("stringData", "data")}
Payload = Mapping[str, str | None]
"""The keys of an object, with their texts; None for what is not a text, or is encoded."""


class Seen(Struct, frozen=True):
    """A file of a container.

    Attributes:
        where: `the ConfigMap scripts`.
        path: the file in the container.
        exists: whether the object has it.
        text: what is in it; None where that is not known.
        secret: whether it is one of a Secret, whose text stands in no finding.
    """

    where: str
    path: str
    exists: bool
    text: str | None
    secret: bool


def payload(inputs: Inputs, kind: str, namespace: str, name: object) -> Payload | None:
    """Return what a ConfigMap or a Secret holds; None where the input does not have it, or has several."""
    key = ("payload", kind, namespace, name)
    if isinstance(name, str) and key not in inputs.memory:
        inputs.memory[key] = _payload(inputs, kind, namespace, name)
    found: Payload | None = inputs.memory[key] if isinstance(name, str) else None
    return found


def values(inputs: Inputs, kind: str, namespace: str, name: object) -> Payload | None:
    """Return what variables are read from: the same without `binaryData` of a ConfigMap (makeEnvironmentVariables)."""
    found = payload(inputs, kind, namespace, name)
    if found is None or kind != "ConfigMap":
        return found
    return {key: text for key, text in found.items() if text is not None}


def _payload(inputs: Inputs, kind: str, namespace: str, name: str) -> Payload | None:
    found = inputs.named(kind, namespace, name)
    if len(found) != 1:
        return None
    texts, encoded = (member(found[0].document, each) for each in _TEXTS[kind])
    return {
        **dict.fromkeys(map(str, encoded)),
        **{str(key): text if isinstance(text, str) else None for key, text in texts.items()},
    }


def parts(volume: Mapping[str, Any]) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    """Yield the ConfigMaps and Secrets of a volume: the place in it, the kind, and the source."""
    for each, kind in _KINDS.items():
        if isinstance(volume.get(each), dict):
            yield (each,), kind, volume[each]
    for index, source in enumerate(items(volume.get("projected"), "sources")):
        for each, kind in _KINDS.items():
            if isinstance(source.get(each), dict):
                held = source[each]
                yield ("projected", "sources", index, each), kind, {**held, "secretName": held.get("name")}


def find(held: Held, path: str, inputs: Inputs) -> Seen | None:
    """Return a file that a container sees; None where it is not one of an object of the input.

    Args:
        held: the container.
        path: the file, which may be relative to the working directory.
        inputs: all documents of the input.
    """
    folder = held.container.get("workingDir")
    path = posixpath.normpath(posixpath.join(folder if isinstance(folder, str) else "", path))
    mounts = [each for each in held.mounts() if path.startswith("/") and _holds(_place(each), path)]
    mount = max(mounts, key=lambda each: len(_place(each)), default=None)
    if mount is None or mount.get("subPathExpr"):
        return None
    volume = volumes(held.template).get(mount.get("name"), {})
    files = _files(volume, held.job.namespace, inputs)
    if files is None:
        return None
    inside = posixpath.normpath(posixpath.join(str(mount.get("subPath") or ""), path[len(_place(mount)) :].lstrip("/")))
    where, text = files.get(inside, ("", None))
    objects = " and ".join(f"the {kind} {_name(kind, source)}" for _, kind, source in parts(volume))
    return Seen(where or objects, path, inside in files, text, secret="the Secret" in (where or objects))


def _place(mount: Mapping[str, Any]) -> str:
    return str(mount.get("mountPath") or "").rstrip("/")


def _holds(folder: str, path: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(f"{folder}/"))


def _name(kind: str, source: Mapping[str, Any]) -> Any:
    return source.get("secretName" if kind == "Secret" else "name")


def _files(volume: Mapping[str, Any], namespace: str, inputs: Inputs) -> Mapping[str, tuple[str, str | None]] | None:
    """Return the files of a volume, each with its object and its text; None where one of the objects is not known."""
    sources = items(volume.get("projected"), "sources")
    found: dict[str, tuple[str, str | None]] = {}
    count = 0
    for _, kind, source in parts(volume):
        count += 1
        name = _name(kind, source)
        held = payload(inputs, kind, namespace, name)
        if held is None:
            return None
        listed = items(source, "items")
        names = {str(each.get("path")): str(each.get("key")) for each in listed} or {key: key for key in held}
        found.update({path: (f"the {kind} {name}", held[key]) for path, key in names.items() if key in held})
    return found if count and count >= len(sources) else None
