"""LoRA adapters as versions: a manifest like that of a whole model, and the adapter's configuration beside its tensors.

`packed` is what a trainer publishes, `check` is what a sampler asks for, and `unpack` writes what vLLM and PEFT read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from muster_weights import manifests, names
from muster_weights.folders import Named
from muster_weights.manifests import Entry, Manifest
from muster_weights.readings import Verified
from muster_weights.refusals import Refused

__all__ = ["CONFIG", "check", "is_adapter", "name_of", "packed", "unpack"]

CONFIG = "adapter_config.json"
"""The name of the file of PEFT, and of the entry whose bytes are that file."""
_TENSORS = "adapter_model.safetensors"
_KINDS: Mapping[str, str] = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_PAIR = (".lora_A.weight", ".lora_B.weight")


def name_of(told: names.Told) -> str:
    """Return the name under which vLLM serves an adapter; TRL's worker asks for `<lora_name>-v<version>`."""
    return f"{told.run}-v{told.version}"


def is_adapter(manifest: Manifest) -> bool:
    """Whether a version is an adapter, and no whole model."""
    return any(each.name == CONFIG for each in manifest.tensors)


def packed(config: Mapping[str, Any], tensors: Iterable[Named]) -> Iterator[Named]:
    """Yield the configuration as bytes, and then the tensors."""
    told = json.dumps(config, sort_keys=True, default=_plain).encode()
    yield CONFIG, "uint8", (len(told),), memoryview(told)
    yield from tensors


def check(told: names.Told, manifest: Manifest) -> None:
    """Raise `Refused` for a version that is not a LoRA adapter: it needs a configuration, and pairs of matrices."""
    if not is_adapter(manifest):
        raise Refused(
            f"{told.text}: is not an adapter, for it has no {CONFIG}: publish an adapter, or load it as a model"
        )
    tensors = [each for each in manifest.tensors if each.name != CONFIG]
    for each in tensors:
        if each.dtype not in _KINDS or not each.name.endswith(_PAIR):
            raise Refused(
                f"{told.text}: {each.name} ({each.dtype}): is not a matrix of LoRA: leave it out of the adapter"
            )
    found = {each.name for each in tensors}
    alone = next((each for each in sorted(found) if _other(each) not in found), None)
    if alone is not None or not found:
        lacking = "lacks all matrices" if alone is None else f"lacks {_other(alone)}"
        raise Refused(f"{told.text}: {lacking}: publish the whole adapter")


def unpack(verified: Verified, folder: Path) -> None:
    """Write a verified adapter as PEFT does: its configuration, and its tensors as safetensors.

    Args:
        verified: an adapter, of which `check` found nothing.
        folder: one that is empty.
    """
    tensors = [each for each in verified.manifest.tensors if each.name != CONFIG]
    (config,) = (each for each in verified.manifest.tensors if each.name == CONFIG)
    (folder / CONFIG).write_bytes(_bytes(verified, config))
    header: dict[str, Any] = {}
    at = 0
    for each in tensors:
        end = at + manifests.size_of(each)
        header[each.name] = {"dtype": _KINDS[each.dtype], "shape": list(each.shape), "data_offsets": [at, end]}
        at = end
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    with (folder / _TENSORS).open("wb") as file:
        file.write(struct.pack("<Q", len(told)) + told)
        for each in tensors:
            file.write(_bytes(verified, each))


def _bytes(verified: Verified, entry: Entry) -> bytes:
    return verified.data[entry.offset : entry.offset + manifests.size_of(entry)]


def _other(name: str) -> str:
    one, other = _PAIR
    return name.removesuffix(one) + other if name.endswith(one) else name.removesuffix(other) + one


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a value of PEFT's: sets of names, and enumerations."""
    return sorted(value) if isinstance(value, set | frozenset) else str(getattr(value, "value", value))
