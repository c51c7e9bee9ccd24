"""Runtime patches: the template of a runtime with what one TrainJob changes in it, made once and read by every check.

Trainer merges the patches before it does anything else (`pkg/runtime/core/trainingruntime.go`
mergeRuntimePatches). They were called `podTemplateOverrides` (mergePodTemplateOverrides) and `podSpecOverrides`
before (mergePodSpecOverrides), and merged in the same way. A replicated job or a container that the runtime lacks is
left out: Trainer refuses such a TrainJob (`checks.patches`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from muster.strategies.documents import paths, trainjobs
from muster.strategies.documents.paths import Path
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.trainer import merges

__all__ = ["FIELDS", "apply", "find"]

FIELDS = ("spec.runtimePatches", "spec.podTemplateOverrides", "spec.podSpecOverrides")
"""Where a TrainJob writes what it changes in the template."""

_TEMPLATE: Path = ("spec", "template")
_POD: Path = ("template", "spec", "template")
_OLDER: dict[str, Path] = {"podTemplateOverrides": _POD, "podSpecOverrides": (*_POD, "spec")}


def apply(runtime: Runtime, trainjob: Mapping[str, Any]) -> Runtime:
    """Return the runtime as a TrainJob patches it; the same one where nothing is patched, or it was done before."""
    if runtime.bare is not None or not trainjobs.entries(trainjob):
        return runtime
    written = dict[Path, Path]()
    outer = runtime.document.get("spec") or {}
    template = outer.get("template") or {}
    for place, patch, of in _patches(trainjob, (template.get("spec") or {}).get("replicatedJobs") or ()):
        template = _merged(template, place, patch, (written, of), _TEMPLATE)
    document = {**runtime.document, "spec": {**outer, "template": template}}
    return structs.replace(runtime, document=document, bare=runtime.document, written=written)


def find(runtime: Runtime, path: Path) -> Path | None:
    """Return where a TrainJob wrote what is at a path of its patched runtime; None where the runtime did."""
    for length in range(len(path), len(_TEMPLATE), -1) if runtime.written else ():
        of = runtime.written.get(path[:length])
        if of is not None:
            return (*of, *path[length:])
    return None


def _patches(trainjob: Mapping[str, Any], jobs: Sequence[Any]) -> Iterator[tuple[Path, Mapping[str, Any], Path]]:
    """Yield the places in the template, what is merged there, and where a TrainJob wrote it."""
    for entry in trainjobs.entries(trainjob):
        template = (entry.patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        if entry.is_own:
            yield (), template, (*entry.place, "trainingRuntimeSpec", "template")
            continue
        if "metadata" in template:
            yield ("metadata",), template["metadata"], entry.place
        inside = _OLDER.get(str(entry.place[1]), ()) if len(entry.place) > 1 else ()
        for patch in (template.get("spec") or {}).get("replicatedJobs") or ():
            for index, job in enumerate(jobs):
                if job.get("name") == patch["name"]:
                    found = paths.lookup(patch, inside)
                    yield ("spec", "replicatedJobs", index, *inside), found, entry.place


def _merged(value: Any, place: Path, patch: Mapping[str, Any], notes: tuple[dict[Path, Path], Path], at: Path) -> Any:
    """Return a value in which a patch is merged at a place inside of it."""
    if not place:
        written, of = notes
        return merges.merge(value or {}, patch, written.__setitem__, at, of)
    step = place[0]
    made: Any = list(value) if isinstance(step, int) else dict(value or {})
    made[step] = _merged(made[step] if isinstance(step, int) else made.get(step), place[1:], patch, notes, (*at, step))
    return made
