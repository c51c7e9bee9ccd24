"""Ranks of one trainer: the first one is the engine, starts the others, and tells them what it is asked.

All do the same with the same arguments. Whatever happens to one of them ends all: a Gateway then starts the engine anew
and goes on from its snapshot.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from muster.sessions.engines.names import MOST_RANKS
from muster.sessions.engines.sharded import ShardedTrainer
from muster.sessions.refusals import Refused
from muster.sessions.seam import Adam, Lora, Outputs, Step

__all__ = ["Lead", "joined", "main"]

_LOG = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h
_HERE = "127.0.0.1"
_START = timedelta(minutes=10)
_IDLE = timedelta(days=3650)  # between two commands


@dataclass(frozen=True, slots=True)
class _Place:
    """What a rank is told at its start."""

    base: str
    rank: int
    ranks: int
    port: int
    patience: float
    device: str
    budget: int
    dtype: str
    keep: int | None


def joined(  # noqa: PLR0913  # of which only two are needed
    base: Path,
    *,
    ranks: int,
    patience: float = 600.0,
    device: str = "cpu",
    budget: int = 4096,
    dtype: torch.dtype = torch.float32,
    keep: int | None = None,
) -> Lead:
    """Start the other ranks, and return the trainer of all; this process ends when one of them does.

    Args:
        base: folder of the base model, as `from_pretrained` reads it.
        ranks: how many there are, this one among them.
        patience: seconds after which a rank that does not take part in what the others do ends all.
        device: `cpu`, or `cuda` for a GPU for each rank.
        budget: tokens of one pass of one rank, padding included.
        dtype: of the weights; those of 16 bits have masters, sums of gradients and moments in float32.
        keep: tokens of one pass of one rank in which all activations are kept, as of `TorchTrainer`.

    Raises:
        ValueError: for a number of ranks that cannot be.
    """
    if not 2 <= ranks <= MOST_RANKS:
        raise ValueError(f"ranks: {ranks}: pass 2 to {MOST_RANKS}")
    if device == "cuda" and torch.cuda.device_count() < ranks:
        raise ValueError(f"ranks: {ranks}: there are {torch.cuda.device_count()} GPUs here: pass that many at most")
    listener = socket.create_server((_HERE, 0))  # of torch's own, every network would reach it
    port = listener.getsockname()[1]
    store = dist.TCPStore(
        _HERE, port, ranks, is_master=True, timeout=_START, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    name = str(dtype).removeprefix("torch.")
    places = [_Place(str(base), rank, ranks, port, patience, device, budget, name, keep) for rank in range(ranks)]
    for place in places[1:]:
        _start(place)
    return Lead(*_made(places[0], store))


class Lead:
    """A `Trainer` on the first rank; it is no `Sharing`, because ranks follow one order."""

    def __init__(self, trainer: ShardedTrainer, commands: dist.ProcessGroup) -> None:
        self._trainer, self._commands = trainer, commands

    def create(self, model: str, lora: Lora) -> None:
        """Begin with the weights of the base. Raises `Refused`."""
        self._all("create", model, lora)

    def step(self, model: str, step: Step) -> Outputs:
        """Add the gradient of a step. Raises `Refused`."""
        outputs: Outputs = self._all("step", model, step)
        return outputs

    def optim(self, model: str, params: Adam) -> Mapping[str, float]:
        """Take the gradients into the weights. Raises `Refused`."""
        metrics: Mapping[str, float] = self._all("optim", model, params)
        return metrics

    def save(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Write all weights, and the optimizer beside them, as one rank alone does."""
        self._trainer.publish(folder, self._all("files", model, optimizer=optimizer))

    def load(self, model: str, folder: Path, *, optimizer: bool) -> None:
        """Take what `save` wrote. Raises `Refused`."""
        self._all("load", model, folder, optimizer=optimizer)

    def unload(self, model: str) -> None:
        """Forget a model."""
        self._all("unload", model)

    def _all(self, name: str, *args: Any, **options: Any) -> Any:
        with _fatal():
            dist.broadcast_object_list([(name, args, options)], 0, self._commands)
        return _done(self._trainer, name, args, options)


def _follow(trainer: ShardedTrainer, commands: dist.ProcessGroup) -> NoReturn:
    while True:
        told: list[Any] = [None]
        with _fatal():
            dist.broadcast_object_list(told, 0, commands)
        try:
            _done(trainer, *told[0])
        except Refused as refusal:
            _LOG.info("refused: %s", refusal)


def _done(trainer: ShardedTrainer, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Do what all ranks do, and go on only when all came to the same. Raises `Refused` where all do."""
    refusal, answer = "", None
    with _fatal():
        try:
            answer = getattr(trainer, name)(*args, **options)
        except Refused as error:
            refusal = str(error)
        ends: list[Any] = [None] * dist.get_world_size(trainer.group)
        dist.all_gather_object(ends, bool(refusal), group=trainer.group)
        if len(set(ends)) > 1:
            raise RuntimeError(f"{name}: some ranks refused it and others did not: {refusal}")
    if refusal:
        raise Refused(refusal)
    return answer


class _fatal:  # noqa: N801  # stands where `suppress` does
    """Ends the process at an exception: the other ranks wait for this one, and what is half done is of no use."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End the process, or go on."""
        if error is not None:
            _LOG.critical("this rank can do no more, so all end", exc_info=error)
            os._exit(1)


def _made(place: _Place, store: dist.Store) -> tuple[ShardedTrainer, dist.ProcessGroup]:
    """Meet the other ranks, and load what this one has."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all are on this machine
    gpu = place.device == "cuda"
    if gpu:
        torch.cuda.set_device(place.rank)
    dist.init_process_group("gloo", store=store, rank=place.rank, world_size=place.ranks, timeout=_START)
    patience = timedelta(seconds=place.patience)
    group = dist.new_group(backend="gloo", timeout=patience)
    weights = dist.new_group(backend="nccl", timeout=patience) if gpu else group
    commands = dist.new_group(backend="gloo", timeout=_IDLE)
    trainer = ShardedTrainer(
        Path(place.base),
        mesh=DeviceMesh.from_group(weights, place.device),
        group=group,
        budget=place.budget,
        device=f"cuda:{place.rank}" if gpu else "cpu",
        dtype=getattr(torch, place.dtype),
        keep=place.keep,
    )
    dist.barrier()  # however long one of them loads
    return trainer, commands


def _start(place: _Place) -> None:
    """Start another rank, which ends when this process does, and the other way about."""
    command = [sys.executable, "-m", "muster.sessions.engines.ranks", json.dumps(asdict(place))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603  # a program of our own
    threading.Thread(target=_ended, args=(place.rank, process), daemon=True).start()


def _ended(rank: int, process: subprocess.Popen[bytes]) -> None:
    _LOG.critical("rank %s ended with %s, so all end", rank, process.wait())
    os._exit(1)


def _until_orphaned() -> None:
    select.select([sys.stdin], [], [])
    os._exit(0)


def main() -> NoReturn:
    """Be one of the other ranks until the first one ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # ends it when it is stopped as well
    threading.Thread(target=_until_orphaned, daemon=True).start()
    place = _Place(**json.loads(sys.argv[1]))
    store = dist.TCPStore(_HERE, place.port, place.ranks, is_master=False, timeout=_START, wait_for_workers=False)
    _follow(*_made(place, store))


if __name__ == "__main__":
    main()
