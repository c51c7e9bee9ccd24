"""The trainer of the framework torchtune: the arguments of `tune run` that kubeflow's SDK makes.

Fields, their names and their spelling are those of `TorchTuneConfig` (kubeflow 0.5.0, `trainer/types/types.py` and
`get_args_using_torchtune_config`), so code that is written for it goes on working. Recipe and config are chosen later,
from the runtime's name, by Trainer or by the webhook.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar

from muster.config_trainers import FrameworkConfig, register_framework
from muster.field_types import EXAMPLE
from muster.strategies.trainer import recipes

__all__ = ["LoraConfig", "TorchTuneConfig", "TorchTuneInstructDataset", "TorchTuneTrainer"]

_DATASET = "torchtune.datasets.instruct_dataset"


@dataclass(kw_only=True, frozen=True)
class LoraConfig:
    """LoRA, with `quantize_base` QLoRA, with `use_dora` DoRA.

    Attributes:
        apply_lora_to_mlp: whether the layers of the MLP get adapters.
        apply_lora_to_output: whether the output projection of the model gets one.
        lora_attn_modules: projections of the attention that get adapters.
        lora_rank: rank.
        lora_alpha: scale.
        lora_dropout: of the adapters' input.
        quantize_base: whether the base model is quantized.
        use_dora: whether weights are split into magnitude and direction.
    """

    apply_lora_to_mlp: bool | None = None
    apply_lora_to_output: bool | None = None
    lora_attn_modules: Sequence[str] = ("q_proj", "v_proj", "output_proj")
    lora_rank: int | None = None
    lora_alpha: int | None = None
    lora_dropout: float | None = None
    quantize_base: bool | None = None
    use_dora: bool | None = None


@dataclass(kw_only=True, frozen=True)
class TorchTuneInstructDataset:
    """Preprocessing of a dataset of instructions and answers.

    Attributes:
        source: kind of file: json, csv, parquet, arrow, text or xml; a string, or the SDK's `DataFormat`.
        split: such as `train[:10%]`.
        train_on_input: whether the loss counts the instruction too.
        new_system_prompt: put before each sample.
        column_map: from `input` and `output` to the dataset's columns.
    """

    source: str | Enum | None = None
    split: str | None = None
    train_on_input: bool | None = None
    new_system_prompt: str | None = None
    column_map: Mapping[str, str] | None = None


@register_framework
@dataclass(kw_only=True)
class TorchTuneConfig(FrameworkConfig):
    """Fine-tunes the model of a torchtune runtime.

    Attributes:
        dtype: `bf16` or `fp32`; a string, or the SDK's `DataType`.
        batch_size: samples of each device and step.
        epochs: passes over the dataset.
        loss: path of the loss class; a string, or the SDK's `Loss`.
        peft_config: adapters instead of the whole model.
        dataset_preprocess_config: how the dataset is read.
        arguments: any further items of the recipe's config, `optimizer.lr`: `2e-5`.
    """

    framework: ClassVar[str] = "torchtune"
    command: ClassVar[tuple[str, ...]] = ("tune", "run")
    runtime_rules: ClassVar[frozenset[str]] = frozenset({"torchtune/model", "torchtune/qlora"})

    dtype: str | Enum | None = None
    batch_size: int | None = None
    epochs: int | None = None
    loss: str | Enum | None = None
    peft_config: LoraConfig | None = None
    dataset_preprocess_config: TorchTuneInstructDataset | None = None
    arguments: Mapping[str, str | int | float | bool | None] | None = field(
        default=None, metadata={EXAMPLE: {"optimizer.lr": 2e-5}}
    )

    def to_args(self) -> list[str]:
        """Return `key=value` for each field that is set.

        Raises:
            ValueError: an item is given by a field and by `arguments`.
        """
        return [f"{key}={value}" for _, key, value in self._items()]

    def origin(self, index: int) -> str:
        """Return the field that `to_args()[index]` comes from."""
        items = list(self._items())
        return items[index][0] if index < len(items) else ""

    def stand_in(self) -> dict[str, Any]:
        """Return a runtime of the model with the fewest limits, since the runtime's name chooses the model."""
        runtime = super().stand_in()
        model = recipes.LLAMA3_3_70B.replace("_", ".").replace("/", "-").lower()
        runtime["metadata"]["name"] = f"torchtune-{model}"
        return runtime

    def _items(self) -> Iterator[tuple[str, str, object]]:
        taken: dict[str, str] = {}
        for place, key, value in (*self._typed(), *self._further()):
            if value is None:
                continue
            if key in taken:
                raise ValueError(f"{place}: {key} is set by {taken[key]} already; remove one of the two")
            taken[key] = place
            yield place, key, value.value if isinstance(value, Enum) else value

    def _typed(self) -> Iterator[tuple[str, str, object]]:
        for member in ("dtype", "batch_size", "epochs", "loss"):
            yield member, member, getattr(self, member)
        if self.peft_config is not None:
            yield from _adapters(self.peft_config)
        if self.dataset_preprocess_config is not None:
            yield from _preprocessing(self.dataset_preprocess_config)

    def _further(self) -> Iterator[tuple[str, str, object]]:
        for key, value in (self.arguments or {}).items():
            yield f"arguments[{key!r}]", key, value


TorchTuneTrainer = TorchTuneConfig
"""The name that an earlier proposal had for it."""


def _adapters(lora: LoraConfig) -> Iterator[tuple[str, str, object]]:
    for member in (each.name for each in fields(lora) if each.name != "lora_attn_modules"):
        yield f"peft_config.{member}", f"model.{member}", getattr(lora, member)
    if lora.lora_attn_modules:
        modules = ",".join(lora.lora_attn_modules)
        yield "peft_config.lora_attn_modules", "model.lora_attn_modules", f"[{modules}]"


def _preprocessing(dataset: TorchTuneInstructDataset) -> Iterator[tuple[str, str, object]]:
    yield "dataset_preprocess_config", "dataset", _DATASET
    for member in ("source", "split", "train_on_input", "new_system_prompt"):
        yield f"dataset_preprocess_config.{member}", f"dataset.{member}", getattr(dataset, member)
    if dataset.column_map:
        yield "dataset_preprocess_config.column_map", "dataset.column_map", dict(dataset.column_map)
