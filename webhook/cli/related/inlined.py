"""Inlined: a job with the scripts and the variables that ConfigMaps of the input give it, written into its own fields.

What is found out about it that was not about the job itself is a finding about the job. Texts of Secrets stay where
they are.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import paths
from muster.strategies.documents.findings import Finding, Severity
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import launches, program_kinds
from muster.strategies.shell import invoked
from muster.webhook.admission.decisions import Decision
from muster.webhook.cli.related import configurations, held_containers
from muster.webhook.cli.related.held_containers import Held
from muster.webhook.cli.related.related_documents import Inputs, items, member
from muster.webhook.kubeyaml.sources import Source

__all__ = ["Told", "check"]

_LONGEST = 32_768  # characters of a script that is read
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIONS = {"errexit": ("-e",), "pipefail": ("-o", "pipefail")}
Decide = Callable[[Mapping[str, Any]], Iterable[Finding]]


class Told(Struct, frozen=True):
    """What the ConfigMaps of the input tell about a job.

    Attributes:
        findings: about the job with what they hold in it.
        settled: rules and fields of what is open only without them.
    """

    findings: Sequence[Finding] = ()
    settled: frozenset[tuple[str, str]] = frozenset()


def check(source: Source, decision: Decision, inputs: Inputs, decide: Decide) -> Told:
    """Find out what is found about the job only with what the ConfigMaps of the input hold, and what only without.

    Args:
        source: the job as it was written.
        decision: of its mutation.
        inputs: all documents of the input.
        decide: returns all findings about another document in the place of the job.
    """
    request, governor = decision.request, decision.governor
    if governor.owner is not None or decision.verdict == "skipped":
        return Told()
    if (request.kind != "JobSet" and governor.runtime is None) or any(
        each.rule == "core/shape" for each in decision.findings
    ):
        return Told()
    kind: Any = "JobSet" if request.kind == "JobSet" else "TrainJob"
    job = Job(kind, Changes(source.document), request.namespace, governor.runtime, identify=program_kinds.identify)
    containers = [held for held in held_containers.containers(job) if kind == "JobSet" or held.own]
    launched = str([change.after for change in decision.changes])
    faults = [
        fault
        for held in containers
        for fault in configurations.faults(held, _script(held, inputs)[0] or held.command, inputs, launched)
    ]
    holding = containers if inputs.has(request.namespace, "ConfigMap") else ()
    written = {held: told for held in holding if (told := _written(held, inputs))[0]}
    if not written:
        return Told(faults)
    document = copy.deepcopy(dict(source.document))
    for held, (members, _) in written.items():
        inside = ("spec", "trainer") if kind == "TrainJob" else (*held.template.pod_path, *held.inside)
        place = paths.lookup(document, inside)
        place.update(members)
    before, after = list(decide(source.document)), list(decide(document))
    said = {(each.rule, _place(each, written)) for each in before}
    open_before = {
        (each.rule, each.field) for each in before if each.rule in _OPEN and each.severity is not Severity.ERROR
    }
    found = [
        each for each in after if each.severity is not Severity.NOTE and (each.rule, _place(each, written)) not in said
    ]
    still = {(each.rule, each.field) for each in after}
    return Told([*faults, *(_told(each, written) for each in found)], frozenset(open_before - still))


_OPEN = frozenset(
    {"core/env-from", "core/unknown-address", "core/unknown-world", "core/unset-variable", "torch/not-enforced"}
    | {"trl/launch"}
)
"""Rules of what Muster cannot see, of which a ConfigMap of the input may be what it cannot see."""


def _place(finding: Finding, written: Mapping[Held, tuple[Mapping[str, Any], str]]) -> str:
    """Return the field of a finding; of a command line that was written anew, the container's."""
    for held, (_, where) in written.items():
        field = "spec.trainer" if held.own else held.template.field(*held.inside)
        if where and finding.field.startswith((f"{field}.command", f"{field}.args")):
            return field
    return finding.field


def _told(finding: Finding, written: Mapping[Held, tuple[Mapping[str, Any], str]]) -> Finding:
    """Report a finding about a script at the command that starts it."""
    for held, (_, where) in written.items():
        field = "spec.trainer" if held.own else held.template.field(*held.inside)
        if where and finding.field.startswith((f"{field}.command", f"{field}.args")):
            message = f"in {where}: {finding.message}"
            return dataclasses.replace(finding, field=f"{field}.command", message=message)
    return finding


def _written(held: Held, inputs: Inputs) -> tuple[Mapping[str, Any], str]:
    """Return the members of a container with what they name in them, and the script that it starts."""
    members: dict[str, Any] = {}
    words, where = _script(held, inputs)
    settled, named = configurations.apply(held, words or held.command, inputs)
    if settled:
        words, where = settled, f"{named}, with {where}" if where else named
    if words:
        members.update({"command": words, "args": []})
    env, left = _env(held, inputs)
    if env is not None:
        members["env"] = env
        if not held.own:
            members["envFrom"] = left
    return members, where


def _script(held: Held, inputs: Inputs) -> tuple[Sequence[str], str]:
    """Return the command line that runs the text of a script, and the file and its object; () where there is none."""
    words = held.command
    shell, options, rest = "", frozenset[str](), words[1:]
    path = words[0] if words and "/" in words[0] else ""
    if words and launches.program(words[0]) in launches.SHELLS:
        called = invoked(words)
        shell, options, path, rest = words[0], called.options, called.file or "", called.arguments
    seen = held_containers.find(held, path, inputs) if path else None
    if seen is None or seen.secret or not seen.text or len(seen.text) > _LONGEST:
        return (), ""
    first = seen.text.partition("\n")[0].split() if seen.text.startswith("#!") else []
    if not shell:
        first = [word.removeprefix("#!") for word in first if word != "#!"]
        first = first[1:] if first and launches.program(first[0]) == "env" else first
        if not first or launches.program(first[0]) not in launches.SHELLS:
            return (), ""
        shell, options = first[0], invoked([*first, path]).options
    given = [word for option in sorted(options) for word in _OPTIONS.get(option, ())]
    return [shell, *given, "-c", seen.text, path, *rest], f"{seen.path} of {seen.where}"


def _env(held: Held, inputs: Inputs) -> tuple[list[Mapping[str, Any]] | None, list[Mapping[str, Any]]]:
    """Return the env with the values of ConfigMaps in it, None where it has none, and the sources that are left."""
    known: list[Mapping[str, Any]] = []
    left: list[Mapping[str, Any]] = []
    for source in items(held.container, "envFrom"):
        name = member(source, "configMapRef").get("name")
        found = held_containers.payload(inputs, "ConfigMap", held.job.namespace, name) if name else None
        prefix = str(source.get("prefix") or "")
        if found is None:
            left.append(source)
        for key, text in (found or {}).items():
            if text is not None and _NAME.fullmatch(prefix + key):
                known.append({"name": prefix + key, "value": text.replace("$(", "$$(")})
    own = items(held.own, "env") if held.own else items(held.container, "env")
    named = [_valued(entry, held, inputs) for entry in own]
    if not known and all(one is other for one, other in zip(named, own, strict=True)):
        return None, left
    return [*known, *named], left


def _valued(entry: Mapping[str, Any], held: Held, inputs: Inputs) -> Mapping[str, Any]:
    reference = member(entry, "valueFrom", "configMapKeyRef")
    found = (
        held_containers.payload(inputs, "ConfigMap", held.job.namespace, reference.get("name")) if reference else None
    )
    text = (found or {}).get(str(reference.get("key")))
    return entry if text is None else {"name": entry.get("name"), "value": text.replace("$(", "$$(")}
