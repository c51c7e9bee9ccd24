"""Unlabelled: JobSets without the label of a framework, which files judge as what their launch is.

In a cluster Muster leaves such a JobSet alone, so nothing is added to what it says here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from muster.strategies.documents import names, pods
from muster.strategies.documents.findings import note
from muster.strategies.jobs import containers, parts
from muster.strategies.jobs.programs import Kind
from muster.strategies.launches import kinds
from muster.strategies.launches.launches import Launcher
from muster.webhook.admission.decisions import Decision

__all__ = ["framework", "judged", "may_train", "of_container"]

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


def _of_parts(document: Mapping[str, Any], serves: str | None) -> str:
    """Return the one framework of the parts that train, or that serve."""
    work = parts.find(document, ("spec",), serves, kinds.identify)
    places = [pods.place(document, *each) for each in work.places]
    every = {of_container(place.container) for place in places}
    return every.pop() if len(every) == 1 else ""


def of_container(container: pods.Container) -> str:
    """Return the framework of what a container starts, "" where it starts no launcher that is read."""
    program = containers.program(container, kinds.identify)
    if program.target == _TRL_SERVER:
        return ""
    return "trl" if program.target.startswith("trl.scripts.") else _LAUNCHERS.get(program.launcher, "")


def may_train(jobset: Mapping[str, Any]) -> bool:
    """Whether any container of a JobSet, which has the shape of its kind, starts a program that may train."""
    every = (
        (job.get("template") or {}).get("spec") or {} for job in (jobset.get("spec") or {}).get("replicatedJobs") or ()
    )
    held = (((each.get("template") or {}).get("spec") or {}).get("containers") or () for each in every)
    return any(containers.program(each, kinds.identify).kind is not Kind.IDLE for inside in held for each in inside)


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
    return dataclasses.replace(assumed, verdict=plain.verdict, allowed=plain.allowed, findings=found)
