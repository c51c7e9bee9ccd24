"""A small request cannot ask for much time and memory, whatever it says of itself."""

from __future__ import annotations

import json
import struct
import time

import orjson
import pytest
from pydantic import ValidationError

from muster.sessions.refusals import Refused
from muster.sessions.wire import parts, samples, steps
from muster.sessions.wire.schema import messages

FORM = messages.ForwardBackwardRequest.DESCRIPTOR


def written(**of):
    return messages.ForwardBackwardRequest(model_id="a:train:0", seq_id=1, loss_fn="cross_entropy", **of)


def datum(length, **tensors):
    made = messages.Datum(model_input=[{"encoded_text": {"tokens": b"\5\0\0\0" * length}}])
    for name, tensor in tensors.items():
        made.loss_fn_inputs[name].CopyFrom(tensor)
    return made


def sparse(*shape):
    crow = struct.pack("<q", 0) * (shape[0] + 1)
    return messages.Tensor(dtype=messages.DTYPE_INT64, shape=shape, sparse_csr={"crow_indices": crow})


def chunks(*shapes):
    return written(data=[datum(3, target_tokens=sparse(*each)) for each in shapes]).SerializeToString()


MANY = 1 << 20
SOME = 1 << 17
BOMBS = {
    "datums": written().SerializeToString() + b"\x1a\0" * MANY,
    "chunks of a datum": written(data=[messages.Datum(model_input=[{}] * MANY)]).SerializeToString(),
    "keys": written().SerializeToString() + b"\x2a\0" * MANY,
    "dimensions of a tensor": written(
        data=[datum(3, weights=messages.Tensor(shape=[2**62] * (MANY // 8)))]
    ).SerializeToString(),
    "some datums": written().SerializeToString() + b"\x1a\0" * SOME,
    "some chunks of a datum": written(data=[messages.Datum(model_input=[{}] * SOME)]).SerializeToString(),
    "fields that nobody knows": written().SerializeToString() + b"\xf8\x01\0" * MANY,
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_a_request_of_very_many_parts_is_refused(body):
    with pytest.raises(Refused, match="send fewer datums at once"):
        steps.address(body)


@pytest.mark.parametrize("end", [b"\x1b" + b"\0" * 10, b"\x80" * 11, b"\x1a\xff\xff\xff\xff\x7f", b"\x80", b"\x09\0"])
def test_a_large_body_that_is_no_message_is_refused(end):
    body = written(loss_fn_config={"x" * (1 << 20): 1.0}).SerializeToString()
    parts.check(body, FORM)
    with pytest.raises(Refused, match="is not a message"):
        parts.check(body + end, FORM)


def test_as_many_datums_as_a_client_sends_at_once_are_taken():
    given = {name: messages.Tensor(dtype=1, shape=[64], dense=b"\0" * 256) for name in ("a", "b", "c", "d")}
    body = written(data=[datum(64, **given) for _ in range(1024)]).SerializeToString()
    assert len(body) > 1 << 20  # smaller ones are not looked at
    assert steps.address(body) == ("a:train:0", 1, False)


def test_tensors_that_would_be_large_when_they_are_unpacked_are_refused():
    with pytest.raises(Refused, match="send fewer datums at once"):
        steps.address(chunks((1 << 13, 1 << 13)))
    with pytest.raises(Refused, match="send fewer datums at once"):
        steps.address(chunks(*[(1 << 10, 1 << 12)] * 9))
    assert steps.address(chunks(*[(1 << 10, 1 << 12)] * 8)) == ("a:train:0", 1, False)


def test_a_tensor_of_very_many_dimensions_is_refused_and_not_multiplied():
    body = written(data=[datum(3, weights=messages.Tensor(dtype=1, shape=[2**62] * 9))]).SerializeToString()
    with pytest.raises(Refused, match="more than 8 dimensions"):
        steps.address(body)
    ones = written(data=[datum(3, weights=messages.Tensor(dtype=1, shape=[1] * 9, dense=b"\0" * 4))])
    with pytest.raises(Refused, match="more than 8 dimensions"):
        steps.step(ones.SerializeToString())


@pytest.mark.parametrize("read", [steps.address, steps.step])
def test_a_small_request_with_a_tensor_of_very_many_dimensions_is_refused_at_once(read):
    shape = [1] * 8 + [2**62] * 100_000
    body = written(data=[datum(3, weights=messages.Tensor(dtype=1, shape=shape))]).SerializeToString()
    assert len(body) < 1 << 20
    began = time.process_time()
    with pytest.raises(Refused, match="more than 8 dimensions"):
        read(body)
    assert time.process_time() - began < 1


def prompt(tokens, **params):
    return {"prompt": {"chunks": [{"tokens": tokens}]}, "sampling_params": params}


def test_a_prompt_of_nothing_but_faults_is_left_at_the_first():
    asked = orjson.dumps(prompt(["a"] * 100_000))
    with pytest.raises(ValidationError) as raised:
        samples.Request.model_validate_json(asked)
    assert raised.value.error_count() == 1


@pytest.mark.parametrize("name", ["top_k", "seed", "max_tokens"])
def test_a_number_of_hundreds_of_digits_is_refused_before_an_engine_has_it(name):
    asked = prompt([1], **{name: 10**400})
    with pytest.raises(Refused, match=name):
        samples.parsed(json.dumps(asked).encode())
