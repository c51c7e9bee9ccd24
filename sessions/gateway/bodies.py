"""What clients send as JSON, as tinker 0.38.0 has it (`tinker/types`).

Unknown fields are refused: no option does nothing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = [
    "MOST",
    "CreateModel",
    "CreateSamplingSession",
    "CreateSession",
    "Finish",
    "Load",
    "LoraConfig",
    "ModelOnly",
    "Optim",
    "Poll",
    "Save",
    "SaveExternal",
    "SaveForSampler",
]

MOST = 2**53
"""The largest number of a request: what JSON carries exactly, and the journal keeps."""
_LARGE = 1e30  # what float32 holds, with room for a product
_Ttl = Annotated[int, Field(ge=3600, le=315_360_000)]
_MOST_METADATA = 1 << 16  # bytes
_DEEPEST_METADATA = 64  # lists and objects within each other; orjson writes beyond its buffer where many nest over 200
_LONGEST_DETAIL = 8192  # characters of it that are kept: every search reads them


def _small(metadata: dict[str, Any]) -> dict[str, Any]:
    if _is_deep(metadata):
        raise ValueError(f"nests deeper than {_DEEPEST_METADATA} levels; send it as a text")
    try:
        size = len(orjson.dumps(metadata))
    except TypeError as error:
        raise ValueError(f"cannot be kept ({error}); send texts") from error
    if size > _MOST_METADATA:
        raise ValueError(f"is more than {_MOST_METADATA} bytes; keep large things elsewhere")
    return metadata


def _is_deep(value: dict[str, Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(_DEEPEST_METADATA):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for every in inner for child in every if isinstance(child, dict | list)]
    return bool(level)


_Metadata = Annotated[dict[str, str], AfterValidator(_small)]
_Values = Annotated[dict[str, Any], AfterValidator(_small)]


class _Strict(BaseModel):
    # Metadata may have numbers that JSON does not know, and so does what a process tells of them.
    model_config = ConfigDict(extra="forbid", protected_namespaces=(), ser_json_inf_nan="constants")


class CreateSession(_Strict):
    """`create_session`."""

    tags: list[str] = Field(default_factory=list, max_length=100)
    user_metadata: _Values | None = None
    sdk_version: str = ""
    project_id: str | None = Field(default=None, max_length=200)
    display_name: str | None = Field(default=None, max_length=500)
    type: Literal["create_session"] = "create_session"


class LoraConfig(_Strict):
    """Of `create_model`."""

    rank: int = Field(default=32, ge=0, le=512)  # 0 is full fine-tuning, where it is served
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class _AdamOptimizer(_Strict):
    type: Literal["adamw"] = "adamw"


class CreateModel(_Strict):
    """`create_model`."""

    session_id: str
    model_seq_id: int = Field(ge=0, le=MOST)
    base_model: str
    user_metadata: _Values | None = None
    lora_config: LoraConfig | None = None
    optimizer_config: _AdamOptimizer = _AdamOptimizer()
    type: Literal["create_model"] = "create_model"


class _Adam(_Strict):
    learning_rate: float = Field(default=1e-4, ge=0, le=_LARGE)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.95, ge=0, lt=1)
    eps: float = Field(default=1e-12, ge=0, le=_LARGE)
    weight_decay: float = Field(default=0.0, ge=0, le=_LARGE)
    grad_clip_norm: float = Field(default=0.0, ge=-_LARGE, le=_LARGE)


class Optim(_Strict):
    """`optim_step`."""

    adam_params: _Adam
    model_id: str
    seq_id: int = Field(ge=1, le=MOST)
    type: Literal["optim_step"] = "optim_step"


class ModelOnly(_Strict):
    """`get_info` and `unload_model`."""

    model_id: str
    type: Literal["get_info", "unload_model"] | None = None


class Save(_Strict):
    """`save_weights`."""

    model_id: str
    path: str | None = None
    seq_id: int = Field(ge=1, le=MOST)
    ttl_seconds: _Ttl | None = None
    overwrite: bool = False
    user_metadata: _Metadata | None = None
    type: Literal["save_weights"] = "save_weights"


class SaveForSampler(_Strict):
    """`save_weights_for_sampler`."""

    model_id: str
    path: str | None = None
    sampling_session_seq_id: int | None = Field(default=None, ge=0, le=MOST)
    kind: Literal["snapshot", "inflight"] = "snapshot"
    seq_id: int = Field(ge=1, le=MOST)
    ttl_seconds: _Ttl | None = None
    user_metadata: _Metadata | None = None
    type: Literal["save_weights_for_sampler"] = "save_weights_for_sampler"


class SaveExternal(_Strict):
    """`save_weights_external`."""

    model_id: str
    path: str
    seq_id: int = Field(ge=1, le=MOST)
    ttl_seconds: _Ttl | None = None
    age_encryption_recipients: Annotated[list[str], Field(fail_fast=True, max_length=100)] | None = None
    type: Literal["save_weights_external"] = "save_weights_external"


class Load(_Strict):
    """`load_weights`: into a model that exists, or into a new one of a session."""

    model_id: str | None = None
    seq_id: int | None = Field(default=None, ge=1, le=MOST)
    session_id: str | None = None
    model_seq_id: int | None = Field(default=None, ge=0, le=MOST)
    base_model: str | None = None
    user_metadata: _Values | None = None
    path: str
    optimizer: bool
    optimizer_config: _AdamOptimizer | None = None
    weights_access_token: str | None = None
    type: Literal["load_weights"] = "load_weights"


class CreateSamplingSession(_Strict):
    """`create_sampling_session`."""

    session_id: str
    sampling_session_seq_id: int = Field(ge=0, le=MOST)
    base_model: str | None = None
    model_path: str | None = None
    type: Literal["create_sampling_session"] = "create_sampling_session"


class Poll(_Strict):
    """`retrieve_future`."""

    request_id: str
    allow_metadata_only: bool = False


class _Reason(_Strict):
    type: Literal["success", "errored", "interrupted"]


class Finish(_Strict):
    """`sessions/{id}/finish`."""

    reason: _Reason
    detail: Annotated[str, AfterValidator(lambda text: text[:_LONGEST_DETAIL])] | None = None
