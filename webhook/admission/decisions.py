"""Decisions: the one pure way from a request to an answer.

The HTTPS server, the CLI, the tests and the benchmarks all call `evaluate`, so they cannot disagree. It does no I/O: it
reads the cluster through a reader that answers from memory (`NotCached` means that the caller must fetch the document
and call again).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import Struct, field

from muster.strategies import roles
from muster.strategies.changes import restores
from muster.strategies.changes.changes import Changes
from muster.strategies.checks.job_checks import check_job
from muster.strategies.checks.role_checks import Nodes, check_roles
from muster.strategies.checks.updates import check_update
from muster.strategies.documents import decoding, findings, names
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import MOST_TOGETHER, Job
from muster.strategies.launches import kinds
from muster.strategies.plugins.registry import PluginError, Registered
from muster.webhook.admission import (
    budgets,
    documents,
    governors,
    guards,
    inspections,
    outlines,
    policies,
    reviews,
    supplies,
)
from muster.webhook.admission.governors import Governor
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.cluster import readers

__all__ = ["Decision", "Verdict", "evaluate", "failed", "with_findings"]

Verdict = Literal["patched", "unchanged", "allowed", "denied", "error", "skipped"]
_GROUPS = {"TrainJob": names.TRAINER_GROUP, "JobSet": names.JOBSET_GROUP}


class Decision(Struct, frozen=True):
    """What was decided about one request, and why.

    Attributes:
        request: the request.
        verdict: `patched` and `unchanged` end a mutation, `allowed` and `denied` a validation, `error` stands for a
            failed strategy or an unreadable cluster, `skipped` for what Muster must not look at.
        allowed: whether the object passes.
        changes: recorded changes; in modes other than `enforce` they are not applied.
        findings: all findings of mutation or validation.
        mode: the mode in force.
        governor: what governs the job.
        strategy: the one that decided, None when none was called.
        message: the reason for the verdict `error`, "" otherwise.
    """

    request: reviews.Request
    verdict: Verdict
    allowed: bool = True
    changes: Changes = field(default_factory=lambda: Changes({}))
    findings: tuple[Finding, ...] = ()
    mode: Mode = Mode.ENFORCE
    governor: Governor = field(default_factory=Governor)
    strategy: Registered | None = None
    message: str = ""

    @property
    def document(self) -> Mapping[str, Any]:
        """The object as it will be stored after this decision."""
        return self.changes.document if self.verdict == "patched" else self.request.document


def evaluate(request: reviews.Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    """Decide about one request.

    Raises:
        NotCached: the reader has to fetch a document before this can be decided.
    """
    if not _is_ours(request):
        return Decision(request, "skipped")
    if request.operation == "CREATE":
        return _created(request, cluster, policy)
    grown = policy.budget.wide.grown
    if budgets.check(request.document, grown) or budgets.check(request.old or {}, grown):
        return _left_alone(request)
    misfits = decoding.check(request.document, request.kind)
    if request.phase == "mutate":
        return _restored(request, misfits)
    return _update_checked(request, cluster, policy, misfits)


def _is_ours(request: reviews.Request) -> bool:
    group = _GROUPS.get(request.kind)
    whole = request.operation in ("CREATE", "UPDATE") and not request.subresource
    return whole and group is not None and request.group in ("", group)


class _Case(Struct, frozen=True):
    """A request with all that its decision depends on; `strategy` is None when none is called."""

    request: reviews.Request
    policy: Policy
    governor: Governor
    strategy: Registered | None = None

    @property
    def mode(self) -> Mode:
        governor = self.governor
        return self.policy.mode_of(governor.framework, governor.namespace_label, chosen=governor.is_chosen)

    def job(self, changes: Changes, governor: Governor | None = None) -> Job:
        governor = governor or self.governor
        return Job(
            kind="TrainJob" if self.request.kind == "TrainJob" else "JobSet",
            changes=changes,
            namespace=self.request.namespace,
            runtime=governor.runtime,
            owner=governor.owner,
            claim_devices=governor.claim_devices,
            settings=self.policy.framework(governor.framework).settings,
            supply=governor.supply,
            roles=self.policy.roles,
            runtime_open=governor.runtime_open,
            identify=kinds.identify,
        )

    def decided(
        self, verdict: Verdict, changes: Changes, found: Sequence[Finding], *, allowed: bool = True, message: str = ""
    ) -> Decision:
        mode, governor, strategy = self.mode, self.governor, self.strategy
        few = tuple(findings.limited(found))
        return Decision(self.request, verdict, allowed, changes, few, mode, governor, strategy, message)


def _created(request: reviews.Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    """A document beyond its budget is refused and not read, whether it is the job or something that governs it."""
    beyond = _measured(request, policy.budget)
    if beyond is not None and outlines.is_made_by_trainer(request.document):
        owner = governors.outline(request, cluster).owner
        beyond = _measured(request, _budget(request.document, owner, policy))
    if beyond is not None:
        return _beyond(request, cluster, policy, beyond)
    try:
        return _looked_at(request, documents.Measured(cluster, policy.budget), policy)
    except documents.BeyondError as error:
        return _beyond(request, cluster, policy, error.told)


def _measured(request: reviews.Request, budget: budgets.Budget) -> Finding | None:
    return budgets.check(request.document, budget.grown if outlines.is_changed(request.document) else budget)


def _budget(document: Mapping[str, Any], owner: Mapping[str, Any] | None, policy: Policy) -> budgets.Budget:
    """Return the budget of a job: a JobSet may be as large as the TrainJob and the runtime that it is made of.

    Any author can write an owner. So the TrainJob must exist with its uid, and have the name of its one JobSet.
    """
    return policy.budget.wide if outlines.is_child_of(document, owner) else policy.budget


def _beyond(request: reviews.Request, cluster: readers.ClusterReader, policy: Policy, beyond: Finding) -> Decision:
    case = _Case(request, policy, governors.outline(request, cluster))
    if request.phase == "validate" or case.mode is Mode.OFF:
        return _judged(case, [beyond])
    return case.decided("unchanged", Changes(request.document), [beyond])


def _looked_at(request: reviews.Request, cluster: documents.Measured, policy: Policy) -> Decision:
    misfits = decoding.check(request.document, request.kind)
    governor, problem = governors.look(request, cluster, policy.profiles, readable=not misfits)
    case = _Case(request, policy, governor)
    if case.mode is Mode.OFF:
        return Decision(request, "skipped", mode=Mode.OFF, governor=governor)
    if not problem and not misfits:
        governor, problem = supplies.look(request, governor, policy, cluster)
    if problem:
        return _failed(case, problem)
    strategy = policy.registry.get(governor.framework)
    case = _Case(request, policy, governor, strategy)
    try:
        if request.phase == "mutate":
            return _mutated(case, strategy, misfits)
        return _validated(case, strategy, misfits, partial(documents.nodes, cluster))
    except PluginError as error:
        return _failed(case, str(error))


def failed(request: reviews.Request, policy: Policy, cause: str, governor: Governor | None = None) -> Decision:
    """Decide by the failure mode about a request that cannot be evaluated.

    Args:
        request: the request.
        policy: the policy in force.
        cause: one sentence, shown to the user of a denied job.
        governor: what is known about the job, see `governors.known`; the mode of its namespace and framework applies.
            Without it the global mode applies.
    """
    return _failed(_Case(request, policy, governor or Governor()), cause)


def with_findings(decision: Decision, policy: Policy, found: Iterable[Finding]) -> Decision:
    """Return a decision of the validating phase with further findings, of which an error denies in mode `enforce`."""
    case = _Case(decision.request, policy, decision.governor, decision.strategy)
    return _judged(case, [*decision.findings, *found])


def _mutated(case: _Case, strategy: Registered, misfits: list[Finding]) -> Decision:
    changes = _changes(case.request, strategy)
    if misfits:
        # Mutation comes before the API server's own schema check, which will refuse this object with a better message.
        return case.decided("unchanged", changes, misfits)
    job, budget = case.job(changes, _lent(case.governor, strategy)), case.policy.plugin_budget
    if len(job.world) > MOST_TOGETHER:
        return case.decided("unchanged", changes, [_too_many_parts(job)])
    for stage, view in itertools.product(("enforce_command", "enforce_rendezvous", "enforce_claims"), job.views):
        guards.call(strategy, stage, partial(_enforce, strategy, stage, view, changes), budget)
        if _are_too_many(changes):
            return _judged(case, [_too_many_changes(changes)])
    roles.enforce(job, changes)
    beyond = guards.call(strategy, "its changes", partial(_remember, case, strategy, changes), budget)
    if beyond is not None:
        return _judged(case, [beyond])
    verdict: Verdict = "patched" if len(changes) and case.mode is Mode.ENFORCE else "unchanged"
    return case.decided(verdict, changes, (*_label_findings(case.governor), *_once(changes.findings)))


def _enforce(strategy: Registered, stage: str, view: Job, changes: Changes) -> None:
    getattr(strategy.strategy, stage)(view, changes)  # looked up by the guarded call, since a plugin may fail at that


def _validated(case: _Case, strategy: Registered, misfits: list[Finding], known: Nodes) -> Decision:
    found = misfits
    if not misfits:
        plain = case.job(Changes(case.request.document))
        found = [*check_job(plain), *check_roles(plain, known)]
        lent = _lent(case.governor, strategy)
        job = plain if lent is case.governor else case.job(_changes(case.request, strategy), lent)

        def validate() -> list[Finding]:
            said: list[Finding] = []
            for view in job.views[:MOST_TOGETHER] if job.parts.together else job.views:
                found = strategy.strategy.validate(view)
                said += found if strategy.in_tree else inspections.check_findings(found)
            return _once(said)

        found += guards.call(strategy, "validate", validate, case.policy.plugin_budget)
    return _judged(case, found)


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


def _once(found: Iterable[Finding]) -> list[Finding]:
    """Return findings without repetitions, which several parts of one job may have in common."""
    return list({finding.identity: finding for finding in reversed(list(found))}.values())[::-1]


def _left_alone(request: reviews.Request) -> Decision:
    """Let an update beyond its budget pass unread, so that a job can always end; Muster's memory stays what it is."""
    changes = Changes(request.document)
    if request.phase == "validate":
        return Decision(request, "allowed", changes=changes)
    restores.keep_memory(request.old or {}, changes)
    return Decision(request, "patched" if len(changes) else "unchanged", changes=changes)


def _update_checked(
    request: reviews.Request, cluster: readers.ClusterReader, policy: Policy, misfits: list[Finding]
) -> Decision:
    """An UPDATE is only checked for what it changes: an admitted job must be able to suspend, resume and end."""
    changes = Changes(request.document)
    misfits = misfits or decoding.check(request.old or {}, request.kind)
    if misfits or _is_deleted(request.document):
        return Decision(request, "allowed", changes=changes)
    found = list(check_update(request.kind, request.old or {}, request.document))
    if not found:
        return Decision(request, "allowed", changes=changes)
    return _judged(_Case(request, policy, governors.outline(request, cluster)), found)


def _judged(case: _Case, found: list[Finding]) -> Decision:
    if case.mode is Mode.OFF:
        return Decision(case.request, "skipped", mode=Mode.OFF, governor=case.governor)
    denied = case.mode is Mode.ENFORCE and bool(findings.errors(found))
    return case.decided("denied" if denied else "allowed", Changes(case.request.document), found, allowed=not denied)


def _restored(request: reviews.Request, misfits: list[Finding]) -> Decision:
    """Restore in every mode: fields that an earlier enforcement set must not leave the job wedged."""
    changes = Changes(request.document)
    if request.old is not None and not misfits:
        restores.restore(request.old, changes)
    return Decision(request, "patched" if len(changes) else "unchanged", changes=changes)


def _failed(case: _Case, cause: str) -> Decision:
    """Follow the failure mode: all changes of the strategy are dropped, and only mode `enforce` may deny."""
    request, mode = case.request, case.mode
    if mode is Mode.OFF:
        return Decision(request, "skipped", mode=mode, governor=case.governor, message=cause)
    denied = case.policy.on_plugin_failure == "deny" and mode is Mode.ENFORCE and request.operation == "CREATE"
    return case.decided("error", Changes(request.document), (), allowed=not denied, message=cause)


def _changes(request: reviews.Request, strategy: Registered) -> Changes:
    return Changes(request.document if strategy.in_tree else inspections.document_of_its_own(request.document))


def _lent(governor: Governor, strategy: Registered) -> Governor:
    return governor if strategy.in_tree else inspections.governor_of_its_own(governor)


def _remember(case: _Case, strategy: Registered, changes: Changes) -> Finding | None:
    """Write the memory of the changes; return what they are too many for."""
    request = case.request
    if _are_too_many(changes):
        return _too_many_changes(changes)
    restores.remember(changes, strategy.strategy.framework, strategy.strategy.version)
    budget = _budget(request.document, case.governor.owner, case.policy)
    if strategy.in_tree:
        added = (change.after for change in changes if change.rule != restores.APPLIED_RULE and change.op != "remove")
        return budgets.check_grown(changes.document, added, budget)
    inspections.check_changes(changes, request.document)
    return budgets.check(changes.document, budget.grown)


def _is_deleted(document: Mapping[str, Any]) -> bool:
    return (document.get("metadata") or {}).get("deletionTimestamp") is not None


def _label_findings(governor: Governor) -> list[Finding]:
    label = governor.namespace_label
    if label is None or policies.is_mode(label):
        return []
    message = "is not a Muster mode and was ignored; use enforce, warn, audit or off"
    return [findings.warning("namespace label muster.dev/mode", label, message, rule="core/mode")]
