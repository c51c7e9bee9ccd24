"""Runs: a strategy in the service's own decision, as the webhook calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from muster.strategies.documents import names
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.frameworks import builtin
from muster.strategies.plugins.protocols import FrameworkStrategy
from muster.strategies.plugins.registry import Registry
from muster.strategies.trainer import predictions
from muster.testing.documents import NAMESPACE
from muster.webhook.admission import decisions, reviews
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader

__all__ = ["decide", "jobset_of", "mutate", "validate"]

_ORIGIN = "strategy under test"
_BUDGET = 10.0
_GROUPS = {"TrainJob": names.TRAINER_GROUP, "JobSet": names.JOBSET_GROUP}

Document = Mapping[str, Any]


def mutate(strategy: FrameworkStrategy, job: Document, *cluster: Document, old: Document | None = None) -> Decision:
    """Return what the mutating webhook decides about a job; `decision.document` is the job as it will be stored.

    Args:
        strategy: the strategy under test; it is called as a plugin, on copies and under a time budget.
        job: a TrainJob or a JobSet.
        cluster: what governs it: its runtime, and of a JobSet that Trainer makes the TrainJob.
        old: the stored object, of an UPDATE; without it the request is a CREATE.
    """
    return decide(strategy, job, cluster, "mutate", old)


def validate(strategy: FrameworkStrategy, job: Document, *cluster: Document, old: Document | None = None) -> Decision:
    """Return what the validating webhook decides about a job; the arguments are those of `mutate`."""
    return decide(strategy, job, cluster, "validate", old)


def jobset_of(trainjob: Document, runtime: Document) -> dict[str, Any]:
    """Return the JobSet that Trainer would make of a TrainJob, before Muster sees it."""
    return predictions.predict(trainjob, Runtime(runtime, "live"), NAMESPACE).jobset


def decide(  # noqa: PLR0913  # a request and who answers it
    strategy: FrameworkStrategy,
    job: Document,
    cluster: tuple[Document, ...],
    phase: Literal["mutate", "validate"],
    old: Document | None = None,
    *,
    in_tree: bool = False,
) -> Decision:
    """Return a decision; `in_tree` calls the strategy on this thread and on no copies, as Muster's own are called."""
    policy = Policy(registry=_registry(strategy, in_tree=in_tree), plugin_budget=_BUDGET)
    return decisions.evaluate(_request(job, phase, old), InMemoryReader(cluster, default_namespace=NAMESPACE), policy)


def _registry(strategy: FrameworkStrategy, *, in_tree: bool) -> Registry:
    registry = builtin.load(plugins=False)
    if type(registry.get(strategy.framework).strategy) is type(strategy):
        return registry
    if in_tree:
        registry.register(strategy)
    else:
        registry.register(strategy, _ORIGIN)
    return registry


def _request(job: Document, phase: reviews.Phase, old: Document | None) -> reviews.Request:
    return reviews.Request(
        phase=phase,
        uid="00000000-0000-0000-0000-000000000000",
        operation="CREATE" if old is None else "UPDATE",
        kind=job["kind"],
        group=_GROUPS[job["kind"]],
        namespace=NAMESPACE,
        name=job["metadata"].get("name", ""),
        document=job,
        old=old,
        dry_run=False,
        username="author",
        groups=(),
    )
