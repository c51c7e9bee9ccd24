"""The config of the framework trl: every method that TRL ships as a script, by typed fields.

The fields have the names of TRL's flags, as KEP-2839 has them (kubeflow/trainer#3930), or are grouped as TRL's own
dataclasses group them (trl `ModelConfig`, `ScriptArguments`, `SFTConfig` ... and transformers' `TrainingArguments`).
What has no field goes into `arguments`. All are checked against the same table, printed from TRL's own parsers, that
the webhook reads command lines with.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias

from muster.config_trainers import FrameworkConfig, register_framework
from muster.field_types import EXAMPLE
from muster.strategies.documents import decoding
from muster.strategies.documents.findings import Finding, error
from muster.strategies.frameworks.trl import flags

__all__ = [
    "LoRA",
    "Logging",
    "Precision",
    "Quantization",
    "TRLConfig",
    "TRLDPOConfig",
    "TRLGRPOConfig",
    "TRLMethodConfig",
    "TRLSFTConfig",
    "TRLTrainer",
    "VLLMSampling",
]

Value: TypeAlias = str | int | float | bool | Sequence[str] | Sequence[float] | Mapping[str, object] | None
_FLAG = "flag"


def _flag(name: str, default: str | None = None) -> Any:  # Any: a field of any type
    """Return a field that is TRL's flag of this name."""
    return field(default=default, metadata={_FLAG: name})


@dataclass(kw_only=True, frozen=True)
class LoRA:
    """Trains low-rank adapters instead of the whole model; TRL's `--use_peft` and its `--lora_*` flags.

    Attributes:
        r: rank.
        alpha: scale of the adapters.
        dropout: of the adapters' input.
        target_modules: names of the layers that get adapters, or `all-linear`.
        modules_to_save: names of the layers that are trained whole.
        rslora: rank-stabilised scale.
        dora: weights split into magnitude and direction.
    """

    ALWAYS: ClassVar[Mapping[str, Value]] = {"use_peft": True}

    r: int | None = _flag("lora_r")
    alpha: int | None = _flag("lora_alpha")
    dropout: float | None = _flag("lora_dropout")
    target_modules: Sequence[str] | Literal["all-linear"] | None = _flag("lora_target_modules")
    modules_to_save: Sequence[str] | None = _flag("lora_modules_to_save")
    rslora: bool | None = _flag("use_rslora")
    dora: bool | None = _flag("use_dora")


@dataclass(kw_only=True, frozen=True)
class Quantization:
    """Loads the base model in fewer bits, by bitsandbytes.

    Attributes:
        bits: of each weight, 4 or 8.
        quant_type: of 4 bits.
        nested: whether the constants of the quantization are quantized as well.
    """

    bits: Literal[4, 8]
    quant_type: Literal["nf4", "fp4"] | None = _flag("bnb_4bit_quant_type")
    nested: bool | None = _flag("use_bnb_nested_quant")

    @property
    def ALWAYS(self) -> Mapping[str, Value]:  # noqa: N802  # of each of these groups, here by `bits`
        """The flag of the number of bits."""
        return {f"load_in_{self.bits}bit": True}


@dataclass(kw_only=True, frozen=True)
class Precision:
    """Number formats.

    Attributes:
        bf16: whether mixed precision is bfloat16; TRL's default for a GPU that has it.
        fp16: whether mixed precision is float16.
        tf32: whether matrix products may use TF32.
        dtype: of the weights, `auto` for that of the checkpoint.
    """

    ALWAYS: ClassVar[Mapping[str, Value]] = {}

    bf16: bool | None = _flag("bf16")
    fp16: bool | None = _flag("fp16")
    tf32: bool | None = _flag("tf32")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = _flag("dtype")


@dataclass(kw_only=True, frozen=True)
class Logging:
    """What is reported, where to, and how often.

    Attributes:
        report_to: `none`, `all`, or one of transformers' integrations, such as `wandb`.
        steps: steps between two reports; below 1 a share of the training.
        run_name: name of the run there.
        completions: whether GRPO and RLOO print samples.
    """

    ALWAYS: ClassVar[Mapping[str, Value]] = {}

    report_to: str | None = _flag("report_to")
    steps: float | None = _flag("logging_steps")
    run_name: str | None = _flag("run_name")
    completions: bool | None = _flag("log_completions")


@dataclass(kw_only=True, frozen=True)
class VLLMSampling:
    """Samples by vLLM, in methods that sample (`grpo`, `rloo`).

    Attributes:
        mode: `colocate` in the trainers' own processes; `server` in a vLLM server that is there already.
        server_base_url: of that server.
        gpu_memory_utilization: share of a GPU's memory that vLLM takes in mode `colocate`.
        tensor_parallel_size: GPUs of one copy of the model in mode `colocate`.
        max_model_length: tokens of prompt and completion together.
        sleep_mode: whether vLLM gives its memory back while the trainer works.
    """

    ALWAYS: ClassVar[Mapping[str, Value]] = {"use_vllm": True}

    mode: Literal["colocate", "server"] = _flag("vllm_mode", "colocate")
    server_base_url: str | None = _flag("vllm_server_base_url")
    gpu_memory_utilization: float | None = _flag("vllm_gpu_memory_utilization")
    tensor_parallel_size: int | None = _flag("vllm_tensor_parallel_size")
    max_model_length: int | None = _flag("vllm_max_model_length")
    sleep_mode: bool | None = _flag("vllm_enable_sleep_mode")


@dataclass(kw_only=True)
class TRLMethodConfig(abc.ABC):
    """What belongs to one method of TRL alone; a flag of another method is no field of it.

    A subclass names its method in `module`, and its fields are flags of that method.

    Attributes:
        module: the script of the method, of those in `trl.scripts`.
    """

    module: ClassVar[str]

    def to_args(self) -> list[str]:
        """Return the flags of the fields that are set."""
        return [word for place, name, value in self.words() for word in _spelt(self.module, place, name, value)]

    def words(self) -> Iterator[tuple[str, str, Value]]:
        """Yield place, flag and value of each field that is set."""
        own = ((each.name, getattr(self, each.name)) for each in fields(self))
        return ((f"method.{name}", name, value) for name, value in own if value is not None)


@dataclass(kw_only=True)
class TRLSFTConfig(TRLMethodConfig):
    """Supervised fine-tuning.

    Attributes:
        loss_type: `nll`, `dft` or `chunked_nll`.
        packing: whether several samples share one sequence.
        completion_only_loss: whether the prompt does not count in the loss.
    """

    module: ClassVar[str] = "sft"

    loss_type: str | None = None
    packing: bool | None = None
    completion_only_loss: bool | None = None


@dataclass(kw_only=True)
class TRLDPOConfig(TRLMethodConfig):
    """Direct preference optimization.

    Attributes:
        beta: how far the model may go from the reference model.
        loss_type: losses that are added, such as `sigmoid`.
        loss_weights: a weight for each.
    """

    module: ClassVar[str] = "dpo"

    beta: float | None = None
    loss_type: Sequence[str] | None = None
    loss_weights: Sequence[float] | None = None


@dataclass(kw_only=True)
class TRLGRPOConfig(TRLMethodConfig):
    """Group relative policy optimization.

    Attributes:
        beta: weight of the divergence from the reference model.
        loss_type: such as `dapo`.
        num_generations: completions of one prompt.
        reward_funcs: names of TRL's rewards, or paths of functions.
    """

    module: ClassVar[str] = "grpo"

    beta: float | None = None
    loss_type: str | None = None
    num_generations: int | None = None
    reward_funcs: Sequence[str] | None = None


_GROUPS = ("lora", "quantization", "precision", "logging", "vllm")


@register_framework
@dataclass(kw_only=True)
class TRLConfig(FrameworkConfig):
    """Fine-tunes a model by TRL.

    The launch is torchrun with TRL's script, which the webhook leaves as it is: torchrun reads the nodes and processes
    that Trainer gives the pods. Some flags have a short name too; one of the two is set.

    Attributes:
        method: a `TRLMethodConfig`, or a command of `trl` that trains: distillation, dpo, grpo, kto, reward, rloo or
            sft.
        model_name_or_path: name on the hub or path; also `model`. One of them is needed.
        dataset_name: name on the hub or path; also `dataset`.
        output_dir: path of checkpoints in the pod.
        learning_rate: of the optimizer; the method's own by default.
        num_train_epochs: passes over the dataset; also `epochs`.
        max_steps: optimizer steps, which win over passes.
        per_device_train_batch_size: samples of each device and step; also `batch_size`.
        gradient_accumulation_steps: steps of which the gradients are summed before the optimizer's.
        gradient_checkpointing: whether activations are computed again to save memory.
        seed: of all random numbers.
        use_cpu: whether the training is meant for CPUs.
        bf16: whether mixed precision is bfloat16; also `precision.bf16`.
        use_peft: whether adapters are trained instead of the whole model, as `lora` does.
        lora_r: rank of the adapters; also `lora.r`.
        lora_alpha: their scale; also `lora.alpha`.
        lora_target_modules: names of the layers that get adapters; also `lora.target_modules`.
        lora: adapters instead of the whole model.
        quantization: a base model of fewer bits.
        precision: number formats.
        logging: reports.
        vllm: sampling by vLLM.
        arguments: any further flags of the method by their names, without `--`: a string, a number, a boolean, a
            sequence for a flag that takes several values, or a mapping for one that takes JSON.
    """

    framework: ClassVar[str] = "trl"
    command: ClassVar[tuple[str, ...]] = ("torchrun", "-m")

    method: str | TRLMethodConfig = "sft"
    model_name_or_path: str | None = _flag("model_name_or_path")
    model: str | None = _flag("model_name_or_path")
    dataset_name: str | None = _flag("dataset_name")
    dataset: str | None = _flag("dataset_name")
    output_dir: str = _flag("output_dir", "/workspace/output")
    learning_rate: float | None = _flag("learning_rate")
    num_train_epochs: float | None = _flag("num_train_epochs")
    epochs: float | None = _flag("num_train_epochs")
    max_steps: int | None = _flag("max_steps")
    per_device_train_batch_size: int | None = _flag("per_device_train_batch_size")
    batch_size: int | None = _flag("per_device_train_batch_size")
    gradient_accumulation_steps: int | None = _flag("gradient_accumulation_steps")
    gradient_checkpointing: bool | None = _flag("gradient_checkpointing")
    seed: int | None = _flag("seed")
    use_cpu: bool | None = _flag("use_cpu")
    bf16: bool | None = _flag("bf16")
    use_peft: bool | None = _flag("use_peft")
    lora_r: int | None = _flag("lora_r")
    lora_alpha: int | None = _flag("lora_alpha")
    lora_target_modules: Sequence[str] | None = _flag("lora_target_modules")
    lora: LoRA | None = None
    quantization: Quantization | None = None
    precision: Precision | None = None
    logging: Logging | None = None
    vllm: VLLMSampling | None = None
    arguments: Mapping[str, Value] = field(default_factory=dict, metadata={EXAMPLE: {"packing": True}})

    def __post_init__(self) -> None:
        if self.model_name_or_path is None and self.model is None:
            raise TypeError("model_name_or_path: is required; give the name of a model on the hub, or a path")

    def to_args(self) -> list[str]:
        """Return the script of the method, the flags of the fields that are set, then those of method and `arguments`.

        Raises:
            ValueError: TRL has no such method, a flag is given twice, or a value has no spelling on a command line.
        """
        return [word for _, words in self._words() for word in words]

    def origin(self, index: int) -> str:
        """Return the field whose flag or value is `to_args()[index]`."""
        for place, words in self._words():
            if index < len(words):
                return place
            index -= len(words)
        return ""

    @property
    def _script(self) -> str:
        return self.method if isinstance(self.method, str) else self.method.module

    def misfits(self) -> list[Finding]:
        """Return as every trainer, and an error for each name in `arguments` that begins with dashes."""
        found = super().misfits()
        for name in decoding.mapping(self.arguments):
            if str(name).startswith("-"):
                message = f"is a flag with its dashes; write the name alone, {name.lstrip('-')!r}"
                found.append(error(f"arguments[{name!r}]", None, message, rule="core/shape"))
        return found

    def _words(self) -> Iterator[tuple[str, list[str]]]:
        flags.script(self._script)
        yield "method", [f"trl.scripts.{self._script}"]
        taken: dict[str, str] = {}
        for place, name, value in (*self._typed(), *self._further()):
            if value is None:
                continue
            if name in taken:
                raise ValueError(f"{place}: --{name} is set by {taken[name]} already; remove one of the two")
            taken[name] = place
            yield place, _spelt(self._script, place, name, value)
        if not isinstance(self.method, str) and not self._has_flags:
            yield "method", self.method.to_args()

    @property
    def _has_flags(self) -> bool:
        """Whether the flags of the method's config are its fields; one of another package may render itself."""
        return not isinstance(self.method, str) and type(self.method).to_args is TRLMethodConfig.to_args

    def _typed(self) -> Iterator[tuple[str, str, Value]]:
        yield from _set(self, "")
        for group in _GROUPS:
            chosen = getattr(self, group)
            if chosen is not None:
                yield from ((group, flag, value) for flag, value in chosen.ALWAYS.items())
                yield from _set(chosen, f"{group}.")
        if not isinstance(self.method, str) and self._has_flags:
            yield from self.method.words()

    def _further(self) -> Iterator[tuple[str, str, Value]]:
        for name, value in self.arguments.items():
            known = flags.spec(self._script, f"--{name}")
            yield f"arguments[{name!r}]", known.name if known else name, value


TRLTrainer = TRLConfig
"""The name that an earlier proposal had for it."""


def _set(chosen: Any, place: str) -> Iterator[tuple[str, str, Value]]:  # Any: a dataclass
    """Yield the place, the flag and the value of each field that is a flag."""
    for each in fields(chosen):
        if _FLAG in each.metadata:
            yield f"{place}{each.name}", each.metadata[_FLAG], getattr(chosen, each.name)


def _spelt(method: str, place: str, name: str, value: Value) -> list[str]:
    if isinstance(value, Mapping):
        return [f"--{name}={json.dumps(value)}"]
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [f"--{name}={_word(place, value)}"]
    words = [_word(place, each) for each in value]
    odd = next((word for word in words if word.startswith("-")), None)
    if odd is not None:
        raise ValueError(
            f"{place}: {odd!r} would be read as a flag of trl {method}; a value of a list cannot begin with -"
        )
    if not words:
        raise ValueError(f"{place}: an empty list has no spelling on a command line; use None")
    return [f"--{name}", *words]


def _word(place: str, value: object) -> str:
    word = str(value)
    if "\0" in word:
        raise ValueError(f"{place}: {value!r} has a null character, which no command line can hold")
    return word
