"""Tensors on the wire: dense bytes or sparse rows (CSR), little-endian, in float32 or int64."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.sessions.seam import Refused
from muster.sessions.wire.schema import messages

__all__ = ["batched", "check", "dense", "of_json"]

_TYPES: dict[int, np.dtype[Any]] = {
    messages.DTYPE_FLOAT32: np.dtype("<f4"),
    messages.DTYPE_INT64: np.dtype("<i8"),
    messages.DTYPE_INT32: np.dtype("<i4"),
}
_MOST = 1 << 25  # elements of all tensors of a request, so that a small message cannot ask for much memory
_DIMENSIONS = 8


def check(of: Iterable[Any]) -> None:
    """Check that the tensors of a request take a bounded memory, whatever few bytes say how large they are.

    Args:
        of: messages `Tensor`.

    Raises:
        Refused: when they have more than `_MOST` elements together, or one has more than `_DIMENSIONS` dimensions,
            whose product would take long.
    """
    elements = 0
    for tensor in of:
        if len(tensor.shape) > _DIMENSIONS:
            raise Refused(f"data: one of its tensors has more than {_DIMENSIONS} dimensions; send it as a matrix")
        elements += math.prod(max(size, 0) for size in tensor.shape)
        if elements > _MOST:
            raise Refused(f"data: its tensors have more than {_MOST} values together; send fewer datums at once")


def dense(name: str, tensor: Any) -> NDArray[np.generic]:
    """Return a tensor as an array of its shape; what sparse rows do not list is 0.

    Args:
        name: for the error.
        tensor: a message `Tensor`.

    Raises:
        Refused: when type, shape and bytes do not agree.
    """
    kind = _TYPES.get(tensor.dtype)
    if kind is None:
        raise Refused(f"loss_fn_inputs[{name}]: its type is neither float32 nor int64")
    shape = tuple(tensor.shape)
    if len(shape) > _DIMENSIONS or any(size < 0 for size in shape) or math.prod(shape) > _MOST:
        raise Refused(f"loss_fn_inputs[{name}]: shape {list(shape)[:4]}: is not the shape of a tensor that can be sent")
    if tensor.HasField("sparse_csr"):
        rows = tensor.sparse_csr
        values = _read(name, rows.values, kind)
        return _filled(name, shape, values, _read(name, rows.crow_indices, _TYPES[messages.DTYPE_INT64]), rows)
    return _shaped(name, _read(name, tensor.dense, kind), shape)


def of_json(name: str, tensor: dict[str, Any]) -> NDArray[np.generic]:
    """Return a tensor that came as JSON (`TensorData` of tinker 0.38.0), of which only int64 ones are sent."""
    message = messages.Tensor(dtype=messages.DTYPE_INT64, shape=tensor.get("shape") or [len(tensor["data"])])
    data = np.asarray(tensor["data"], dtype="<i8").tobytes()
    if tensor.get("sparse_crow_indices") is None:
        message.dense = data
    else:
        message.sparse_csr.values = data
        message.sparse_csr.crow_indices = np.asarray(tensor["sparse_crow_indices"], "<i8").tobytes()
        message.sparse_csr.col_indices = np.asarray(tensor.get("sparse_col_indices") or [], "<i8").tobytes()
    return dense(name, message)


def _filled(
    name: str, shape: tuple[int, ...], values: NDArray[np.generic], starts: NDArray[np.generic], rows: Any
) -> NDArray[np.generic]:
    columns = _read(name, rows.col_indices, _TYPES[messages.DTYPE_INT64])
    if len(shape) != 2 or len(starts) != shape[0] + 1 or len(columns) != len(values):
        raise Refused(f"loss_fn_inputs[{name}]: its sparse rows do not fit its shape {list(shape)[:4]}")
    counts = np.diff(starts)
    inside = len(columns) == 0 or (columns.min() >= 0 and columns.max() < shape[1])
    if starts[0] != 0 or starts[-1] != len(values) or (counts < 0).any() or not inside:
        raise Refused(f"loss_fn_inputs[{name}]: its sparse rows point outside of its shape {list(shape)[:4]}")
    full = np.zeros(shape, dtype=values.dtype)
    full[np.repeat(np.arange(shape[0]), counts), columns] = values
    return full


def _read(name: str, data: bytes, kind: np.dtype[Any]) -> NDArray[np.generic]:
    if len(data) % kind.itemsize:
        raise Refused(f"loss_fn_inputs[{name}]: {len(data)} bytes are not a whole number of {kind.name} values")
    return np.frombuffer(data, dtype=kind)


def _shaped(name: str, values: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    if not shape:
        return values
    if len(values) != np.prod(shape, dtype=np.int64):
        raise Refused(f"loss_fn_inputs[{name}]: {len(values)} values do not fit its shape {list(shape)[:4]}")
    return values.reshape(shape)


def batched(arrays: Sequence[NDArray[np.float32]]) -> Any:
    """Return a message `BatchedTensor` of float32 arrays that differ in their first dimension only."""
    sizes = [each.astype("<f4", copy=False).nbytes for each in arrays]
    return messages.BatchedTensor(
        data=b"".join(np.ascontiguousarray(each, dtype="<f4").tobytes() for each in arrays),
        offsets=np.cumsum([0, *sizes]).astype("<i8").tobytes(),
        dtype=messages.DTYPE_FLOAT32,
        trailing_shape=arrays[0].shape[1:],
    )
