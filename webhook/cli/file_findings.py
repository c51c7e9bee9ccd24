"""Findings that only files need, because a cluster tells the same in its own way.

The API server refuses what has not the shape of its kind, and Trainer a job whose runtime does not exist. Files show
the first, by the definitions that Muster carries. They do not show the second: the runtime may be in the cluster.

A JobSet without the label of a framework is left alone in a cluster. Files judge it as what its launch is, and nothing
is added to it.

"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping

from msgspec import structs

from muster.strategies.documents import decoding, model, names, paths, pods, trainjobs
from muster.strategies.documents.findings import Finding, note, warning
from muster.strategies.jobs import containers, parts
from muster.strategies.jobs.containers import Kind
from muster.strategies.launches import program_kinds
from muster.strategies.launches.launches import Launcher
from muster.webhook.admission.decisions import Decision
from muster.webhook.cli import related, schemas
from muster.webhook.cluster import readers
from muster.webhook.kubeyaml.composer import Repeat
from muster.webhook.kubeyaml.sources import Source

__all__ = ["check", "framework", "judged", "may_train", "of_container", "repeated"]

_NEAR = 0.9  # trl-distributed and mlx-distributed are two runtimes, and not one misspelt
_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}")


def check(
    source: Source, decision: Decision, cluster: readers.ClusterReader, inputs: related.Inputs
) -> Iterator[Finding]:
    """Report what the API server would refuse, and a runtime that no file holds.

    Args:
        source: the object as it was written.
        decision: of its mutation.
        cluster: what the decision read.
        inputs: all documents of the input, of any kind.
    """
    yield from repeated(source)
    kind = schemas.known_as(source.document, readers.trainer_of(cluster))
    if kind is not None:
        yield from schemas.check(source.document, kind)
    if decision.verdict != "skipped" and decision.governor.runtime_open:
        yield _unknown_runtime(decision, cluster, inputs)


def repeated(source: Source) -> Iterator[Finding]:
    """Report each member that is written twice."""
    return map(functools.partial(_repeated, source.document), source.repeats)


def _repeated(document: Mapping[str, object], repeat: Repeat) -> Finding:
    """Report a member that is written twice; the value that is lost is not quoted, for nobody has looked at it."""
    if repeat.merged:
        message = "is written here, and a << behind it gives another value, which kubectl takes; put the << first"
    elif repeat.differs:
        message = (
            "is written twice in one object; kubectl takes the last value, this one, and drops the other; remove one"
        )
    else:
        message = "is written twice in one object with one value; remove one"
    value = paths.lookup(document, repeat.path)
    shown = None if value is paths.ABSENT or type(value) in (dict, list) else value
    return warning(paths.field(document, repeat.path), shown, message, rule="core/repeated-member")


def _unknown_runtime(decision: Decision, cluster: readers.ClusterReader, inputs: related.Inputs) -> Finding:
    """Note a runtime that the cluster may have; warn where the files have one of nearly this name, or elsewhere."""
    kind, name = trainjobs.runtime_ref(decision.request.document)
    namespace = decision.request.namespace if kind == "TrainingRuntime" else ""
    given = map(_name, () if namespace else cluster.every(kind, {}) or ())
    near = difflib.get_close_matches(name, given, 1, _NEAR) if _NAME.fullmatch(name) else []
    meant = f"did you mean {near[0]}? Else " if near else ""
    message = (
        f"no {kind} of this name is among the files, so what depends on it was not checked; {meant}give it with "
        f"--runtimes FILE, which `{_command(kind, name, namespace)} > FILE` writes"
    )
    elsewhere = any(each.kind in trainjobs.RUNTIME_KINDS and each.metadata.name == name for each in inputs.sources)
    report = warning if near or elsewhere else note
    return report("spec.runtimeRef.name", name, message, rule="core/runtime-unknown")


def _command(kind: str, name: str, namespace: str) -> str:
    where = f" -n {namespace}" if _NAME.fullmatch(namespace) else ""
    return f"kubectl get{where} {kind.lower()} {name if _NAME.fullmatch(name) else 'NAME'} -o yaml"


def _name(document: Mapping[str, object]) -> str:
    return str(decoding.member(document, "metadata").get("name", ""))


_FRAMEWORKS = {
    **dict.fromkeys((Launcher.TORCHRUN, Launcher.ACCELERATE, Launcher.DEEPSPEED, Launcher.COMPOSER), "torch"),
    Launcher.FABRIC: "torch",
    Launcher.TRL: "trl",
    Launcher.TUNE: "torchtune",
    Launcher.VLLM: "vllm",
}
_LAUNCHERS = {launcher.value: name for launcher, name in _FRAMEWORKS.items()}
_TRL_SERVER = "vllm-serve"


def framework(decision: Decision) -> str:
    """Return the framework of the launch of an unlabelled JobSet; "" for any other object, or where none is read.

    Args:
        decision: of the JobSet, which has the shape of its kind unless a finding says that it has not.
    """
    governor, document = decision.governor, decision.request.document
    is_free = decision.request.kind == "JobSet" and governor.owner is None and governor.framework is None
    if not is_free or decision.verdict != "unchanged" or any(each.rule == "core/shape" for each in decision.findings):
        return ""
    found = (_of_parts(document, each) for each in (None, "vllm"))
    return next(filter(None, found), "")


def _of_parts(document: Mapping[str, object], serves: str | None) -> str:
    """Return the one framework of the parts that train, or that serve."""
    labels = decoding.read(decoding.member(document, "metadata"), model.ObjectMeta).labels
    work = parts.find(document, serves, program_kinds.identify, common=labels.get(names.ROLE_LABEL))
    places = [pods.place(document, *each) for each in work.places]
    every = {of_container(place.container) for place in places}
    return every.pop() if len(every) == 1 else ""


def of_container(container: model.Container) -> str:
    """Return the framework of what a container starts, "" where it starts no launcher that is read."""
    program = containers.program(container, program_kinds.identify)
    if program.target == _TRL_SERVER:
        return ""
    return "trl" if program.target.startswith("trl.scripts.") else _LAUNCHERS.get(program.launcher, "")


def may_train(jobset: Mapping[str, object]) -> bool:
    """Whether any container of a JobSet, which has the shape of its kind, starts a program that may train."""
    every = (each for job in decoding.read(jobset, model.JobSet).spec.replicated_jobs for each in job.pod.containers)
    return any(containers.program(each, program_kinds.identify).kind is not Kind.IDLE for each in every)


def judged(plain: Decision, assumed: Decision) -> Decision:
    """Return the decision about an unlabelled JobSet with what was found of its launch, which refuses nothing.

    Args:
        plain: what the webhook decides.
        assumed: what was found as if the JobSet had the label; nothing was added to it.
    """
    name = assumed.governor.framework
    message = (
        f"the JobSet has no such label, so the webhook of Muster will not touch it, and nothing was added here; it was "
        f"judged by its launch; for the changes and checks in a cluster, add the label with the value {name}"
    )
    told = note(f"metadata.labels[{names.FRAMEWORK_LABEL}]", None, message, rule="core/unlabelled")
    found = (*assumed.findings, told)
    return structs.replace(assumed, verdict=plain.verdict, allowed=plain.allowed, findings=found)
