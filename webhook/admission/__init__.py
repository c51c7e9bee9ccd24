"""The admission pipeline: request, governor, strategy, decision, answer. All of it is pure."""

from __future__ import annotations

from muster.webhook.admission.answers import answer
from muster.webhook.admission.decisions import Decision, evaluate
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.admission.reviews import Request, ReviewError

__all__ = ["Decision", "Mode", "Policy", "Request", "ReviewError", "answer", "evaluate"]
