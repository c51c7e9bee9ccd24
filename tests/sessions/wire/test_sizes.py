"""What a small message may ask for."""

import pytest
from tinker.proto import tinker_public_pb2

from muster.sessions.refusals import Refused
from muster.sessions.wire import steps


def test_sparse_rows_that_would_fill_the_memory_are_refused_before_they_take_any():
    message = tinker_public_pb2.ForwardBackwardRequest(loss_fn="cross_entropy")
    for _ in range(64):
        datum = message.data.add()
        datum.model_input.add().encoded_text.tokens = b"\0\0\0\0"
        sparse = tinker_public_pb2.SparseCsr(crow_indices=b"\0" * 16)
        tensor = tinker_public_pb2.Tensor(sparse_csr=sparse, dtype=tinker_public_pb2.DTYPE_INT64, shape=[1, 1 << 21])
        datum.loss_fn_inputs["target_tokens"].CopyFrom(tensor)
    body = message.SerializeToString()
    assert len(body) < 10_000
    with pytest.raises(Refused, match="more than 33554432 values together; send fewer datums"):
        steps.step(body)
