"""Trainers as configuration: a TrainJob from typed Python, checked by the rules that the webhook applies.

For example::

    from muster import LoRA, TRLTrainer

    trainer = TRLTrainer(
        method="sft",
        model="Qwen/Qwen2.5-0.5B",
        dataset="trl-lib/Capybara",
        lora=LoRA(r=16),
        num_nodes=2,
        resources_per_node={"gpu": 1},
    )
    trainer.validate()                                   # TrainerError: the findings that the webhook would have
    document = trainer.to_trainjob("sft", runtime="trl-distributed")

`muster.kubeflow` sends a trainer by kubeflow's SDK, and shows what the cluster says to it. Importing this package, or
that module, imports no machine-learning, HTTP or Kubernetes library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.runtimes import RuntimeChoiceError, choose_runtime, framework_of
    from muster.torchtune import LoraConfig, TorchTuneConfig, TorchTuneInstructDataset, TorchTuneTrainer
    from muster.trainers import (
        BackendError,
        ConfigTrainer,
        LLMTrainer,
        TrainerError,
        get_backend,
        get_registered_backends,
        register_backend,
    )
    from muster.trl import Logging, LoRA, Precision, Quantization, TRLTrainer, VLLMSampling

__all__ = [
    "BackendError",
    "ConfigTrainer",
    "LLMTrainer",
    "LoRA",
    "Logging",
    "LoraConfig",
    "Precision",
    "Quantization",
    "RuntimeChoiceError",
    "TRLTrainer",
    "TorchTuneConfig",
    "TorchTuneInstructDataset",
    "TorchTuneTrainer",
    "TrainerError",
    "VLLMSampling",
    "choose_runtime",
    "framework_of",
    "get_backend",
    "get_registered_backends",
    "register_backend",
]

# Imported when somebody asks for it, so that `import muster.strategies` imports no trainer.
_HOMES = {
    "BackendError": "muster.trainers",
    "ConfigTrainer": "muster.trainers",
    "LLMTrainer": "muster.trainers",
    "LoRA": "muster.trl",
    "Logging": "muster.trl",
    "LoraConfig": "muster.torchtune",
    "Precision": "muster.trl",
    "Quantization": "muster.trl",
    "RuntimeChoiceError": "muster.runtimes",
    "TRLTrainer": "muster.trl",
    "TorchTuneConfig": "muster.torchtune",
    "TorchTuneInstructDataset": "muster.torchtune",
    "TorchTuneTrainer": "muster.torchtune",
    "TrainerError": "muster.trainers",
    "VLLMSampling": "muster.trl",
    "choose_runtime": "muster.runtimes",
    "framework_of": "muster.runtimes",
    "get_backend": "muster.trainers",
    "get_registered_backends": "muster.trainers",
    "register_backend": "muster.trainers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
