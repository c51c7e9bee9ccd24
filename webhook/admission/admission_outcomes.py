"""Outcomes: what was decided about a request, and how the mode in force turns findings and failures into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field, structs

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import findings
from muster.strategies.documents.findings import Finding
from muster.strategies.plugins.registry import Registered
from muster.webhook.admission.admission_context import Context
from muster.webhook.admission.governors import Governor
from muster.webhook.admission.policies import Mode
from muster.webhook.admission.reviews import Request

__all__ = ["Decision", "Verdict", "decided", "failed", "judged", "passed", "skipped"]

Verdict = Literal["patched", "unchanged", "allowed", "denied", "error", "skipped"]


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
        patch: the changes as a JSON Patch where they have been measured, b"" otherwise.
    """

    request: Request
    verdict: Verdict
    allowed: bool = True
    changes: Changes = field(default_factory=lambda: Changes({}))
    findings: tuple[Finding, ...] = ()
    mode: Mode = Mode.ENFORCE
    governor: Governor = field(default_factory=Governor)
    strategy: Registered | None = None
    message: str = ""
    patch: bytes = b""

    @property
    def document(self) -> Mapping[str, Any]:
        """The object as it will be stored after this decision."""
        return self.changes.document if self.verdict == "patched" else self.request.document


def decided(context: Context, verdict: Verdict, changes: Changes, found: Sequence[Finding] = ()) -> Decision:
    """Return a decision in a context, with as many findings as are kept of one job."""
    few, allowed = tuple(findings.limited(found)), verdict != "denied"
    return Decision(context.request, verdict, allowed, changes, few, context.mode, context.governor, context.strategy)


def skipped(context: Context, message: str = "") -> Decision:
    """Return the decision about a job in mode `off`."""
    return Decision(context.request, "skipped", mode=Mode.OFF, governor=context.governor, message=message)


def passed(request: Request) -> Decision:
    """Return the decision about an update that is let in unread, or with nothing found."""
    return Decision(request, "allowed", changes=Changes(request.document))


def judged(context: Context, found: Sequence[Finding]) -> Decision:
    """Let a job in, or refuse it where the mode is `enforce` and one of the findings is an error."""
    if context.mode is Mode.OFF:
        return skipped(context)
    denied = context.mode is Mode.ENFORCE and bool(findings.errors(found))
    return decided(context, "denied" if denied else "allowed", Changes(context.request.document), found)


def failed(context: Context, cause: str) -> Decision:
    """Follow the failure mode: all changes of the strategy are dropped, and only mode `enforce` may deny."""
    if context.mode is Mode.OFF:
        return skipped(context, cause)
    denies = context.policy.on_plugin_failure == "deny" and context.mode is Mode.ENFORCE
    allowed = not denies or context.request.operation != "CREATE"
    decision = decided(context, "error", Changes(context.request.document))
    return structs.replace(decision, allowed=allowed, message=cause)
