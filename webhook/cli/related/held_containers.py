"""Places: the containers of a job as they will run, and where a finding about one of them is reported.

On a TrainJob, `spec.trainer` replaces the command and the arguments of the training container, and adds to its env.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.webhook.cli.related.related_documents import items

__all__ = ["Held", "containers", "volumes"]

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
        for member in _MEMBERS:
            for index, container in enumerate(items(template.raw_spec, member)):
                own = mine and member == "containers" and container.get("name") == names.CONTAINER_NODE
                yield Held(job, template, (member, index), container, job.raw_trainer if own else {})


def volumes(template: Template) -> Mapping[object, Mapping[str, Any]]:
    """Return the volumes of the pods of a replicated job by their names."""
    return {each.get("name"): each for each in items(template.raw_spec, "volumes")}
