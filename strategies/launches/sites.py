"""The launch site: the command line that a training container will run, and the place where a change to it is written.

On a TrainJob, `spec.trainer.command` and `args` each replace the runtime's; a member that the TrainJob leaves out comes
from the runtime. Changes are always written to the object under admission: spec.trainer, or the JobSet's container.

Environments: the values of a container's variables, as far as its own document tells them.

A limit or request of the container is divided by its divisor and rounded up; a limit that the container lacks is the
node's, which only the pod knows. A value may name variables that stand before it. Sources: kubernetes v1.36.3
`pkg/api/v1/resource/helpers.go` ExtractContainerResourceValue, `pkg/kubelet/kubelet_pods.go` makeEnvironmentVariables.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from msgspec import Struct

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import names, quantities
from muster.strategies.documents.model import Container, EnvVar, ResourceFieldRef, Resources
from muster.strategies.documents.paths import Path, field
from muster.strategies.jobs.jobs import Job, once_for_part
from muster.strategies.launches import readings
from muster.strategies.launches.launches import Launch
from muster.strategies.launches.readings import Reading
from muster.strategies.trainer.resources import merge_resources

__all__ = ["Site", "find_site", "known", "locate_variable"]


class Site(Struct, frozen=True, dict=True):
    """The command line of one training container.

    Attributes:
        command: effective entrypoint; empty where the image's own runs.
        args: effective arguments.
        own_command: whether the object under admission writes the command itself, rather than its runtime.
        path: place of the object that holds `command` and `args`.
        document: the object under admission.
        env: effective env, later entries win.
    """

    command: tuple[str, ...]
    args: tuple[str, ...]
    own_command: bool
    path: Path
    document: Mapping[str, Any]
    env: tuple[EnvVar, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        """Command and arguments, as the kernel gets them (before Kubernetes expands `$(NAME)`)."""
        return (*self.command, *self.args)

    @functools.cached_property
    def place(self) -> str:
        """`path` as a field path."""
        return field(self.document, self.path)

    @functools.cached_property
    def variables(self) -> Mapping[str, EnvVar]:
        """`env` by name."""
        return {each.name: each for each in self.env}

    @functools.cached_property
    def values(self) -> Mapping[str, str | None]:
        """The text of each variable by name, None for one that only the pod knows."""
        return {name: each.value if each.value_from is None else None for name, each in self.variables.items()}

    @property
    def launch(self) -> Launch:
        """The bare launch: the first word decides, and wrappers and shells are not looked into."""
        return self.reading.bare

    @functools.cached_property
    def reading(self) -> Reading:
        """Every launch that the command line makes, also through wrappers and a shell's text."""
        return readings.read(self.argv)

    def locate(self, index: int) -> str:
        """Return the field path of word `index` of `argv`."""
        inside = index - len(self.command)
        return f"{self.place}.command[{index}]" if inside < 0 else f"{self.place}.args[{inside}]"

    def locate_option(self, launch: Launch, option: str) -> str:
        """Return the field path of a long option of a launch in any of its spellings, else that of the launch.

        Inside a shell's text, the word that holds the text is the place.
        """
        spelled = option.replace("_", "-")
        for index, word in enumerate(self.argv):
            name = word.lstrip("-").partition("=")[0].replace("_", "-")
            if option and word.startswith("-") and name and spelled.startswith(name):
                return self.locate(index)
        if option and launch.through:
            texts = (i for i, word in enumerate(self.argv) if f"--{spelled}" in word or f"--{option}" in word)
            return self.locate(next(texts, 0))
        return f"{self.place}.{'command' if self.command else 'args'}"

    def write(self, changes: Changes, command: Sequence[str], args: Sequence[str], *, rule: str, reason: str) -> None:
        """Make this the command line.

        A command or args that are already in effect are not written again. If the new args only extend those that the
        object holds itself, the new words are appended.
        """
        if tuple(command) != self.command:
            changes.set((*self.path, "command"), list(command), rule=rule, reason=reason)
        kept = len(self.args)
        if tuple(args[:kept]) == self.args and changes.get(*self.path, "args") == list(self.args):
            for word in args[kept:]:
                changes.append((*self.path, "args"), word, rule=rule, reason=reason)
        elif tuple(args) != self.args:
            changes.set((*self.path, "args"), list(args), rule=rule, reason=reason)


@once_for_part
def find_site(job: Job) -> Site | None:
    """Return the site of the training container; None for a JobSet without one."""
    return _of_jobset(job) if job.kind == "JobSet" else _of_trainjob(job)


def locate_variable(job: Job, site: Site, name: str) -> str:
    """Return the field path of a variable: in the object under admission, else its runtime."""
    if job.kind == "TrainJob" and all(each.name != name for each in job.trainer.env):
        return "spec.runtimeRef.name"
    return f"{site.place}.env[{name}]"


def _of_jobset(job: Job) -> Site | None:
    place = job.container
    if place is None:
        return None
    own = place.container
    env = known(own.env, own.name, own.resources)
    return Site(own.command or (), own.args or (), bool(own.command), place.path, job.document, env)


def _of_trainjob(job: Job) -> Site:
    trainer, own = job.trainer, job.container.container if job.container else Container()
    merged = merge_resources(own.resources, trainer.resources_per_node, job.runtime)
    return Site(
        command=(own.command if trainer.command is None else trainer.command) or (),
        args=(own.args if trainer.args is None else trainer.args) or (),
        own_command=trainer.command is not None,
        path=("spec", "trainer"),
        document=job.document,
        env=known((*own.env, *trainer.env), own.name, merged, names.RESERVED_ENV),
    )


_REFERENCE = r"\$\(([A-Za-z_]\w*)\)"
_LONGEST, _MOST = 1024, 65_536
"""Characters of a value that is written or has others written into it, and of all that are written."""


def known(
    env: Iterable[EnvVar], name: str, resources: Resources, replaced: frozenset[str] = frozenset()
) -> tuple[EnvVar, ...]:
    """Return an env with what is known of its values in it.

    Args:
        env: the variables of a container.
        name: of the container.
        resources: its limits and requests.
        replaced: variables that get another value later.
    """
    found = [_with_amount(each, name, resources) if each.value_from else each for each in env]
    return tuple(_expanded(found, replaced) if any("$(" in each.value for each in found) else found)


def _with_amount(entry: EnvVar, name: str, resources: Resources) -> EnvVar:
    asked = entry.value_from.resource_field_ref if entry.value_from else None
    value = _amount(asked, resources) if asked and asked.container_name in ("", name) else None
    return entry if value is None else EnvVar(name=entry.name, value=value)


def _amount(asked: ResourceFieldRef, resources: Resources) -> str | None:
    part, _, resource = asked.resource.partition(".")
    # A request that is missing becomes the limit.
    parts = {"requests": (resources.requests, resources.limits), "limits": (resources.limits,)}.get(part, ())
    amount = next((each[resource] for each in parts if resource in each), None)
    if amount is None:
        return None
    try:
        total, divisor = quantities.exact(amount), quantities.exact(asked.divisor)
    except ValueError:
        return None  # the API server says so at once
    return str(ceil(total / (divisor if divisor > 0 else 1))) if total > 0 else None


def _expanded(env: Sequence[EnvVar], replaced: frozenset[str]) -> Sequence[EnvVar]:
    """Write the values of variables for references to them; others stay, as Kubernetes leaves them."""
    texts: dict[str, str] = {}
    found, written = list(env), 0

    def value(reference: re.Match[str]) -> str:
        return texts.get(reference[1], reference[0])

    for index, entry in enumerate(env):
        text = entry.literal
        texts.pop(entry.name, None)
        if text is not None and "$$" not in text:
            if "$(" in text and len(text) <= _LONGEST and written < _MOST:
                text = re.sub(_REFERENCE, value, text)
                found[index] = EnvVar(name=entry.name, value=text)
                written += len(text)
            if len(text) <= _LONGEST and entry.name not in replaced:
                texts[entry.name] = text
    return found
