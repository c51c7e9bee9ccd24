"""Decisions: the one pure way from a request to an answer.

`evaluate` is what the HTTPS server, the CLI, the tests and the benchmarks all call, so none of them can disagree. It
does no I/O: what it needs of the cluster it asks a reader that answers from memory (`NotCached` tells the caller to
fetch and ask again).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from strategies import checks, findings, names, restores
from strategies.changes import Changes
from strategies.documents import shapes
from strategies.findings import Finding
from strategies.jobs import Job
from strategies.registry import PluginError, Registered
from webhook.admission import governors, guards, inspections, policies, reviews
from webhook.admission.governors import Governor
from webhook.admission.policies import Mode, Policy
from webhook.cluster import readers

__all__ = ["Decision", "Verdict", "evaluate", "failed"]

Verdict = Literal["patched", "unchanged", "allowed", "denied", "error", "skipped"]
_GROUPS = {"TrainJob": names.TRAINER_GROUP, "JobSet": names.JOBSET_GROUP}


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one request, and all that led to it.

    Attributes:
        request: the request.
        verdict: `patched` and `unchanged` end a mutation, `allowed` and `denied` a validation, `error` a failed
            strategy or cluster, `skipped` what Muster was told not to look at.
        allowed: whether the object passes.
        changes: recorded changes; in modes other than `enforce` they are what would have been done.
        findings: of enforcement or validation, all of them.
        mode: in force.
        governor: what governs the job.
        strategy: that decided, None where none was asked.
        message: why the verdict is `error`, "" otherwise.
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
        """The object as it will be stored if this decision is followed."""
        return self.changes.document if self.verdict == "patched" else self.request.document


def evaluate(request: reviews.Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    """Decide about one request.

    Raises:
        NotCached: the reader has to fetch a document before this can be decided.
    """
    if not _is_ours(request):
        return Decision(request, "skipped")
    misfits = shapes.check(request.document, request.kind)
    if request.operation == "CREATE":
        return _created(request, cluster, policy, misfits)
    if request.phase == "mutate":
        return _restored(request, misfits)
    return _update_checked(request, cluster, policy, misfits)


def _is_ours(request: reviews.Request) -> bool:
    group = _GROUPS.get(request.kind)
    whole = request.operation in ("CREATE", "UPDATE") and not request.subresource
    return whole and group is not None and request.group in ("", group)


def _created(
    request: reviews.Request, cluster: readers.ClusterReader, policy: Policy, misfits: list[Finding]
) -> Decision:
    governor, problem = governors.look(request, cluster, readable=not misfits)
    mode = policy.mode_of(governor.framework, governor.namespace_label)
    if mode is Mode.OFF:
        return Decision(request, "skipped", mode=mode, governor=governor)
    if problem:
        return _failed(request, governor, None, mode, problem, policy)
    strategy = policy.registry.get(governor.framework)
    try:
        if request.phase == "mutate":
            return _mutated(request, governor, strategy, mode, policy, misfits)
        return _validated(request, governor, strategy, mode, policy, misfits)
    except PluginError as error:
        return _failed(request, governor, strategy, mode, str(error), policy)


def failed(request: reviews.Request, policy: Policy, cause: str) -> Decision:
    """Decide about a request that cannot be evaluated, because the cluster did not answer; by the failure mode.

    Args:
        request: the request.
        policy: in force; its global mode counts, since the namespace's could not be read.
        cause: one sentence, shown to the user of a denied job.
    """
    return _failed(request, Governor(), None, policy.mode, cause, policy)


def _mutated(  # noqa: PLR0913  # what was found, handed on once
    request: reviews.Request,
    governor: Governor,
    strategy: Registered,
    mode: Mode,
    policy: Policy,
    misfits: list[Finding],
) -> Decision:
    changes = _changes(request, strategy)
    if misfits:
        # Mutation comes before the API server's own schema check, which will refuse this object better than we can.
        return Decision(request, "unchanged", True, changes, tuple(misfits), mode, governor, strategy)
    job = _job(request, _lent(governor, strategy), policy, changes)
    chosen = strategy.strategy
    for stage, enforce in (
        ("enforce_command", chosen.enforce_command),
        ("enforce_rendezvous", chosen.enforce_rendezvous),
        ("enforce_claims", chosen.enforce_claims),
    ):
        guards.call(strategy, stage, lambda enforce=enforce: enforce(job, changes), policy.plugin_budget)  # type: ignore[misc]
    guards.call(strategy, "its changes", lambda: _remember(request, strategy, changes), policy.plugin_budget)
    found = (*_label_findings(governor), *changes.findings)
    verdict: Verdict = "patched" if len(changes) and mode is Mode.ENFORCE else "unchanged"
    return Decision(request, verdict, True, changes, found, mode, governor, strategy)


def _validated(  # noqa: PLR0913  # as above
    request: reviews.Request,
    governor: Governor,
    strategy: Registered,
    mode: Mode,
    policy: Policy,
    misfits: list[Finding],
) -> Decision:
    found = misfits
    if not misfits:
        found = list(checks.job(_job(request, governor, policy, Changes(request.document))))
        job = _job(request, _lent(governor, strategy), policy, _changes(request, strategy))

        def validate() -> list[Finding]:
            return inspections.check_findings(strategy.strategy.validate(job))

        found += guards.call(strategy, "validate", validate, policy.plugin_budget)
    return _judged(request, Changes(request.document), found, mode, governor, strategy)


def _update_checked(
    request: reviews.Request, cluster: readers.ClusterReader, policy: Policy, misfits: list[Finding]
) -> Decision:
    """Only transitions are judged on UPDATE: a job that was admitted once must be able to suspend, resume and end."""
    changes = Changes(request.document)
    misfits = misfits or shapes.check(request.old or {}, request.kind)
    if request.kind != "TrainJob" or misfits or _is_deleted(request.document):
        return Decision(request, "allowed", changes=changes)
    found = list(checks.immutable(request.old or {}, request.document))
    if not found:
        return Decision(request, "allowed", changes=changes)
    governor, _ = governors.look(request, cluster, readable=True)
    mode = policy.mode_of(governor.framework, governor.namespace_label)
    return _judged(request, changes, found, mode, governor, None)


def _judged(  # noqa: PLR0913  # as above
    request: reviews.Request,
    changes: Changes,
    found: list[Finding],
    mode: Mode,
    governor: Governor,
    strategy: Registered | None,
) -> Decision:
    denied = mode is Mode.ENFORCE and bool(findings.errors(found))
    verdict: Verdict = "denied" if denied else "allowed"
    if mode is Mode.OFF:
        return Decision(request, "skipped", mode=mode, governor=governor)
    return Decision(request, verdict, not denied, changes, tuple(found), mode, governor, strategy)


def _restored(request: reviews.Request, misfits: list[Finding]) -> Decision:
    """Restore whatever the mode says: what an earlier enforcement put there must not wedge the job now."""
    changes = Changes(request.document)
    if request.old is not None and not misfits:
        restores.restore(request.old, changes)
    return Decision(request, "patched" if len(changes) else "unchanged", changes=changes)


def _failed(  # noqa: PLR0913  # as above
    request: reviews.Request, governor: Governor, strategy: Registered | None, mode: Mode, cause: str, policy: Policy
) -> Decision:
    """Follow the failure mode: nothing of what the strategy did is kept, and only mode `enforce` may deny."""
    denied = policy.on_plugin_failure == "deny" and mode is Mode.ENFORCE and request.operation == "CREATE"
    return Decision(
        request, "error", not denied, Changes(request.document), (), mode, governor, strategy, message=cause
    )


def _changes(request: reviews.Request, strategy: Registered) -> Changes:
    return Changes(request.document if strategy.in_tree else inspections.document_of_its_own(request.document))


def _lent(governor: Governor, strategy: Registered) -> Governor:
    return governor if strategy.in_tree else inspections.governor_of_its_own(governor)


def _remember(request: reviews.Request, strategy: Registered, changes: Changes) -> None:
    restores.remember(changes, strategy.strategy.framework, strategy.strategy.version)
    if not strategy.in_tree:
        inspections.check_changes(changes, request.document)


def _is_deleted(document: Mapping[str, Any]) -> bool:
    return (document.get("metadata") or {}).get("deletionTimestamp") is not None


def _job(request: reviews.Request, governor: Governor, policy: Policy, changes: Changes) -> Job:
    return Job(
        kind="TrainJob" if request.kind == "TrainJob" else "JobSet",
        changes=changes,
        namespace=request.namespace,
        runtime=governor.runtime,
        owner=governor.owner,
        claim_devices=governor.claim_devices,
        settings=policy.framework(governor.framework).settings,
    )


def _label_findings(governor: Governor) -> list[Finding]:
    label = governor.namespace_label
    if label is None or policies.is_mode(label):
        return []
    message = "is no mode of Muster and was passed over; use enforce, warn, audit or off"
    return [findings.warning("namespace label muster.dev/mode", label, message, rule="core/mode")]
