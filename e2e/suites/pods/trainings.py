"""Trainings with a probe in place of the program: applied as users do, run to their end, and reported by each pod.

In the probe's image every launcher is a program that prints what it was given, resolves its coordinator, and meets the
other ranks there (`e2e/images/probe`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from e2e.suites.support import documents, waits
from e2e.suites.support.kubectls import Outcome
from e2e.suites.support.spaces import Space, conditions

__all__ = ["IMAGE", "Pod", "assert_met", "ended", "known", "run", "runtime"]

IMAGE = os.environ.get("MUSTER_E2E_PROBE_IMAGE", "localhost/muster-probe:e2e")

_PATIENCE = 120
_COMPLETE = "complete"
_UNPULLABLE = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
_STEP_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class Pod:
    """The report of one pod.

    Attributes:
        step: the replicated job that it belongs to.
        index: its completion index.
        command: the program, without its folder, and its arguments.
        env: the environment of its process.
        host: its own host name.
        address: its own address, as the API server tells it.
        resolved: host, port and address of its coordinator; None when it was not told of one.
        came: the node ranks that met at the coordinator.
        rank: its own node rank there.
        started, finished: of its container, as the API server tells them.
    """

    step: str
    index: int
    command: list[str]
    env: Mapping[str, str]
    host: str
    address: str
    resolved: Mapping[str, Any] | None
    came: list[int] | None
    rank: int | None
    started: str
    finished: str


def runtime(
    name: str, framework: str = "torch", *, command: Sequence[str] | None = None, **more: Any
) -> dict[str, Any]:
    """A TrainingRuntime whose pods are probes on real nodes; `more` as of `documents.training_runtime`."""
    return documents.training_runtime(name, framework, image=IMAGE, command=command, fake=False, **more)


def run(space: Space, *applied: Mapping[str, Any]) -> list[Pod]:
    """Apply documents, the last of which is a TrainJob, and wait for its end; return the pods of its training."""
    *before, job = applied
    space.apply(*before).expect()
    known(space, job).expect()
    space.apply(job).expect()
    return ended(space, job["metadata"]["name"])


def known(space: Space, job: Mapping[str, Any]) -> Outcome:
    """Wait until Trainer, whose webhook reads a cache, knows the runtime of a job; return the last dry run."""

    def look() -> Outcome | None:
        outcome = space.create(job, dry_run=True)
        return None if outcome.refused_with("must be created before the TrainJob") else outcome

    found = waits.until(f"Trainer to know the runtime of {job['metadata']}", look)
    assert found is not None
    return found


def ended(space: Space, name: str, step: str = "node") -> list[Pod]:
    """Wait until a TrainJob is complete; return the pods of one of its steps, by their index.

    Raises:
        AssertionError: it failed, or takes longer than two minutes; with its conditions and what its pods printed.
    """

    def look() -> str:
        found = conditions(space.trainjob(name) or {})
        if found.get("Complete") == "True":
            return _COMPLETE
        lost = "it failed" if found.get("Failed") == "True" else _unpullable(space, name)
        assert lost, f"its conditions are {found}, its pods print:\n{_output(space, name)}"
        return lost

    end = waits.until(f"TrainJob {space.name}/{name} to end", look, _PATIENCE)
    assert end == _COMPLETE, f"{end}; its pods print:\n{_output(space, name)}"
    pods = [_told(space, pod) for pod in space.pods(f"jobset.sigs.k8s.io/jobset-name={name},{_STEP_LABEL}={step}")]
    return sorted(pods, key=lambda pod: pod.index)


def assert_met(pods: Sequence[Pod], coordinator: str) -> None:
    """Assert that every rank came to port 29500 of pod 0, under its DNS name, and that a pod's index is its rank."""
    for pod in pods:
        where = {"host": coordinator, "port": 29500, "address": pods[0].address}
        assert pod.resolved == {"probe": "resolved", **where}, f"pod {pod.index} resolved {pod.resolved}, not {where}"
        assert pod.rank == pod.index, f"pod {pod.index} has rank {pod.rank}"
        assert pod.came == list(range(len(pods))), f"of {len(pods)} ranks, pod {pod.index} met {pod.came}"


def _told(space: Space, pod: Mapping[str, Any]) -> Pod:
    lines = space.kubectl.run("logs", pod["metadata"]["name"], "--namespace", space.name).expect().out.splitlines()
    told = {line["probe"]: line for line in map(json.loads, lines)}
    started, met = told["started"], told.get("met", {})
    labels, state = pod["metadata"]["labels"], pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return Pod(
        step=labels[_STEP_LABEL],
        index=int(labels[_INDEX_LABEL]),
        command=[PurePosixPath(started["argv"][0]).name, *started["argv"][1:]],
        env=started["env"],
        host=started["host"],
        address=pod["status"]["podIP"],
        resolved=told.get("resolved"),
        came=met.get("came"),
        rank=met.get("rank"),
        started=state["startedAt"],
        finished=state["finishedAt"],
    )


def _unpullable(space: Space, name: str) -> str:
    """What to do when the nodes do not have the probe's image; empty when they do."""
    for pod in space.pods(f"jobset.sigs.k8s.io/jobset-name={name}"):
        for container in pod["status"].get("containerStatuses", ()):
            reason = container["state"].get("waiting", {}).get("reason")
            if reason in _UNPULLABLE:
                return f"{reason}: the nodes need image {IMAGE}, or another that MUSTER_E2E_PROBE_IMAGE names"
    return ""


def _output(space: Space, name: str) -> str:
    chosen = ("--selector", f"jobset.sigs.k8s.io/jobset-name={name}", "--prefix", "--all-containers", "--tail=20")
    return space.kubectl.run("logs", "--namespace", space.name, *chosen).out
