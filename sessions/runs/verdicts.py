"""Whether a sampler answers from the weights that it was asked for: the trainer computes the same tokens with them.

Once for the weights of each folder and each process of the sampler, beside what the run does: the first answer of
enough tokens goes to the trainer, which loads the folder as a model of its own. Where the log-probabilities are further
apart than any rounding makes them, all later samples from that folder fail, so that no run goes on with a policy that
is not its own. What differs by less is not noticed. The base is not looked at, and neither are weights of a trainer
that holds one model only.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from muster.sessions.engines.client import FailedError, LostError
from muster.sessions.engines.turns import ALONE
from muster.sessions.journal.store import AwayError, LostLeaseError
from muster.sessions.runs import events
from muster.sessions.runs.models import Context
from muster.sessions.seam import Refused
from muster.sessions.wire import samples
from muster.sessions.wire.schema import messages

__all__ = ["Verdicts"]

_LOG = logging.getLogger(__name__)
_APART = 0.5  # nats for each token, in the mean; bfloat16 against float32 is a tenth of that
_LEAST = 8  # tokens, below which nothing is said
_MOST = 4096  # tokens of all sequences that the trainer reads
_KEPT = 1024  # folders of which it is known that they were looked at


class _Sequence(NamedTuple):
    """A prompt with its answer, int64 [N], and the log-probabilities of the answer, float32 [M]."""

    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]


class Verdicts:
    """Looks at answers of a sampler.

    Args:
        context: of the Gateway.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked: OrderedDict[tuple[str, str], str] = OrderedDict()  # what is said of it, empty for nothing
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, instance: str, folder: str | None) -> str:
        """Return why nothing may be sampled from a folder; empty where it may.

        Args:
            instance: of the sampler.
            folder: of the weights; None is the base.
        """
        return self._looked.get((instance, folder or ""), "")

    def look(self, instance: str, folder: str | None, tenant: str, body: bytes, result: bytes) -> None:
        """Have an answer looked at, unless one from this folder was.

        Args:
            instance: of the sampler, which answered.
            folder: of the weights.
            tenant: whose they are.
            body: a `SampleRequest`.
            result: a `SampleResponse`.
        """
        if folder is None or self._context.config.full or (instance, folder) in self._looked:
            return
        self._looked[instance, folder] = ""
        while len(self._looked) > _KEPT:
            self._looked.popitem(last=False)
        task = asyncio.create_task(self._look(instance, folder, tenant, body, result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop to look."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look(self, instance: str, folder: str, tenant: str, body: bytes, result: bytes) -> None:
        try:
            sequences = await asyncio.to_thread(_sequences, body, result)
            apart = await self._apart(folder, sequences) if sequences else None
        except (LostError, FailedError, Refused) as error:
            _LOG.info("nothing is known of what the sampler answered from %s: %s", folder, error)
            apart = None
        if apart is None:
            self._looked.pop((instance, folder), None)  # the next answer is looked at
        elif not apart <= _APART:
            await self._say(instance, folder, tenant, apart)

    async def _say(self, instance: str, folder: str, tenant: str, apart: float) -> None:
        told = (
            f"the sampler answers from other weights than those it was asked for: its log-probabilities are {apart:.2f}"
            " away from the trainer's in the mean; whoever runs this Gateway has to look at the sampler"
        )
        self._looked[instance, folder] = told
        _LOG.error("%s: %s", folder, told)
        with suppress(AwayError, LostLeaseError):
            details = {"difference": round(apart, 3), "engine": instance}
            await events.note(self._context.journal, tenant, "sampler_lied", self._context.clock(), **details)

    async def _apart(self, folder: str, sequences: list[_Sequence]) -> float | None:
        """Return how far the log-probabilities of answers are from the trainer's; None where it is not there."""
        if not self._context.trainer.is_up:
            return None
        engine, model = self._context.trainer.engine, f"verdict-{hashlib.sha256(folder.encode()).hexdigest()[:16]}"
        try:
            await engine.train(model, 0, "load", orjson.dumps({"folder": folder, "optimizer": False}))
            # Alone, so that no step of the run has other company, and so other last bits, than without it.
            answer = await engine.train(model, 1, "step", _pass(model, sequences), ALONE)
        finally:
            with suppress(LostError, FailedError):
                await engine.unload(model)
        return await asyncio.to_thread(_difference, sequences, answer.body)


def _sequences(body: bytes, result: bytes) -> list[_Sequence]:
    """Return what can be compared; nothing where it is too little."""
    asked = samples.parsed(body)
    prompt = np.array([token for chunk in asked.prompt.chunks for token in chunk.tokens], np.int64)
    found: list[_Sequence] = []
    for each in messages.SampleResponse.FromString(result).sequences:
        logprobs = np.frombuffer(each.logprobs, "<f4")
        tokens = np.concatenate([prompt, np.frombuffer(each.tokens, "<i4").astype(np.int64)])
        if len(tokens) + sum(len(one.tokens) for one in found) > _MOST:
            break
        if len(logprobs):
            found.append(_Sequence(tokens, logprobs))
    return found if sum(len(each.logprobs) for each in found) >= _LEAST else []


def _pass(model: str, sequences: list[_Sequence]) -> bytes:
    """Return a forward pass over the sequences."""
    request = messages.ForwardBackwardRequest(model_id=model, seq_id=1, loss_fn="cross_entropy", forward_only=True)
    for each in sequences:
        datum = request.data.add()
        datum.model_input.add().encoded_text.tokens = each.tokens[:-1].astype("<i4").tobytes()
        weights = np.ones(len(each.tokens) - 1, "<f4")
        for name, kind, values in (
            ("target_tokens", messages.DTYPE_INT64, each.tokens[1:].astype("<i8")),
            ("weights", messages.DTYPE_FLOAT32, weights),
        ):
            tensor = messages.Tensor(dtype=kind, shape=values.shape, dense=values.tobytes())
            datum.loss_fn_inputs[name].CopyFrom(tensor)
    return bytes(request.SerializeToString())


def _difference(sequences: list[_Sequence], body: bytes) -> float:
    """Return the mean distance of the log-probabilities of all answers."""
    records: Any = messages.ForwardBackwardOutput.FromString(body).loss_fn_outputs
    flat = np.concatenate([np.frombuffer(each.fields["logprobs"].data, "<f4") for each in records])
    own = np.split(flat, np.cumsum([len(each.tokens) - 1 for each in sequences])[:-1])
    apart = [np.abs(p[-len(each.logprobs) :] - each.logprobs) for p, each in zip(own, sequences, strict=True)]
    return float(np.concatenate(apart).mean())
