"""Decisions: the one pure way from a request to an answer.

`evaluate` is what the HTTPS server, the CLI, the tests and the benchmarks all call, so none of them can disagree. It
does no I/O: what it needs of the cluster it asks a reader that answers from memory (`NotCached` tells the caller to fetch
and ask again).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from strategies import checks, findings, restores
from strategies.changes import Changes
from strategies.documents import shapes
from strategies.findings import Finding
from strategies.jobs import Job
from strategies.registry import PluginError, Registered
from webhook.admission import governors, guards, policies, reviews
from webhook.admission.governors import Governor
from webhook.admission.policies import Mode, Policy
from webhook.cluster import readers

__all__ = ["Decision", "Verdict", "evaluate", "failed"]

Verdict = Literal["patched", "unchanged", "allowed", "denied", "error", "skipped"]
_KINDS = ("TrainJob", "JobSet")


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
    if request.kind not in _KINDS or request.operation not in ("CREATE", "UPDATE"):
        return Decision(request, "skipped")
    if request.operation == "UPDATE":
        return _restored(request) if request.phase == "mutate" else _update_checked(request, cluster, policy)
    try:
        governor = governors.find(request, cluster)
    except readers.SnapshotInvalid as error:
        return _failed(request, Governor(), None, policy.mode, str(error), policy)
    mode = policy.mode_of(governor.framework, governor.namespace_label)
    if mode is Mode.OFF:
        return Decision(request, "skipped", mode=mode, governor=governor)
    strategy = policy.registry.get(governor.framework)
    misfits = shapes.check(request.document)
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
    changes = Changes(request.document)
    if misfits:
        # Mutation comes before the API server's own schema check, which will refuse this object better than we can.
        return Decision(request, "unchanged", True, changes, tuple(misfits), mode, governor, strategy)
    job = _job(request, governor, policy, changes)
    chosen = strategy.strategy
    for stage, enforce in (
        ("enforce_command", chosen.enforce_command),
        ("enforce_rendezvous", chosen.enforce_rendezvous),
        ("enforce_claims", chosen.enforce_claims),
    ):
        guards.call(strategy, stage, lambda enforce=enforce: enforce(job, changes), policy.plugin_budget)  # type: ignore[misc]
    restores.remember(changes, chosen.framework, chosen.version)
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
    changes = Changes(request.document)
    found = misfits
    if not misfits:
        job = _job(request, governor, policy, changes)
        found = [*checks.job(job)]
        found += guards.call(strategy, "validate", lambda: list(strategy.strategy.validate(job)), policy.plugin_budget)
    return _judged(request, changes, found, mode, governor, strategy)


def _update_checked(request: reviews.Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    """Only transitions are judged on UPDATE: a job that was admitted once must be able to suspend, resume and end."""
    changes = Changes(request.document)
    deleting = (request.document.get("metadata") or {}).get("deletionTimestamp") is not None
    misfits = shapes.check(request.document) or shapes.check(request.old or {})
    if request.kind != "TrainJob" or deleting or misfits:
        return Decision(request, "allowed", changes=changes)
    found = list(checks.immutable(request.old or {}, request.document))
    if not found:
        return Decision(request, "allowed", changes=changes)
    try:
        governor = governors.find(request, cluster)
    except readers.SnapshotInvalid:
        governor = Governor()
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


def _restored(request: reviews.Request) -> Decision:
    """Restore whatever the mode says: what an earlier enforcement put there must not wedge the job now."""
    changes = Changes(request.document)
    if request.old is not None:
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
