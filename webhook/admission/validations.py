"""The validating phase: what rules and strategies find about a job that is created."""

from __future__ import annotations

from collections.abc import Sequence

from muster.strategies.changes.changes import Changes
from muster.strategies.checks.job_checks import check_job
from muster.strategies.checks.role_checks import check_roles
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import MOST_TOGETHER, Job
from muster.strategies.plugins.registry import Registered
from muster.webhook.admission import plugin_calls
from muster.webhook.admission.admission_context import Context
from muster.webhook.admission.admission_outcomes import once

__all__ = ["create"]


def create(context: Context) -> Sequence[Finding]:
    """Return what is found about a job that is created.

    Raises:
        PluginError: the strategy failed.
    """
    strategy = context.strategy
    if context.misfits or strategy is None:
        return context.misfits
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
    return once(found)
