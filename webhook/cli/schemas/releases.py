"""Releases: members that another Trainer knows than the one in force, and what is written instead for one document.

Which version knows a member is read from the definitions of all of them. The rows say what takes a member's place; a
member without a row is only said to be of another version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muster.strategies.documents import overrides, paths
from muster.strategies.documents.paths import Path
from muster.strategies.documents.trainer_versions import VERSIONS, Version
from muster.webhook import kubeyaml
from muster.webhook.cli.schemas import schema_shapes
from muster.webhook.cli.schemas.schema_shapes import Kind, Shape

__all__ = ["RULE", "told"]

RULE = "core/trainer-version"

_LONGEST = 600  # characters of a replacement; a longer one is described
_Write = Callable[[Mapping[str, Any], Any, Version], str]


def told(document: Mapping[str, Any], path: Path, kind: Kind, fits: Callable[[Kind], bool]) -> str | None:
    """Return what a member is that the Trainer in force does not know; None where no other one knows it either.

    Args:
        document: the whole object.
        path: of the member, as the document has it.
        kind: of the object, in the version in force.
        fits: whether the object is as another version wants it.
    """
    every = {version: schema_shapes.kinds(version.name)[kind.name] for version in VERSIONS.values()}
    knowing = [version for version in every if _knows(every[version].shape, path)]
    if kind.name == "JobSet" or not knowing:
        return None
    order = list(every)
    newer = order.index(knowing[0]) > order.index(kind.trainer)
    value = paths.lookup(document, path)
    instead = _row(path, newer=newer)(document, value, kind.trainer)
    fitting = [version for version in knowing if version.name != "next" and fits(every[version])]
    judged = f"; `--trainer {fitting[-1].name}` judges the file for a cluster that has it" if fitting else ""
    known = f"is known since {knowing[0]}" if newer else f"was removed in {order[order.index(knowing[-1]) + 1]}"
    return f"{known}, {_FATE.format(kind.trainer)}; {instead}{judged}"


_FATE = "so with {} kubectl refuses the object, and from other clients the API server drops the member"


def _knows(shape: Shape, path: Path) -> bool:
    """Whether a shape has what is at a path, down to the type of a plain value."""
    for part in path:
        inner = shape.items if isinstance(part, int) else (shape.properties or {}).get(part, shape.members)
        if inner is None:
            return False
        shape = inner
    return True


def _row(path: Path, *, newer: bool) -> _Write:
    names = [part for part in path if isinstance(part, str)]
    rows = _SINCE if newer else _UNTIL
    for start in range(len(names)):
        if found := rows.get(".".join(names[start:])):
            return found
    return _removed


def _removed(_: Mapping[str, Any], __: Any, version: Version) -> str:
    return f"remove it, for {version} has nothing in its place"


def _text(text: str) -> _Write:
    return lambda _, __, ___: text


def _patched(document: Mapping[str, Any], _: Any, version: Version) -> str:
    """Write what changes the pods of a runtime as the version in force spells it."""
    text = kubeyaml.dump(kubeyaml.Row([overrides.spelled(document, version.patches)])).strip()[2:-2]
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST].rpartition(', ')[0]}, … (and so on, entry by entry)"
    return f"{version} has {version.patches} in its place, so write this: {text}"


def _processes(_: Mapping[str, Any], value: Any, __: Version) -> str:
    if isinstance(value, int):
        wanted = f"numProcPerNode: {value}"
        return f"remove it, and write `{wanted}` into spec.trainer of each TrainJob of this runtime"
    return f"remove it, for {_WORDS.get(str(value), _WORDS['auto'])}"


_WORDS = {
    "auto": "Trainer itself starts a process for each GPU, or for each CPU of a node without GPUs",
    "gpu": "Trainer itself starts a process for each GPU that the job asks for",
    "cpu": "Trainer itself starts a process for each CPU of a job that asks for no GPU",
}

_UNTIL: Mapping[str, _Write] = {
    "spec.podSpecOverrides": _patched,
    "spec.podTemplateOverrides": _patched,
    "spec.labels": _patched,
    "spec.annotations": _patched,
    "torch.numProcPerNode": _processes,
    "torch.elasticPolicy": _text("remove it, for no Trainer ever acted on it"),
    "workloadRef": _text("Kubernetes replaced it by schedulingGroup, so write that"),
}
"""By the end of a member's path: what is written for a Trainer that does not know it any more."""

_RUNTIME = "of the runtime"
_SINCE: Mapping[str, _Write] = {
    "spec.runtimePatches": _patched,
    "spec.podTemplateOverrides": _patched,
    "spec.activeDeadlineSeconds": _text(
        f"write it into the Job {_RUNTIME}, at spec.template.spec.replicatedJobs[node].template.spec"
    ),
    "spec.terminationGracePeriodSeconds": _text(f"write it into the pod {_RUNTIME}"),
    "torch.envInjection": _text("write the PET_ variables into the env of these containers"),
    "mlPolicy.jax": _text("write numNodes alone, and JAX's variables into env"),
    "mlPolicy.xgboost": _text("write numNodes alone, and the DMLC_ variables into env"),
    "podGroupPolicy.volcano": _text("write podGroupPolicy: {coscheduling: {}}"),
    "trainer.resourceClaimsPerNode": _text(
        "write the same list as JSON into the annotation muster.dev/resource-claims"
    ),
    "spec.failurePolicy": _text(f"write failurePolicy, with maxRestarts, into spec.template.spec {_RUNTIME}"),
    "spec.runPolicy": _text("write failurePolicy, as a JobSet has it, into spec.template.spec"),
    "spec.scheduling": _text("write podGroupPolicy"),
}
"""By the end of a member's path: what is written for a Trainer that does not know it yet."""
