"""A forward and backward pass on the wire: `ForwardBackwardRequest` in, `ForwardBackwardOutput` out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from muster.sessions.seam import Datum, Outputs, Refused, Step
from muster.sessions.wire import parts, tensors
from muster.sessions.wire.schema import messages

__all__ = ["HEAD", "address", "named", "outputs", "step", "tokens"]

HEAD = 4096
"""Bytes in which a request says its model and its `seq_id`: they are its first two fields."""


def address(body: bytes) -> tuple[str, int, bool]:
    """Return the model of a request, its `seq_id`, and whether it is a forward pass only.

    Raises:
        Refused: when the bytes are not a `ForwardBackwardRequest`, or name no model or no `seq_id`, or ask for more
            memory than such a request needs.
    """
    parts.check(body, messages.ForwardBackwardRequest.DESCRIPTOR)
    request = _parsed(body)
    if not request.model_id or request.seq_id < 1:
        raise Refused("the request names no model_id, or no seq_id of 1 or more")
    if len(request.data) + sum(map(_pieces, request.data[: parts.MOST])) > parts.MOST:
        raise Refused(f"data: the request has more than {parts.MOST} parts; send fewer datums at once")
    tensors.check(each for datum in request.data for each in datum.loss_fn_inputs.values())
    return request.model_id, request.seq_id, request.forward_only


def _pieces(datum: Any) -> int:
    return len(datum.model_input) + len(datum.loss_fn_inputs)


def named(head: bytes) -> tuple[str, int] | None:
    """Return the model and the `seq_id` of a request of which no more is looked at; None where it does not begin so.

    Args:
        head: the first `HEAD` bytes, or all of a smaller request.
    """
    end = parts.end_of(head[:HEAD], 2)
    try:
        request = messages.ForwardBackwardRequest.FromString(head[:end])
    except DecodeError:
        return None
    return (request.model_id, request.seq_id) if request.model_id and request.seq_id >= 1 else None


def step(body: bytes) -> Step:
    """Return what a request asks for. Raises `Refused` for images, audio and tensors that do not fit."""
    request = _parsed(body)
    config: dict[str, float | str] = dict(request.loss_fn_config)
    config |= {
        key: value.text if value.HasField("text") else value.number for key, value in request.loss_fn_config_v2.items()
    }
    tensors.check(each for datum in request.data for each in datum.loss_fn_inputs.values())
    data = [_datum(position, each) for position, each in enumerate(request.data)]
    if not data:
        raise Refused("data: is empty; send at least one datum")
    return Step(request.loss_fn, config, data, forward_only=request.forward_only)


def outputs(of: Outputs) -> bytes:
    """Return the bytes of a `ForwardBackwardOutput`: one record for each run of datums of one trailing shape."""
    message = messages.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", metrics=dict(of.metrics))
    for _, run in groupby(of.logprobs, key=lambda each: each.shape[1:]):
        arrays = list(run)
        record = message.loss_fn_outputs.add(type_tag="ArrayRecord", num_datums=len(arrays))
        record.fields["logprobs"].CopyFrom(tensors.batched(arrays))
    return bytes(message.SerializeToString())


def tokens(chunks: Sequence[Any], where: str) -> NDArray[np.int64]:
    """Return the tokens of the chunks of an input. Raises `Refused` for images and audio."""
    return np.concatenate([np.zeros(0, np.int64), *_texts(chunks, where)])


def _texts(chunks: Sequence[Any], where: str) -> Iterator[NDArray[np.int64]]:
    for chunk in chunks:
        if not chunk.HasField("encoded_text"):
            raise Refused(f"{where}: holds an image or audio, which no model here reads; send tokens only")
        if len(chunk.encoded_text.tokens) % 4:
            raise Refused(f"{where}: its tokens are not a whole number of int32 values")
        yield np.frombuffer(chunk.encoded_text.tokens, dtype="<i4").astype(np.int64)


def _datum(position: int, datum: Any) -> Datum:
    inputs = {name: tensors.dense(name, each) for name, each in datum.loss_fn_inputs.items()}
    return Datum(tokens(datum.model_input, f"data[{position}].model_input"), inputs)


def _parsed(body: bytes) -> Any:
    try:
        return messages.ForwardBackwardRequest.FromString(body)
    except DecodeError as error:
        raise Refused("the body is not a ForwardBackwardRequest; use a client of tinker 0.25.0 or later") from error
