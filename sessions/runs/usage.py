"""What sessions used: tokens and checkpoints by the hour, counted in the transaction in which a request ends."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import orjson

from muster.sessions.wire.schema import messages

__all__ = ["HOUR", "Used", "metrics", "note", "of", "sampled"]

HOUR = 3600
_ADD = (
    "INSERT INTO usage (hour, session, tenant, base, kind, amount)"
    " SELECT ?, sessions.id, sessions.tenant, ?, ?, ? FROM sessions WHERE sessions.id = ?"
    " ON CONFLICT (hour, session, kind) DO UPDATE SET amount = usage.amount + excluded.amount"
)
_FLOAT = 4  # bytes


class Used(NamedTuple):
    """What a request used.

    Attributes:
        base: name of the base model.
        amounts: tokens, or checkpoints, by their kind.
    """

    base: str
    amounts: Mapping[str, int]


def note(connection: Any, target: str, used: Used, now: float) -> None:
    """Add to what a session used in this hour.

    Args:
        connection: of the journal, in a transaction.
        target: the model or sampling session, whose id begins with that of its session.
        used: by one request of it.
        now: seconds since 1970.
    """
    hour, session = int(now) // HOUR * HOUR, target.partition(":")[0]
    for kind, amount in used.amounts.items():
        if amount:
            connection.execute(_ADD, (hour, used.base, kind, amount, session))


def of(kind: str, result: bytes) -> dict[str, int]:
    """Return what a request of a model used: the tokens of a pass, or a checkpoint."""
    if kind.startswith("save_weights") and "path" in orjson.loads(result):
        return {"checkpoint": 1}
    if kind not in {"forward", "forward_backward"}:
        return {}
    output = messages.ForwardBackwardOutput.FromString(result)
    return {"training": sum(_rows(each.fields["logprobs"]) for each in output.loss_fn_outputs)}


def metrics(kind: str, result: bytes) -> dict[str, float]:
    """Return what an engine measured in a pass or a step of the optimizer."""
    if kind == "optim_step":
        return dict(orjson.loads(result).get("metrics") or {})
    return dict(messages.ForwardBackwardOutput.FromString(result).metrics) if kind == "forward_backward" else {}


def _rows(tensor: Any) -> int:
    width: int = max(1, prod(tensor.trailing_shape))
    return len(tensor.data) // (_FLOAT * width)


def sampled(prompt: int, result: bytes) -> dict[str, int]:
    """Return the tokens of a prompt, once, and those of its sequences."""
    sequences = messages.SampleResponse.FromString(result).sequences
    return {"sampling_prefill": prompt, "sampling_sample": sum(len(each.tokens) // _FLOAT for each in sequences)}
