"""Cases: one small job for each way in which Muster changes a job, on nodes that need no image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.suites.lifecycle import scenes
from e2e.suites.support import documents

__all__ = ["CASES", "Case"]

Document = dict[str, Any]

_GPUS = {"limits": {"nvidia.com/gpu": "2"}}
_TUNE = [
    *("tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full"),
    *("dataset.source=parquet", "output_dir=/workspace/output", "tokenizer.path=/workspace/model/tokenizer.model"),
    "checkpointer.checkpoint_dir=/workspace/model",
]
_SFT = ["--model_name_or_path", "Qwen/Qwen2.5-0.5B", "--dataset_name", "trl-lib/Capybara"]


@dataclass(frozen=True)
class Case:
    """A job and what shows that Muster changed it.

    Attributes:
        runtime: its TrainingRuntime.
        trainer: its `spec.trainer`, None for none.
        command: how the stored command of the container begins.
        env: names of env that only Muster sets.
        remembers: whether the TrainJob itself was changed, not the JobSet alone.
    """

    runtime: Document
    trainer: Mapping[str, Any] | None
    command: tuple[str, ...]
    env: frozenset[str] = field(default_factory=lambda: frozenset({"MASTER_ADDR", "MASTER_PORT"}))
    remembers: bool = True

    def job(self, name: str = "life", **how: Any) -> Document:
        """The TrainJob."""
        return documents.trainjob(name, self.runtime["metadata"]["name"], trainer=self.trainer, **how)

    def shows(self, jobset: Document) -> bool:
        """Whether a JobSet holds what Muster was to put there."""
        container = scenes.container(jobset)
        begins = tuple(container.get("command", ()))[: len(self.command)] == self.command
        return begins and self.env <= {each["name"] for each in container.get("env", ())}


CASES = {
    "torch": Case(
        documents.training_runtime("plain", "torch", nodes=2),
        {"command": ["torchrun", "train.py"], "args": ["--epochs", "1"], "env": [{"name": "MINE", "value": "1"}]},
        ("torchrun", "train.py"),
        remembers=False,
    ),
    "torch without a trainer section": Case(
        documents.training_runtime("plain", "torch", nodes=2, command=["torchrun", "train.py"]),
        None,
        ("torchrun",),
    ),
    "torch of fewer processes than Trainer counts": Case(
        documents.training_runtime("plain", "torch", nodes=2, resources=_GPUS),
        {"command": ["torchrun", "train.py"], "resourcesPerNode": {"limits": {"memory": "1Gi"}}},
        ("torchrun",),
    ),
    "torchtune": Case(
        documents.training_runtime("torchtune-llama3.2-1b", "torchtune", command=_TUNE, resources=_GPUS),
        {"command": ["tune", "run"], "args": ["epochs=1"]},
        ("tune", "run", "--rdzv_endpoint=life-node-0-0.life:29500"),
    ),
    "torchtune without a trainer section": Case(
        documents.training_runtime("torchtune-llama3.2-1b", "torchtune", command=_TUNE, resources=_GPUS),
        None,
        ("tune", "run", "--rdzv_endpoint=life-node-0-0.life:29500"),
    ),
    "trl": Case(
        documents.training_runtime("trl", "trl", nodes=2, resources=_GPUS),
        {"command": ["trl", "sft"], "args": _SFT},
        ("torchrun", "-m", "trl.scripts.sft"),
    ),
    "trl with a preset of accelerate": Case(
        documents.training_runtime("trl", "trl", nodes=2, resources=_GPUS),
        {"command": ["trl", "sft"], "args": ["--accelerate_config", "fsdp2", *_SFT]},
        ("torchrun", "-m", "trl.scripts.sft"),
        env=frozenset({"MASTER_ADDR", "ACCELERATE_USE_FSDP"}),
    ),
    "trl without a trainer section": Case(
        documents.training_runtime("trl", "trl", nodes=2, command=["trl", "sft"], args=_SFT, resources=_GPUS),
        None,
        ("torchrun", "-m", "trl.scripts.sft"),
    ),
}
"""By name; each has a runtime of its own, so no two of them fit into one namespace."""
