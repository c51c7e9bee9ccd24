"""Worlds: how many ranks a training should have, and how many the guard reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from muster.strategies.documents import names
from muster.webhook.cli.stories.gathered import Document, Gathered
from muster.webhook.cli.stories.told import World
from muster.webhook.controllers import guards, trainings

__all__ = ["world"]


def world(found: Gathered) -> World:
    """Return both sizes: what Muster kept of the report counts, and else what pods that are still there say."""
    asked = _asked(found.jobset)
    kept = trainings.parse_report(((found.jobset or {}).get("metadata") or {}).get("annotations", {}).get(_KEPT))
    report = kept
    for each in (trainings.Report.of_pod(pod) for pod in found.pods):
        report = trainings.chosen(report, each) if each else report
    if report is None:
        return World(asked)
    said = report.said
    expected = said.expected or guards.expected(asked)
    right = expected.holds(said.size) if expected else None
    source: Literal["kept", "pod"] = "kept" if report == kept else "pod"
    return World(
        str(expected) if expected else None, said.size, right, source, report.pod, said.steps, said.seconds,
        said.verdict, said.sampling,
    )  # fmt: skip


_KEPT = trainings.ANNOTATION


def _asked(jobset: Document | None) -> str | None:
    """Return the size that Muster has written into the training's containers."""
    sizes = {value for env in _environments(jobset) if (value := env.get(names.EXPECTED_WORLD_SIZE))}
    (size,) = sizes if len(sizes) == 1 else (None,)
    return str(size) if guards.expected(size) else None


def _environments(jobset: Document | None) -> Iterator[dict[str, object]]:
    for job in ((jobset or {}).get("spec") or {}).get("replicatedJobs") or ():
        pod = (job["template"].get("spec") or {}).get("template") or {}
        for container in (pod.get("spec") or {}).get("containers") or ():
            yield {each["name"]: each.get("value") for each in container.get("env") or ()}
