"""What has to be so of each answer to an attack."""

from __future__ import annotations

__all__ = ["faults"]

_LONGEST = 2000  # characters of a sentence
_SERVERS = frozenset({501, 503, 505})  # statuses of ours that say what to do; others are faults of the Gateway


def faults(sent, answers, closed, secrets):
    """Yield what is wrong with the answers on one connection.

    Args:
        sent: what was sent there.
        answers: all that came.
        closed: whether the Gateway closed it.
        secrets: that no answer may tell.
    """
    if len(answers) > sent.most:
        yield f"{len(answers)} answers to {sent.most}: {[each.status for each in answers]}"
    if sent.whole and sent.end == "read" and not closed and len(answers) < sent.most:
        yield f"{len(answers)} answers of {sent.most}, and the connection is open"
    for each in answers:
        if each.status == 101 or (each.status >= 500 and each.status not in _SERVERS):
            yield f"status {each.status}: {each.body[:200]!r}"
        if sent.statuses and each.status not in sent.statuses:
            yield f"status {each.status} is none of {sorted(sent.statuses)}: {each.body[:200]!r}"
        if each.status >= 400 and not sent.heads and not _is_sentence(each):
            yield f"status {each.status} without a sentence: {each.body[:200]!r}"
        told = each.body.decode(errors="replace") + str(each.headers)
        if any(secret in told for secret in secrets):
            yield f"tells a secret: {told[:300]}"


def _is_sentence(answer):
    if answer.headers.get("content-type", "").startswith("application/json"):
        text = answer.json().get("detail", "")
    else:  # of aiohttp, which quotes what is not HTTP
        text = answer.body.decode(errors="replace")[:_LONGEST]
    return bool(text.strip()) and len(text) <= _LONGEST and "Traceback" not in text
