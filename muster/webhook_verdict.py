"""Judgements: the webhook's decision about a trainer's job, made on this machine."""

from __future__ import annotations

import dataclasses

from muster.config_trainers import FrameworkConfig
from muster.runtime_choice import Document
from muster.strategies.documents import findings
from muster.strategies.documents.findings import Finding
from muster.webhook.admission import decisions, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster import memory

__all__ = ["judge"]

_NAMESPACE = "default"


def judge(trainer: FrameworkConfig, runtime: Document, policy: Policy | None) -> list[Finding]:
    """Return what the webhook would find, errors first.

    Args:
        trainer: what is judged.
        runtime: the document of its runtime.
        policy: the platform's policy; without it the needs that only a platform can judge are left out.
    """
    if policy is None:
        trainer = dataclasses.replace(trainer, role=None, claim_profile=None, resource_claims=None)
    document = trainer.to_trainjob("trainer", runtime=runtime)
    reader = memory.InMemoryReader([_placed(runtime)], default_namespace=_NAMESPACE)
    policy = policy or Policy()
    asked = reviews.of_object("mutate", "TrainJob", document, _NAMESPACE)
    mutated = decisions.evaluate(asked, reader, policy)
    asked = reviews.of_object("validate", "TrainJob", mutated.document, _NAMESPACE)
    validated = decisions.evaluate(asked, reader, policy)
    for decision in (mutated, validated):
        if decision.message:
            return [findings.error("spec", None, decision.message, rule="core/undecided")]
    found = list(mutated.findings)
    found += [each for each in validated.findings if each not in found]
    return sorted(found, key=lambda each: each not in findings.errors(found))


def _placed(runtime: Document) -> Document:
    """Return a namespaced runtime where the job will look for it."""
    if runtime.get("kind") != "TrainingRuntime":
        return runtime
    return {**runtime, "metadata": {**runtime["metadata"], "namespace": _NAMESPACE}}
