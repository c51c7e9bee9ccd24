"""The admission pipeline: request, governor, strategy, decision, answer. All of it is pure."""

from __future__ import annotations

from webhook.admission.answers import answer
from webhook.admission.decisions import Decision, evaluate
from webhook.admission.policies import Mode, Policy
from webhook.admission.reviews import Request, ReviewError

__all__ = ["Decision", "Mode", "Policy", "Request", "ReviewError", "answer", "evaluate"]
