"""Trainers as configuration: a TrainJob from typed Python, checked by the rules that the webhook applies.

For example::

    from muster import TRLConfig, TRLSFTConfig

    trainer = TRLConfig(
        method=TRLSFTConfig(packing=True),
        model_name_or_path="Qwen/Qwen2.5-0.5B",
        dataset_name="trl-lib/Capybara",
        use_peft=True,
        lora_r=16,
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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.config_trainers import (
        BackendError,
        ConfigTrainer,
        FrameworkConfig,
        LLMTrainer,
        TrainerError,
        get_backend,
        get_framework,
        get_registered_backends,
        register_backend,
        register_framework,
    )
    from muster.runtime_choice import RuntimeChoiceError, choose_runtime, framework_of
    from muster.torchtune import LoraConfig, TorchTuneConfig, TorchTuneInstructDataset, TorchTuneTrainer
    from muster.trl import (
        Logging,
        LoRA,
        Precision,
        Quantization,
        TRLConfig,
        TRLDPOConfig,
        TRLGRPOConfig,
        TRLMethodConfig,
        TRLSFTConfig,
        TRLTrainer,
        VLLMSampling,
    )

__all__ = [
    "BackendError",
    "ConfigTrainer",
    "FrameworkConfig",
    "LLMTrainer",
    "LoRA",
    "Logging",
    "LoraConfig",
    "Precision",
    "Quantization",
    "RuntimeChoiceError",
    "TRLConfig",
    "TRLDPOConfig",
    "TRLGRPOConfig",
    "TRLMethodConfig",
    "TRLSFTConfig",
    "TRLTrainer",
    "TorchTuneConfig",
    "TorchTuneInstructDataset",
    "TorchTuneTrainer",
    "TrainerError",
    "VLLMSampling",
    "choose_runtime",
    "framework_of",
    "get_backend",
    "get_framework",
    "get_registered_backends",
    "register_backend",
    "register_framework",
]

# Imported when somebody asks for it, so that `import muster.strategies` imports no trainer.
_HOMES = {
    "config_trainers": (
        "BackendError ConfigTrainer FrameworkConfig LLMTrainer TrainerError get_backend get_framework"
        " get_registered_backends register_backend register_framework"
    ),
    "runtime_choice": "RuntimeChoiceError choose_runtime framework_of",
    "torchtune": "LoraConfig TorchTuneConfig TorchTuneInstructDataset TorchTuneTrainer",
    "trl": (
        "LoRA Logging Precision Quantization TRLConfig TRLDPOConfig TRLGRPOConfig TRLMethodConfig TRLSFTConfig"
        " TRLTrainer VLLMSampling"
    ),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            found = globals()[name] = getattr(importlib.import_module(f"muster.{home}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
