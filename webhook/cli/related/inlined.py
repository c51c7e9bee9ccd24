"""Inlined: a job with the scripts and the variables that ConfigMaps of the input give it, written into its own fields.

What is found out about it that was not about the job itself is a finding about the job. Texts of Secrets stay where
they are.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from muster.strategies.documents import decoding, model, paths
from muster.strategies.documents.findings import Finding, Severity
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import launches
from muster.strategies.shell import invoked
from muster.webhook.admission.decisions import Decision
from muster.webhook.cli.related import configurations, held_containers
from muster.webhook.cli.related.held_containers import Held
from muster.webhook.cli.related.related_documents import ConfigMap, Inputs
from muster.webhook.kubeyaml.sources import Source

__all__ = ["check"]

_LONGEST = 32_768  # characters of a script that is read
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIONS = {"errexit": ("-e",), "pipefail": ("-o", "pipefail")}
_Document = Mapping[str, object]
_Written = Mapping[Held, tuple[_Document, str]]
"""What is written into containers, and the script that each starts."""
Decide = Callable[[_Document], Iterable[Finding]]


def check(
    job: Job, source: Source, decision: Decision, inputs: Inputs, decide: Decide
) -> tuple[list[Finding], frozenset[tuple[str, str]]]:
    """Find out what is found about the job only with what the ConfigMaps of the input hold, and what only without.

    Args:
        job: the job as it was written.
        source: the same as a document.
        decision: of its mutation.
        inputs: all documents of the input.
        decide: returns all findings about another document in the place of the job.

    Returns:
        What is found with them, and the rules and fields of what is open only without them.
    """
    containers = [held for held in held_containers.containers(job) if job.kind == "JobSet" or held.trainer]
    launched = str([change.after for change in decision.changes])
    faults = [
        fault
        for held in containers
        for fault in configurations.faults(held, _script(held, inputs)[0] or held.command, inputs, launched)
    ]
    if not inputs.has(job.namespace, ConfigMap):
        return faults, frozenset()
    document = copy.deepcopy(dict(source.document))
    written: dict[Held, tuple[_Document, str]] = {}
    for held in containers:
        place = paths.lookup(document, held.path)
        members, where = _filled(held, place, inputs)
        if members:
            place.update(members)
            written[held] = members, where
    if not written:
        return faults, frozenset()
    before, after = list(decide(source.document)), list(decide(document))
    said = {(each.rule, _place(each, written)) for each in before}
    open_before = {
        (each.rule, each.field) for each in before if each.rule in _OPEN and each.severity is not Severity.ERROR
    }
    found = [
        each for each in after if each.severity is not Severity.NOTE and (each.rule, _place(each, written)) not in said
    ]
    still = {(each.rule, each.field) for each in after}
    return [*faults, *(_told(each, written) for each in found)], frozenset(open_before - still)


_OPEN = frozenset(
    {"core/env-from", "core/unknown-address", "core/unknown-world", "core/unset-variable", "torch/not-enforced"}
    | {"trl/launch"}
)
"""Rules of what Muster cannot see, of which a ConfigMap of the input may be what it cannot see."""


def _scripted(finding: Finding, written: _Written) -> tuple[str, str]:
    """Return the container whose command line was written anew and has the finding, and its script; "" for none."""
    for held, (_, where) in written.items():
        field = "spec.trainer" if held.trainer else held.template.field(*held.inside)
        if where and finding.field.startswith((f"{field}.command", f"{field}.args")):
            return field, where
    return "", ""


def _place(finding: Finding, written: _Written) -> str:
    """Return the field of a finding; of a command line that was written anew, the container's."""
    return _scripted(finding, written)[0] or finding.field


def _told(finding: Finding, written: _Written) -> Finding:
    """Report a finding about a script at the command that starts it."""
    field, where = _scripted(finding, written)
    if not field:
        return finding
    return dataclasses.replace(finding, field=f"{field}.command", message=f"in {where}: {finding.message}")


def _filled(held: Held, raw: _Document, inputs: Inputs) -> tuple[_Document, str]:
    """Return the members of a container with what they name in them, and the script that it starts."""
    members: dict[str, object] = {}
    words, where = _script(held, inputs)
    settled, named = configurations.apply(held, words or held.command, inputs)
    if settled:
        words, where = settled, f"{named}, with {where}" if where else named
    if words:
        members.update({"command": words, "args": []})
    known, left = _env_from(held, inputs)
    own = held.trainer.env if held.trainer else held.container.env
    texts = {index: text for index, entry in enumerate(own) if (text := _value(entry, held, inputs)) is not None}
    if known or texts:
        env = enumerate(decoding.sequence(raw.get("env")))
        members["env"] = [*known, *(_variable(own[n].name, texts[n]) if n in texts else each for n, each in env)]
        if not held.trainer:
            members["envFrom"] = [each for n, each in enumerate(decoding.sequence(raw.get("envFrom"))) if n in left]
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
    return [shell, *given, "-c", seen.text, path, *rest], str(seen)


def _env_from(held: Held, inputs: Inputs) -> tuple[list[_Document], set[int]]:
    """Return the variables that ConfigMaps give as a whole, and the places of the sources that are left."""
    known: list[_Document] = []
    left: set[int] = set()
    for index, source in enumerate(held.container.env_from):
        name = source.config_map_ref.name if source.config_map_ref else ""
        found = inputs.only(ConfigMap, held.job.namespace, name)
        if found is None:
            left.add(index)
            continue
        given = ((source.prefix + key, text) for key, text in found.payload.items())
        known += [_variable(key, text) for key, text in given if text is not None and _NAME.fullmatch(key)]
    return known, left


def _value(entry: model.EnvVar, held: Held, inputs: Inputs) -> str | None:
    """Return what a ConfigMap of the input holds for a variable."""
    named = entry.value_from.config_map_key_ref if entry.value_from else None
    found = inputs.only(ConfigMap, held.job.namespace, named.name) if named else None
    return found.payload.get(named.key) if named and found else None


def _variable(name: str, text: str) -> _Document:
    return {"name": name, "value": text.replace("$(", "$$(")}
