"""The validating phase: what rules and strategies find about a job that is created."""

from __future__ import annotations

from collections.abc import Sequence

from muster.strategies.changes.changes import Changes
from muster.strategies.checks.job_checks import check_job
from muster.strategies.checks.role_checks import check_roles
from muster.strategies.documents import findings
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import MOST_TOGETHER, Job
from muster.strategies.plugins.registry import Registered
from muster.webhook.admission import plugin_calls
from muster.webhook.admission.admission_context import Context

__all__ = ["create"]

_WAITS = "claims/full"  # of two TrainJobs that were let in at once, one waits for its seats


def create(context: Context) -> Sequence[Finding]:
    """Return what is found about a job that is created.

    Rules leave to a TrainJob what was found when it was created. Any author can write an owner into a JobSet of another
    content, so it is judged as if it had none, too. A JobSet of Trainer has no error then that its TrainJob had not.

    Raises:
        PluginError: the strategy failed.
    """
    if context.misfits:
        return context.misfits
    found = _found(context)
    if context.alone is None:
        return found
    known = {each.identity for each in found}
    errors = (each for each in findings.errors(_found(context.alone)) if each.rule != _WAITS)
    return [*found, *(each for each in errors if each.identity not in known)]


def _found(context: Context) -> list[Finding]:
    strategy = context.strategy
    if strategy is None:
        return []
    job = context.job(Changes(context.request.document), context.governor)
    found = [*check_job(job), *check_roles(job, context.nodes)]
    if not strategy.in_tree:
        changes = plugin_calls.changes_of(strategy, context.request.document)
        job = context.job(changes, plugin_calls.lent(strategy, context.governor))
    found += plugin_calls.call(strategy, "validate", lambda: _validated(strategy, job), context.policy.plugin_budget)
    return found


def _validated(strategy: Registered, job: Job) -> list[Finding]:
    found: list[Finding] = []
    for view in job.views[:MOST_TOGETHER] if job.parts.together else job.views:
        said = strategy.strategy.validate(view)
        found += said if strategy.in_tree else plugin_calls.check_findings(said)
    return findings.once(found)
