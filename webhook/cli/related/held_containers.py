"""Held: the containers of a job as they will run, and the files of ConfigMaps and Secrets that they see.

On a TrainJob, `spec.trainer` replaces the command and the arguments of the training container, and adds to its env.
Sources: kubernetes `pkg/volume/configmap/configmap.go` and `pkg/volume/secret/secret.go` MakePayload (a listed key that
the object lacks is an error unless the source is optional), `pkg/volume/projected/projected.go`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, structs

from muster.strategies.documents import model, names, trainjobs
from muster.strategies.documents.findings import Finding
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.webhook.cli.related.related_documents import ConfigMap, Inputs, Payload, Secret

__all__ = ["Held", "Part", "Seen", "containers", "find", "parts", "values", "volumes"]


class Held(Struct, frozen=True, eq=False):
    """A container of a job.

    Attributes:
        job: the job.
        template: its replicated job.
        inside: its place in the pod spec.
        container: as its pod template has it.
        trainer: `spec.trainer`, where that is about this container; else None.
    """

    job: Job
    template: Template
    inside: Path
    container: model.Container
    trainer: model.Trainer | None

    @property
    def command(self) -> Sequence[str]:
        """The command and the arguments."""
        own = {part: words for part in ("command", "args") if (words := getattr(self.trainer, part, None)) is not None}
        return [*structs.replace(self.container, **own).argv]

    @property
    def env(self) -> Sequence[model.EnvVar]:
        """The list of variables; later ones win."""
        return [*self.container.env, *(self.trainer.env if self.trainer else ())]

    @property
    def name(self) -> str:
        """Its name."""
        return self.container.name

    @property
    def path(self) -> Path:
        """Its place in the document that holds it, or `spec.trainer` of the TrainJob."""
        return ("spec", "trainer") if self.trainer else (*self.template.pod_path, *self.inside)

    def writes(self, part: str) -> bool:
        """Whether `spec.trainer` writes the command, the arguments or variables."""
        return bool(getattr(self.trainer, part, None))

    def field(self, part: str) -> str:
        """Return the field of a member."""
        return f"spec.trainer.{part}" if self.writes(part) else self.template.field(*self.inside, part)

    def report(self, make: Callable[..., Finding], part: str, value: object, message: str, rule: str) -> Finding:
        """Report a finding about a member of the container."""
        found = make(self.field(part), value, message, rule=rule)
        return found if self.writes(part) else templates.placed(self.job, found)


def containers(job: Job) -> Iterator[Held]:
    """Yield all containers of a job, those that run first before the others."""
    has_trainer = job.kind == "TrainJob" and bool(trainjobs.trainer(job.document))
    for template in templates.list_templates(job):
        mine = job.container is not None and template.path == job.container.job_path and has_trainer
        for part, every in (("initContainers", template.pod.init_containers), ("containers", template.pod.containers)):
            for index, container in enumerate(every):
                own = mine and part == "containers" and container.name == names.CONTAINER_NODE
                yield Held(job, template, (part, index), container, job.trainer if own else None)


def volumes(template: Template) -> Mapping[str, model.Volume]:
    """Return the volumes of the pods of a replicated job by their names."""
    return {each.name: each for each in template.pod.volumes}


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

    def __str__(self) -> str:
        """`/scripts/run.sh of the ConfigMap scripts`."""
        return f"{self.path} of {self.where}"


def values(found: ConfigMap | Secret) -> Payload:
    """Return what variables are read from: no `binaryData` of a ConfigMap (makeEnvironmentVariables)."""
    kept = found.payload.items()
    return {key: text for key, text in kept if text is not None or type(found) is Secret}


class Part(NamedTuple):
    """A ConfigMap or a Secret of a volume: the place in the volume, the kind, the name, and what is taken of it."""

    place: Path
    kind: type[ConfigMap | Secret]
    name: str
    files: model.Files

    def __str__(self) -> str:
        """`the ConfigMap scripts`."""
        return f"the {self.kind.__name__} {self.name}"

    def payload(self, inputs: Inputs, namespace: str) -> Payload | None:
        """Return what the object holds; None where the input does not have it, or has several."""
        found = inputs.only(self.kind, namespace, self.name)
        return None if found is None else found.payload


def parts(volume: model.Volume) -> Iterator[Part]:
    """Yield the ConfigMaps and Secrets of a volume."""
    if volume.config_map is not None:
        yield Part(("configMap",), ConfigMap, volume.config_map.name, volume.config_map)
    if volume.secret is not None:
        yield Part(("secret",), Secret, volume.secret.secret_name, volume.secret)
    for index, source in enumerate(volume.projected.sources if volume.projected else ()):
        place: Path = ("projected", "sources", index)
        if source.config_map is not None:
            yield Part((*place, "configMap"), ConfigMap, source.config_map.name, source.config_map)
        if source.secret is not None:
            yield Part((*place, "secret"), Secret, source.secret.name, source.secret)


def find(held: Held, path: str, inputs: Inputs) -> Seen | None:
    """Return a file that a container sees; None where it is not one of an object of the input.

    Args:
        held: the container.
        path: the file, which may be relative to the working directory.
        inputs: all documents of the input.
    """
    path = posixpath.normpath(posixpath.join(held.container.working_dir, path))
    mounts = [each for each in held.container.volume_mounts if path.startswith("/") and _holds(_place(each), path)]
    mount = max(mounts, key=lambda each: len(_place(each)), default=None)
    if mount is None or mount.sub_path_expr:
        return None
    volume = volumes(held.template).get(mount.name, model.Volume())
    files = _files(volume, held.job.namespace, inputs)
    if files is None:
        return None
    inside = posixpath.normpath(posixpath.join(mount.sub_path, path[len(_place(mount)) :].lstrip("/")))
    where, text = files.get(inside, ("", None))
    where = where or " and ".join(map(str, parts(volume)))
    return Seen(where, path, inside in files, text, secret="the Secret" in where)


def _place(mount: model.VolumeMount) -> str:
    return mount.mount_path.rstrip("/")


def _holds(folder: str, path: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(f"{folder}/"))


def _files(volume: model.Volume, namespace: str, inputs: Inputs) -> Mapping[str, tuple[str, str | None]] | None:
    """Return the files of a volume, each with its object and its text; None where one of the objects is not known."""
    every = [*parts(volume)]
    found: dict[str, tuple[str, str | None]] = {}
    for part in every:
        payload = part.payload(inputs, namespace)
        if payload is None:
            return None
        listed = {each.path: each.key for each in part.files.items} or {key: key for key in payload}
        found.update({path: (str(part), payload[key]) for path, key in listed.items() if key in payload})
    others = len(volume.projected.sources) if volume.projected else 0
    return found if every and len(every) >= others else None
