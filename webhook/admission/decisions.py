"""Decisions: the one pure way from a request to what is decided about it.

The HTTPS server, the CLI, the tests and the benchmarks all call `evaluate`, so they cannot disagree. It does no I/O: it
reads the cluster through a reader that answers from memory (`NotCached` means that the caller must fetch the document
and call again). A request goes through stages, none of which calls an earlier one: `admission_context` reads all that
the decision depends on, `validations` has the rules and `enforcements` the changes, and `admission_outcomes` makes a
decision of what they find.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from muster.strategies.changes.changes import Changes
from muster.strategies.checks.job_checks import check_update
from muster.strategies.documents import decoding, findings, names
from muster.strategies.documents.findings import Finding
from muster.strategies.plugins.registry import PluginError
from muster.strategies.trainer import optimization_trials
from muster.strategies.trainer.optimization_trials import Trial
from muster.webhook.admission import (
    admission_context,
    admission_outcomes,
    budgets,
    enforcements,
    governors,
    validations,
)
from muster.webhook.admission.admission_outcomes import Decision, Verdict
from muster.webhook.admission.governors import Governor
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.admission.reviews import Request
from muster.webhook.cluster import readers

__all__ = ["Decision", "Verdict", "evaluate", "failed", "of_trials", "with_findings"]

_GROUPS = {"TrainJob": names.TRAINER_GROUP, "JobSet": names.JOBSET_GROUP}


def evaluate(request: Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    """Decide about one request.

    Raises:
        NotCached: the reader has to fetch a document before this can be decided.
    """
    if _is_search(request):
        return _searched(request, cluster, policy)
    if not _is_ours(request):
        return Decision(request, "skipped")
    return _created(request, cluster, policy) if request.operation == "CREATE" else _updated(request, cluster, policy)


def _is_ours(request: Request) -> bool:
    group = _GROUPS.get(request.kind)
    whole = request.operation in ("CREATE", "UPDATE") and not request.subresource
    return whole and group is not None and request.group in ("", group)


def _is_search(request: Request) -> bool:
    """Whether an OptimizationJob is created, of which nothing is changed: its trials are, as they are created."""
    is_kind = request.kind == names.OPTIMIZATION_JOB and request.group in ("", names.TRAINER_GROUP)
    return is_kind and request.operation == "CREATE" and not request.subresource and request.phase == "validate"


def _searched(request: Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    """Judge the trials of an OptimizationJob, each of which is mutated and then validated, as when it is created."""
    misfits = decoding.check(request.document, request.kind)
    if misfits:
        return admission_outcomes.judged(
            admission_context.of(request, policy, governors.outline(request, cluster)), misfits
        )
    made = []
    for trial in optimization_trials.trials(request.document):
        asked = structs.replace(request, kind="TrainJob", document=trial.document, extent=None)
        mutated = evaluate(structs.replace(asked, phase="mutate"), cluster, policy)
        validated = evaluate(structs.replace(asked, document=mutated.document), cluster, policy)
        found = findings.once((*mutated.findings, *validated.findings))
        made.append((trial, mutated if mutated.message else validated, found))
    return of_trials(request, made, policy)


def of_trials(request: Request, made: Sequence[tuple[Trial, Decision, Sequence[Finding]]], policy: Policy) -> Decision:
    """Return the decision about an OptimizationJob that follows from those about its trials.

    Args:
        request: of the OptimizationJob.
        made: each trial, the last decision about it, and all that was found about it.
        policy: the policy in force.
    """
    first, failed = made[0][1], next((each for _, each, _ in made if each.message), None)
    if failed is not None:
        return structs.replace(failed, request=request, changes=Changes(request.document))
    context = admission_context.of(request, policy, first.governor, first.strategy)
    told = optimization_trials.told(request.document, [(trial, found) for trial, _, found in made])
    return admission_outcomes.judged(context, told)


def _created(request: Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    context = admission_context.read(request, cluster, policy)
    if context.mode is Mode.OFF:
        return admission_outcomes.skipped(context)
    if context.trouble:  # in what an author may have written, so it is no failure that lets the job in
        unread = admission_outcomes.failed(context, context.trouble)
        return structs.replace(unread, allowed=context.mode is not Mode.ENFORCE)
    try:
        if request.phase == "mutate":
            return enforcements.create(context)
        return admission_outcomes.judged(context, validations.create(context))
    except PluginError as error:
        return admission_outcomes.failed(context, str(error))


def _updated(request: Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    """An UPDATE is only checked for what it changes: an admitted job must be able to suspend, resume and end."""
    old, budget = request.old or {}, policy.budget.wide
    is_beyond = request.extent is None or not request.extent.fits(budget)
    is_beyond = is_beyond and any(budgets.check(each, budget) is not None for each in (request.document, old))
    misfits = [] if is_beyond else decoding.check(request.document, request.kind)
    if request.phase == "mutate":
        return enforcements.update(request, readable=not misfits, short=not is_beyond)
    if is_beyond or misfits or decoding.check(old, request.kind) or _is_deleted(request):
        return admission_outcomes.passed(request)
    found = list(check_update(request.kind, old, request.document))
    if not found:
        return admission_outcomes.passed(request)
    return admission_outcomes.judged(admission_context.of(request, policy, governors.outline(request, cluster)), found)


def _is_deleted(request: Request) -> bool:
    return (request.document.get("metadata") or {}).get("deletionTimestamp") is not None


def failed(request: Request, policy: Policy, cause: str, governor: Governor | None = None) -> Decision:
    """Decide by the failure mode about a request that cannot be evaluated.

    Args:
        request: the request.
        policy: the policy in force.
        cause: one sentence, shown to the user of a denied job.
        governor: what is known about the job, see `governors.known`; the mode of its namespace and framework applies.
            Without it the global mode applies.
    """
    return admission_outcomes.failed(admission_context.of(request, policy, governor or Governor()), cause)


def with_findings(decision: Decision, policy: Policy, found: Iterable[Finding]) -> Decision:
    """Return a decision of the validating phase with further findings, of which an error denies in mode `enforce`."""
    context = admission_context.of(decision.request, policy, decision.governor, decision.strategy)
    return admission_outcomes.judged(context, [*decision.findings, *found])
