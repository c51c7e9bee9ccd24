"""What this training is measured to be: each rank measures, rank 0 judges, and all ranks know the judgement.

`enforce` ends each rank with the guard's exit code for a judgement in `FATAL`; `report` says the same sentence and goes
on. What could not be observed is left out.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import sys
import time
from typing import Any, NamedTuple

from muster_guard import calls, devices, endings, exchanges, gradients, sizes, start, trainings, writes

__all__ = ["FATAL", "Judgement", "after", "anew", "before", "judge", "metrics", "watch_trainer"]

FATAL = ("size-differs", "device-shared", "gradients-not-shared")
"""Verdicts for which `enforce` ends a training."""
_OPTIMIZERS = 4  # of a process that are measured, the first; stages are steps of the very first
_NAMED = 8  # ranks that a sentence names
_MEMBERS = (
    "nodes", "devices", "gradients", "writes", "firstStepSeconds", "stepsPerSecond", "tokensPerSecond", "verdict",
)  # fmt: skip


class Judgement(NamedTuple):
    """What all ranks together are.

    Attributes:
        nodes: number of nodes; None where a rank said nothing.
        gradients: `shared`, `not-shared`, `sharded`, or None.
        apart: two ranks that train apart.
        pods: numbers of devices by node, as `devices.Pod`.
        together: ranks that train on one device.
    """

    nodes: int | None = None
    gradients: str | None = None
    apart: list[int] | None = None
    pods: dict[str, list[int]] = {}  # noqa: RUF012  # it is never changed
    together: list[int] = []  # noqa: RUF012  # as above


def judge(records: dict[int, Any], size: int, *, last: bool) -> Judgement:
    """Judge the records of the ranks that have spoken.

    Args:
        records: by rank, as `_Measure.record` makes them.
        size: number of ranks of the training.
        last: whether devices that nobody touched until now are idle.
    """
    nodes: dict[str, list[int]] = {}
    for rank in sorted(records):
        nodes.setdefault(records[rank]["node"], []).append(rank)
    whole = {
        node: ranks for node, ranks in nodes.items() if len(records) == size or len(ranks) == records[ranks[0]]["ranks"]
    }
    held = {rank: each["held"] and devices.Held(*each["held"]) for rank, each in records.items()}
    pods, together = devices.judge(held, whole, {node: records[ranks[0]]["asked"] for node, ranks in nodes.items()})
    shared = gradients.Shared(None)
    for stage in map(str, range(1, exchanges.STAGES + 1)):
        prints = {
            rank: [gradients.Print(*row) for row in each["prints"][stage]]
            for rank, each in records.items()
            if each["prints"].get(stage)
        }
        moved = {records[rank]["moved"].get(stage) for rank in prints}
        found = gradients.judge(prints, size=size, moved=moved.pop() if len(moved) == 1 else None)
        shared = found if found.word else shared
        if found.apart:
            break
    if shared.apart and any(each["averaged"] for each in records.values()):
        shared = gradients.Shared(None)
    return Judgement(
        len(nodes) if len(records) == size else None,
        shared.word,
        list(shared.apart) if shared.apart else None,
        {node: list(each) for node, each in pods.items()} if last else {},
        together,
    )


class _Steps:
    """The steps of one optimizer: its number, how many there were, and the prints of one that runs."""

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0
        self.taken: gradients.Taken | None = None


class _Measure:
    """The measuring of this rank in one training.

    Attributes:
        judgement: what is known of all ranks.
        first: when the first step ended, in seconds of `time.monotonic`.
    """

    def __init__(self) -> None:
        self.size, self.rank = trainings.place()
        self.node = f"{socket.gethostname()}/{os.environ.get('PET_NODE_RANK', os.environ.get('GROUP_RANK', ''))}"
        self.judgement = Judgement()
        self.first = self.last = 0.0
        self.files = 0
        self._tokens = self._tokens_first = 0
        self._steps: dict[int, _Steps] = {}
        self._trained: list[tuple[str, int]] | None = None
        self._sent: int | None = None
        self._prints: dict[str, list[Any]] = {}
        self._moved: dict[str, bool] = {}
        self._said: set[str] = set()
        self._c10d = sys.modules.get("torch.distributed.distributed_c10d")
        store = exchanges.store(sys.modules.get("torch.distributed"))
        self._exchange = store and exchanges.Exchange(store, self)
        if self._exchange:
            writes.saved = self._exchange.wake

    def before(self, optimizer: Any) -> None:
        """Measure before one of the first steps of one of the first optimizers."""
        if id(optimizer) not in self._steps and len(self._steps) < _OPTIMIZERS:
            self._steps[id(optimizer)] = _Steps(len(self._steps))
        of = self._steps.get(id(optimizer))
        if of is None or of.count >= exchanges.STAGES:
            return
        if self._trained is None:
            self._trained = devices.current(each for group in optimizer.param_groups for each in group["params"])
        if self.size > 1:
            of.taken = gradients.take(optimizer)
            sent = self._count()
            if of.number == 0 and self._sent is not None and sent is not None:
                self._moved[str(of.count + 1)] = sent > self._sent

    def after(self, optimizer: Any) -> None:
        """Measure after a step."""
        of = self._steps.get(id(optimizer))
        if of is None:
            return
        of.count += 1
        if of.taken is not None:
            rows = [[f"{of.number}:{key}", *rest] for key, *rest in of.taken.finish()]
            self._prints[str(of.count)] = [*self._prints.get(str(of.count), ()), *rows]
            of.taken = None
        if of.number:
            return
        self.last = time.monotonic()
        if of.count > exchanges.STAGES:
            return
        if of.count == 1:
            self.first, self._tokens_first = self.last, _tokens_seen()
        self._sent = self._count()
        if self._exchange:
            self._exchange.reach(of.count)

    def end(self, *, at_once: bool) -> None:
        """Take what others still say, within some seconds, or not."""
        if self._exchange:
            self._exchange.close(at_once=at_once)

    def record(self) -> dict[str, Any]:
        """Return what this rank tells the others."""
        asked = os.environ.get("MUSTER_EXPECTED_DEVICES", "")
        local = os.environ.get("LOCAL_WORLD_SIZE", "")
        return {
            "node": self.node,
            "ranks": int(local) if local.isdigit() else None,
            "asked": int(asked) if asked.isdigit() else 0,
            "held": devices.find(self._trained),
            "prints": self._prints,
            "moved": self._moved,
            "averaged": gradients.is_averaging(),
        }

    @property
    def found(self) -> list[str]:
        """The verdicts, the worst first."""
        return [
            word
            for word, holds in (
                ("size-differs", self.differs or self.is_apart),
                ("device-shared", self.judgement.together),
                ("gradients-not-shared", self.judgement.apart),
                ("devices-idle", self._pods("idle")),
                ("paths-shared", self.files),
            )
            if holds
        ]

    @property
    def differs(self) -> bool:
        """Whether the number of ranks that met is certainly not the one that was asked for."""
        asked = sizes.expected()
        return asked is not None and asked.sure and not asked.holds(self.size)

    @property
    def is_apart(self) -> bool:
        """Whether the ranks that met are on fewer nodes than were asked for."""
        return self.judgement.nodes is not None and self.judgement.nodes < sizes.nodes()

    def numbers(self) -> dict[str, Any]:
        """Return what is known as members of the report."""
        pod = self.judgement.pods.get(self.node)
        return {
            "nodes": self.judgement.nodes,
            "devices": devices.Pod(*pod)._asdict() if pod and pod[1] + pod[3] else None,
            "gradients": self.judgement.gradients,
            "writes": self.files or None,
            "firstStepSeconds": round(self.first - start.STARTED, 2) if self.first else None,
            "stepsPerSecond": self._rate(
                max((each.count for each in self._steps.values() if not each.number), default=0) - 1
            ),
            "tokensPerSecond": self._rate(_tokens_seen() - self._tokens_first),
            "verdict": next(iter(self.found), None),
        }

    def metrics(self) -> dict[str, str]:
        """Return what is known of all pods as metrics."""
        own, asked, pods = self.numbers(), sizes.expected(), self.judgement.pods
        found = {
            "world-size": self.size,
            "expected-world-size": asked,
            "nodes": own["nodes"],
            "devices": self._pods("used") if pods else None,
            "devices-shared": self._pods("shared") if pods else None,
            "devices-idle": self._pods("idle") if pods else None,
            "gradients": own["gradients"],
            "paths-shared": own["writes"],
            "first-step-seconds": own["firstStepSeconds"],
            "steps-per-second": own["stepsPerSecond"],
            "tokens-per-second": own["tokensPerSecond"],
            "verdict": own["verdict"],
        }
        return {f"muster.dev/{name}": str(value)[:64] for name, value in found.items() if value is not None}

    def _pods(self, name: str) -> int:
        return sum(getattr(devices.Pod(*each), name) for each in self.judgement.pods.values())

    def _rate(self, number: int) -> float | None:
        return round(number / (self.last - self.first), 3) if number > 0 and self.last > self.first else None

    def _count(self) -> int | None:
        return gradients.sent(self._c10d) if self._c10d else None

    def judge(self, records: dict[int, Any], stage: int) -> dict[str, Any]:
        """Judge the records of a stage for all ranks."""
        return judge(records, self.size, last=stage == exchanges.STAGES)._asdict()

    def judged(self, made: dict[str, Any]) -> None:
        """Take a judgement, say what is wrong with the training, and end it where it has to."""
        self.judgement = Judgement(**made)
        self._speak()

    def look(self, store: Any) -> None:
        """Look for files that another node has saved too."""
        while True:
            path = writes.look(store, self.node)
            if path is None:
                break
            endings.say(
                f"muster: another node has saved the file {path} too. Let one rank of the training save it, or give"
                " each node a folder of its own."
            )
        self.files = store.add("muster/files", 0)
        _changed()

    def failed(self, error: Exception) -> None:
        """Tell a fault of the guard."""
        _tell(error)

    def _speak(self) -> None:
        """Say each verdict once: rank 0 for all, and the first rank of a pod of its idle devices."""
        for word in self.found:
            text = _sentence(word, self)
            if text is None or word in self._said:
                continue
            self._said.add(word)
            if word in FATAL and not trainings.is_report():
                trainings.fail(f"{text} MUSTER_GUARD=report lets it run as it is.", word)
            if self.rank == 0 or (word == "devices-idle" and os.environ.get("LOCAL_RANK", "0") == "0"):
                endings.say(text)
        _changed()


def _sentence(word: str, measure: _Measure) -> str | None:
    """Return a verdict for people; None for one that is said elsewhere, or not by this rank."""
    judgement = measure.judgement
    if word == "size-differs" and measure.is_apart and not measure.differs:  # of a size that differs, `compare` tells
        return (
            f"muster: this training has ranks on {judgement.nodes} of {sizes.nodes()} nodes, so each group trains"
            " by itself. Launch it with torchrun, or let Muster do so, and have all nodes meet at one address."
        )
    if word == "device-shared":
        return (
            f"muster: {_ranks(judgement.together)} train on one device. Give each rank a device of its own: call"
            ' torch.cuda.set_device(int(os.environ["LOCAL_RANK"])), or start fewer ranks.'
        )
    if word == "gradients-not-shared":
        return (
            f"muster: {_ranks(judgement.apart or [])} train apart: their gradients of one parameter differ. Train the"
            " model that DistributedDataParallel or FSDP returns, and leave no_sync before the optimizer's step."
        )
    if word == "devices-idle" and measure.node in judgement.pods:
        pod = devices.Pod(*judgement.pods[measure.node])
        if pod.idle:
            return (
                f"muster: {pod.idle} of {pod.idle + pod.used} devices of this pod have no memory of any rank after step"
                f" {exchanges.STAGES}. Start a rank for each device, or ask for {pod.used}."
            )
    return None


def _ranks(numbers: list[int]) -> str:
    if len(numbers) > _NAMED:
        return f"{len(numbers)} ranks, of which {numbers[0]} is the first,"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


_current: _Measure | None = None
_told = False
_state: list[Any] = []
_registered: list[bool] = []


def before(optimizer: Any) -> None:
    """Measure before a step of an optimizer."""
    global _current  # noqa: PLW0603  # a process has one training
    try:
        if _current is None:
            _current = _Measure()
            if not _registered:  # after the report was, so that it runs before it
                _registered.append(True)
                endings.at_end(_end)
        _current.before(optimizer)
    except Exception as error:  # noqa: BLE001  # the guard harms nothing
        _tell(error)


def after(optimizer: Any) -> None:
    """Measure after a step of an optimizer."""
    try:
        if _current is not None:
            _current.after(optimizer)
    except Exception as error:  # noqa: BLE001  # as above
        _tell(error)


def anew() -> None:
    """Measure anew, because a new default group was made: ranks have come or gone."""
    global _current  # noqa: PLW0603  # as above
    if _current is not None:
        _current.end(at_once=True)
        _current = None


def metrics() -> dict[str, str]:
    """Return what is known until now, as metrics of a TrainJob's status; empty before the first step."""
    return _current.metrics() if _current else {}


def watch_trainer(module: Any) -> None:
    """Find the state of transformers' Trainer, which counts tokens.

    Args:
        module: `transformers.trainer_callback`.
    """
    calls.after(module.CallbackHandler, "on_train_begin", lambda _, args, kwargs: _keep(args, kwargs))


def _keep(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    _state[:] = [kwargs["state"] if "state" in kwargs else args[2]]


def _tokens_seen() -> int:
    return int(getattr(_state[0], "num_input_tokens_seen", 0)) if _state else 0


def _changed() -> None:
    """Have the metrics posted, where the guard posts them."""
    posts = sys.modules.get("muster_guard.posts")
    if posts is not None:
        posts.changed()


def _tell(error: Exception) -> None:
    """Tell a fault of the guard once."""
    global _told  # noqa: PLW0603  # once in a process
    if not _told:
        _told = True
        endings.say(f"muster: the guard cannot measure this training: {error!r}")


def _member(name: str) -> Any:
    return _current.numbers()[name] if _current else None


def _end() -> None:
    with contextlib.suppress(Exception):
        if _current is not None:
            _current.end(at_once=hasattr(sys, "last_type"))
        posts = sys.modules.get("muster_guard.posts")
        if posts is not None:
            posts.finish()


for _name in _MEMBERS:
    trainings.added[_name] = functools.partial(_member, _name)
