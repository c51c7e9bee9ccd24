"""Offline: findings that only files need, because a cluster tells the same in its own way.

The API server refuses what has not the shape of its kind, and Trainer a job whose runtime does not exist. Files show
the first, by the definitions that Muster carries. They do not show the second: the runtime may be in the cluster.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents import loose, paths, trainjobs
from muster.strategies.documents.findings import Finding, note, warning
from muster.webhook.admission.decisions import Decision
from muster.webhook.cli import related, schemas
from muster.webhook.cluster import readers
from muster.webhook.kubeyaml.composer import Repeat
from muster.webhook.kubeyaml.sources import Source

__all__ = ["check"]

_NEAR = 0.9  # trl-distributed and mlx-distributed are two runtimes, and not one misspelt
_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}")


def check(
    source: Source, decision: Decision, cluster: readers.ClusterReader, inputs: related.Inputs
) -> Iterator[Finding]:
    """Report what the API server would refuse, a runtime that no file holds, and what other documents say.

    Args:
        source: the object as it was written.
        decision: of its mutation.
        cluster: what the decision read.
        inputs: all documents of the input, of any kind.
    """
    yield from map(functools.partial(_repeated, source.document), source.repeats)
    kind = schemas.known_as(source.document, readers.trainer_of(cluster))
    if kind is not None:
        yield from schemas.check(source.document, kind)
    if decision.verdict != "skipped" and decision.governor.runtime_open:
        yield _unknown_runtime(decision, cluster, inputs)
    if decision.verdict != "skipped" and decision.governor.owner is None:
        yield from related.check(source, decision, cluster, inputs)


def _repeated(document: Mapping[str, Any], repeat: Repeat) -> Finding:
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
    shown = None if value is paths.ABSENT or isinstance(value, dict | list) else value
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
    elsewhere = any(each.kind in trainjobs.RUNTIME_KINDS and _name(each.document) == name for each in inputs.sources)
    report = warning if near or elsewhere else note
    return report("spec.runtimeRef.name", name, message, rule="core/runtime-unknown")


def _command(kind: str, name: str, namespace: str) -> str:
    where = f" -n {namespace}" if _NAME.fullmatch(namespace) else ""
    return f"kubectl get{where} {kind.lower()} {name if _NAME.fullmatch(name) else 'NAME'} -o yaml"


def _name(document: Mapping[str, Any]) -> str:
    return str(loose.member(document, "metadata").get("name", ""))
