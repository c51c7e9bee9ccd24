"""A sampling request on the wire: JSON in (`tinker.types.SampleRequest` 0.38.0), a protobuf `SampleResponse` out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from muster.sessions.seam import Refused, Sampled, Sampling
from muster.sessions.wire import forms, tensors
from muster.sessions.wire.schema import messages

__all__ = ["Request", "address", "parsed", "prompt_tokens", "response", "sampling"]

_LARGEST = 2**31
_Texts = Annotated[list[str], Field(fail_fast=True, max_length=1024)]
_Ids = Annotated[list[int], Field(fail_fast=True, max_length=1024)]
_ENDS = {"stop": messages.STOP_REASON_STOP, "length": messages.STOP_REASON_LENGTH}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class _Text(_Strict):
    type: Literal["encoded_text"] = "encoded_text"
    tokens: Annotated[list[Annotated[int, Field(ge=0, lt=_LARGEST)]], Field(fail_fast=True)]


class _Prompt(_Strict):
    chunks: Annotated[list[_Text], Field(fail_fast=True)]


class _Params(_Strict):
    max_tokens: int | None = Field(default=None, ge=1, lt=_LARGEST)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**64)
    stop: str | _Texts | _Ids | None = None
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_k: int = Field(default=-1, ge=-1, lt=_LARGEST)
    top_p: float = Field(default=1.0, gt=0, le=1)


class Request(_Strict):
    """What the client sends to `asample`; unknown fields are refused, so that no option silently does nothing."""

    num_samples: int = Field(default=1, ge=0, le=4096)
    prompt: _Prompt
    sampling_params: _Params
    base_model: str | None = None
    model_path: str | None = None
    sampling_session_id: str | None = None
    seq_id: int | None = Field(default=None, ge=0, lt=2**63)
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: int = Field(default=0, ge=0, le=1000)
    topk_sample_logprobs: int = Field(default=0, ge=0, le=1000)
    target_prompt_logprobs: dict[str, Any] | None = None
    prompt_alt_tokens_k: int = Field(default=0, lt=_LARGEST)
    prompt_logprobs_last_n: int | None = Field(default=None, ge=1, lt=_LARGEST)
    record_stability_info: bool | None = None
    type: Literal["sample"] = "sample"


def parsed(body: bytes) -> Request:
    """Return a request, checked. Raises `Refused` with the first thing that is wrong."""
    request = forms.checked(Request, body)
    if request.prompt_alt_tokens_k:
        raise Refused("prompt_alt_tokens_k: is not done here; leave it out")
    if request.record_stability_info:
        raise Refused("record_stability_info: serves stable_reinforce, which is not published; use importance_sampling")
    return request


def address(body: bytes) -> tuple[str, int, int]:
    """Return the sampling session of a request, its `seq_id`, and how many samples it asks for.

    Raises:
        Refused: as `parsed` does, and when it does not say the first two.
    """
    request = parsed(body)
    if request.sampling_session_id is None or request.seq_id is None:
        raise Refused("sampling_session_id: is missing, or its seq_id; create a sampling session first")
    return request.sampling_session_id, request.seq_id, request.num_samples


def prompt_tokens(body: bytes) -> int:
    """Return how many tokens the prompt of a request has that was `parsed` before."""
    return sum(len(chunk.tokens) for chunk in parsed(body).prompt.chunks)


def sampling(request: Request, weights: str | None) -> Sampling:
    """Return what an engine is asked for. Raises `Refused` for an empty prompt and targets that do not fit."""
    prompt = np.asarray([token for chunk in request.prompt.chunks for token in chunk.tokens], np.int64)
    if not len(prompt):
        raise Refused("prompt: is empty; send at least one token")
    params = request.sampling_params
    return Sampling(
        weights,
        prompt,
        count=request.num_samples,
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        seed=params.seed,
        stop=[params.stop] if isinstance(params.stop, str) else params.stop,
        prompt_logprobs=bool(request.prompt_logprobs),
        last_n=request.prompt_logprobs_last_n,
        topk_prompt=request.topk_prompt_logprobs,
        topk_sampled=request.topk_sample_logprobs,
        targets=_targets(request.target_prompt_logprobs, len(prompt)),
    )


def _targets(tensor: dict[str, Any] | None, length: int) -> NDArray[np.int64] | None:
    if tensor is None:
        return None
    try:
        targets = tensors.of_json("target_prompt_logprobs", tensor).astype(np.int64)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Refused("target_prompt_logprobs: is not an int64 tensor") from error
    if targets.ndim != 2 or len(targets) != length - 1:
        raise Refused(f"target_prompt_logprobs: has not the shape [{length - 1}, K] of a prompt of {length} tokens")
    if tensor.get("sparse_crow_indices") is not None:
        raise Refused("target_prompt_logprobs: sparse rows are not done here; send a dense tensor with -1 for none")
    return targets


def response(sampled: Sampled) -> bytes:
    """Return the bytes of a `SampleResponse`."""
    message = messages.SampleResponse()
    for each in sampled.sequences:
        sequence = message.sequences.add(
            stop_reason=_ENDS[each.ended],
            tokens=each.tokens.astype("<i4").tobytes(),
            logprobs=each.logprobs.astype("<f4").tobytes(),
        )
        if each.topk is not None:
            sequence.topk_sampled_logprobs.CopyFrom(_topk(each.topk))
    if sampled.prompt_logprobs is not None:
        message.prompt_logprobs = sampled.prompt_logprobs.astype("<f4").tobytes()
    if sampled.topk_prompt is not None:
        message.topk_prompt_logprobs.CopyFrom(_topk(sampled.topk_prompt))
    if sampled.targets is not None:
        message.target_prompt_logprobs.CopyFrom(
            messages.Tensor(
                dense=sampled.targets.astype("<f4").tobytes(),
                dtype=messages.DTYPE_FLOAT32,
                shape=sampled.targets.shape,
            )
        )
    return bytes(message.SerializeToString())


def _topk(of: tuple[NDArray[np.int64], NDArray[np.float32]]) -> Any:
    ids, logprobs = of
    return messages.TopkLogprobs(
        token_ids=ids.astype("<i4").tobytes(),
        logprobs=logprobs.astype("<f4").tobytes(),
        k=ids.shape[1],
        length=ids.shape[0],
    )
