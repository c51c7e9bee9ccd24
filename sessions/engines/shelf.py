"""Memory of tensors on its way between a device and the host; the tensors and all views of them stay what they are.

The storage behind a tensor is emptied, and filled again with the same bits. On a CPU both places are this machine's
memory, and a storage that comes back is a new one all the same, which is what a budget counts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, UntypedStorage

__all__ = ["Shelf", "weights_of"]


class Shelf:
    """Holds in host memory what an engine had on its device."""

    def __init__(self) -> None:
        self._away: dict[UntypedStorage, Tensor] = {}
        self._fixed: dict[UntypedStorage, Tensor] = {}

    def own(self, tensors: Iterable[Tensor]) -> None:
        """Give those whose memory is that of a file, or of NumPy, memory of their own, which can be freed."""
        for each in tensors:
            if not each.untyped_storage().resizable():
                each.data = each.data.clone()

    def away(self, fixed: Iterable[Tensor], live: Iterable[Tensor]) -> None:
        """Move tensors to the host.

        Args:
            fixed: never change, so that they are copied once and dropped from then on.
            live: may have changed since.
        """
        fixed, live = list(fixed), list(live)
        self.own((*fixed, *live))
        for each in fixed:
            storage = each.untyped_storage()
            if storage not in self._fixed:
                self._fixed[storage] = _copied(storage)
            self._empty(storage, self._fixed[storage])
        for each in live:
            storage = each.untyped_storage()
            if storage not in self._away:  # else a view of another
                self._empty(storage, _copied(storage))
        _trim()

    def back(self) -> None:
        """Fill what was emptied."""
        for storage, kept in self._away.items():
            storage.resize_(kept.numel())
            _whole(storage).copy_(kept)
        self._away.clear()
        _trim()

    def _empty(self, storage: UntypedStorage, kept: Tensor) -> None:
        self._away[storage] = kept
        storage.resize_(0)


def weights_of(model: Any) -> Iterator[Tensor]:
    """Yield all that a module of torch holds."""
    yield from model.parameters()
    yield from model.buffers()


def _whole(storage: UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _copied(storage: UntypedStorage) -> Tensor:
    on_host = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=storage.device.type == "cuda")
    return on_host.copy_(_whole(storage))


def _trim() -> None:
    """Give freed memory back: to the driver of a GPU, and to the kernel, where the C library keeps it."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    with suppress(AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
