"""Endings: from a decision to the bytes of its answer and to its record, whatever fails on the way.

What cannot be told about a job must not keep it from being answered: when answer or record cannot be made, both are
those of the failure mode, and in the end those of a job of which nothing but the request is known.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import time
from collections.abc import Iterator

from msgspec import structs

from muster.audit import record_schema
from muster.strategies.documents import names
from muster.webhook.admission import accounts, answers, decisions, reviews
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.server import picks

__all__ = ["Ending", "end", "end_surely", "refuse"]

_log = logging.getLogger(__name__)
_RECORDED = ("CREATE", "UPDATE")
_MAX_MESSAGE = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Ending:
    """How a request ends.

    Attributes:
        body: the AdmissionReview of the answer, as JSON.
        record: None where nothing was decided, because the webhook configuration matches more than it should.
        verdict: of the decision; of the failure mode when the first one could not be told.
        mode: in which it was made.
        framework: whose strategy decided; "none" where there is none.
        picks: shared claims that the job was given, each with the number of its pods.
    """

    body: str
    record: record_schema.Record | None
    verdict: str
    mode: str
    framework: str
    picks: dict[str, int]


def end(decision: Decision, started: float) -> Ending:
    """Make answer and record.

    Args:
        decision: what was decided.
        started: when the body had arrived, by `time.perf_counter`.
    """
    picked = picks.given(decision)
    body = reviews.dumps(answers.answer(decision))
    record = _record(decision, started) if decision.request.operation in _RECORDED else None
    return _ending(decision, body, record, picked)


def end_surely(decision: Decision, policy: Policy, started: float) -> Ending:
    """Make answer and record of a decision, or else those of the failure mode; nothing that they raise gets out."""
    for each in _ever_less(decision, policy):
        try:
            return end(each, started)
        except Exception:  # noqa: BLE001  # the next one depends on less
            _log.exception("an answer could not be made", extra={"uid": decision.request.uid})
    return _ending(decision, reviews.dumps(_bare(decision, policy)), None)


def refuse(request: reviews.Request, message: str, started: float) -> Ending:
    """Refuse a review that Muster cannot decide about; `request` is what could be read of it."""
    bare = structs.replace(request, document={}, old=None)
    decision = Decision(bare, "error", allowed=False, message=message[:_MAX_MESSAGE])
    body = reviews.dumps(reviews.deny(request.uid, decision.message, code=400, reason="BadRequest"))
    is_recorded = request.operation in _RECORDED and request.kind in names.API_VERSIONS
    return _ending(decision, body, _record(decision, started) if is_recorded else None)


def _ending(
    decision: Decision, body: bytes, record: record_schema.Record | None, picked: dict[str, int] | None = None
) -> Ending:
    framework = decision.strategy.strategy.framework if decision.strategy else "none"
    return Ending(body.decode(), record, decision.verdict, decision.mode.value, framework, picked or {})


def _bare(decision: Decision, policy: Policy) -> reviews.Response:
    """Build the response of the failure mode without anything that could fail."""
    request = decision.request
    enforced = decision.mode is Mode.ENFORCE and policy.on_plugin_failure == "deny"
    if request.operation != "CREATE" or not enforced:
        return reviews.allow(request.uid)
    return reviews.deny(request.uid, "Muster failed; its log has more", code=500, reason="InternalError")


def _record(decision: Decision, started: float) -> record_schema.Record:
    return accounts.record(decision, datetime.datetime.now(datetime.UTC), time.perf_counter() - started)


def _ever_less(decision: Decision, policy: Policy) -> Iterator[Decision]:
    yield decision
    cause = f"Muster could not tell its decision; its log has uid {decision.request.uid}"
    yield decisions.failed(decision.request, policy, cause, decision.governor)
    bare = structs.replace(decision.request, document={}, old=None, username="", groups=[])
    known = structs.replace(decision.governor, runtime=None, owner=None)
    yield structs.replace(decisions.failed(bare, policy, cause, known), mode=decision.mode)
