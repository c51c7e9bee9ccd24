"""The mutating phase: what a strategy and the roles change at CREATE, and what an UPDATE gets back."""

from __future__ import annotations

import itertools
from functools import partial

import orjson
from msgspec import structs

from muster.strategies import roles
from muster.strategies.changes import restores
from muster.strategies.changes.changes import Changes
from muster.strategies.documents import findings
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import MOST_TOGETHER, Job
from muster.strategies.launches import guard_additions
from muster.strategies.launches.guard_additions import Guard
from muster.strategies.plugins.registry import Registered
from muster.webhook.admission import admission_outcomes, budgets, plugin_calls, policies
from muster.webhook.admission.admission_context import Context
from muster.webhook.admission.admission_outcomes import Decision
from muster.webhook.admission.governors import Governor
from muster.webhook.admission.policies import Mode
from muster.webhook.admission.reviews import Request

__all__ = ["create", "update"]

_STAGES = ("enforce_command", "enforce_rendezvous", "enforce_claims")


def create(context: Context) -> Decision:
    """Change a job that is created; one that cannot be changed as a whole is not changed at all.

    Raises:
        PluginError: the strategy failed.
    """
    strategy = context.strategy
    if context.misfits or strategy is None:
        # Mutation comes before the API server's own schema check, which refuses this object with a better message.
        return admission_outcomes.decided(context, "unchanged", Changes(context.request.document), context.misfits)
    changes = plugin_calls.changes_of(strategy, context.request.document)
    job, budget = context.job(changes, plugin_calls.lent(strategy, context.governor)), context.policy.plugin_budget
    if len(job.world) > MOST_TOGETHER:
        return admission_outcomes.decided(context, "unchanged", changes, [_too_many_parts(job)])
    for stage, view in itertools.product(_STAGES, job.views):
        plugin_calls.call(strategy, stage, partial(_enforce, strategy, stage, view, changes), budget)
        if _are_too_many(changes):
            return admission_outcomes.judged(context, [_too_many_changes(changes)])
    roles.enforce(job, changes)
    certain = guard_additions.is_certain(job, changes)
    guard_additions.enforce(job, changes, context.policy.guard, context.governor.guard_label)
    patch = plugin_calls.call(strategy, "its changes", partial(_remember, context, strategy, changes, certain), budget)
    if isinstance(patch, Finding):
        return _unguarded(context, patch)
    patched = len(changes) and context.mode is Mode.ENFORCE
    found = (*_label_findings(context.governor), *findings.once(changes.findings))
    return structs.replace(
        admission_outcomes.decided(context, "patched" if patched else "unchanged", changes, found), patch=patch
    )


def update(request: Request, *, readable: bool, short: bool) -> Decision:
    """Restore in every mode: fields that an earlier enforcement set must not leave the job wedged.

    Args:
        request: an UPDATE.
        readable: whether the object has the shape of its kind; otherwise nothing is restored.
        short: whether object and old object are within their budget. An update beyond it passes unread, so that a job
            can always end, and Muster's memory stays what it is.
    """
    changes = Changes(request.document)
    if request.old is not None and readable:
        (restores.restore if short else restores.keep_memory)(request.old, changes)
    return Decision(request, "patched" if len(changes) else "unchanged", changes=changes)


def _unguarded(context: Context, beyond: Finding) -> Decision:
    """Refuse a job for which too much would be changed; where the guard may be too much of it, decide without it."""
    if context.policy.guard.inject == "never":
        return admission_outcomes.judged(context, [beyond])
    decision = create(structs.replace(context, policy=structs.replace(context.policy, guard=Guard())))
    if not decision.allowed or decision.mode is Mode.OFF:
        return decision
    message = f"the guard is left out, since the job would be too large with it: {beyond.message}"
    told = findings.note(beyond.field, beyond.value, message, rule=guard_additions.LEFT_ALONE)
    return structs.replace(decision, findings=(*decision.findings, told))


def _enforce(strategy: Registered, stage: str, view: Job, changes: Changes) -> None:
    getattr(strategy.strategy, stage)(view, changes)  # looked up by the guarded call, since a plugin may fail at that


def _remember(context: Context, strategy: Registered, changes: Changes, certain: bool) -> bytes | Finding:
    """Write the memory of the changes; return them as a JSON Patch, or what they are too many for."""
    if _are_too_many(changes):
        return _too_many_changes(changes)
    restores.remember(changes, strategy.strategy.framework, strategy.strategy.version, certain=certain)
    if not strategy.in_tree:
        plugin_calls.check_changes(changes, context.request.document)
    patch, extent, budget = orjson.dumps(changes.patch()), context.request.extent, context.policy.budget
    if not changes.count or (extent is not None and extent.beside(budgets.extent(patch)).fits(budget)):
        return patch
    return budgets.check(changes.document, budget) or patch


def _too_many_parts(job: Job) -> Finding:
    message = (
        f"replicated jobs are one training, and Muster changes at most {MOST_TOGETHER} that meet, so nothing was"
        " changed; use the replicas or the parallelism of fewer replicated jobs"
    )
    return findings.warning("spec.replicatedJobs", len(job.world), message, rule="core/many-parts")


def _are_too_many(changes: Changes) -> bool:
    return len(changes) > restores.MOST_FIELDS and len(changes.units()) > restores.MOST_FIELDS


def _too_many_changes(changes: Changes) -> Finding:
    message = (
        f"or more fields would be changed, and an update can restore at most {restores.MOST_FIELDS} of one object, so"
        " the job could not be suspended; give it fewer replicated jobs or containers"
    )
    return findings.error("spec", len(changes.units()), message, rule="core/too-many-changes")


def _label_findings(governor: Governor) -> list[Finding]:
    label = governor.namespace_label
    if label is None or policies.is_mode(label):
        return []
    message = "is not a Muster mode and was ignored; use enforce, warn, audit or off"
    return [findings.warning("namespace label muster.dev/mode", label, message, rule="core/mode")]
