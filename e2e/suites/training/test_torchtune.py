"""torchtune trains by the recipe that Muster chose, on a model and data that are small enough for a CPU."""

from __future__ import annotations

import json

import pytest

from e2e.suites.support.documents import trainjob
from e2e.suites.support.spaces import Space
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough

IMAGES = ("torchtune", "trl")
_RUNTIME = "torchtune-llama3.2-1b"
_SIZES = {
    "vocab_size": 320, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "embed_dim": 256, "intermediate_dim": 512,
    "max_seq_len": 131072,
}  # fmt: skip
_SMALL = [
    "model=torchtune.models.llama3_2.llama3_2",
    *(f"model.{name}={value}" for name, value in _SIZES.items()),
    f"tokenizer.special_tokens_path={runs.SHARED}/llama/tokenizer.json",
    "~checkpointer.checkpoint_files",
    "checkpointer.checkpoint_files=[model.safetensors]",
    "dataset=torchtune.datasets.chat_dataset",
    "dataset.packed=False",
    "dataset.source=json",
    f"dataset.data_files={runs.SHARED}/data/sft/train.jsonl",
    "dataset.split=train",
    "dataset.conversation_column=messages",
    "dataset.conversation_style=openai",
    *("seed=1", "device=cpu", "dtype=fp32", "compile=False", "batch_size=4", "gradient_accumulation_steps=1"),
    *("optimizer=torch.optim.AdamW", "optimizer.lr=0.003", "optimizer_in_bwd=False", "log_peak_memory_stats=False"),
]
_CHECK = """
import json, pathlib, transformers
folder = pathlib.Path({folder!r})
lines = [line for log in folder.glob("logs/log_*.txt") for line in log.read_text().splitlines()]
losses = [float(line.partition("loss:")[2].split()[0]) for line in lines if line.startswith("Step ")]
model = transformers.AutoModelForCausalLM.from_pretrained(folder / "epoch_0")
print(json.dumps({{"losses": losses, "weights": sum(each.numel() for each in model.parameters())}}))
"""


def test_a_recipe_for_one_device_trains_and_its_checkpoint_loads(space: Space, models: None) -> None:
    folder = f"{runs.SHARED}/out/{space.name}"
    command = ["tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed"]
    command += ["--config", "llama3_2/1B_full", f"output_dir={folder}"]
    command += [f"tokenizer.path={runs.SHARED}/llama/original/tokenizer.model"]
    command += [f"checkpointer.checkpoint_dir={runs.SHARED}/llama"]
    runtime = runs.runtime("torchtune", "torchtune", name=_RUNTIME, command=command)
    job = trainjob("tuned", _RUNTIME, trainer={"command": ["tune", "run"], "args": _SMALL})

    (rank,) = runs.ended(space, runs.start(space, runtime, job))

    report = rank.report()
    assert (report["worldSize"], report["expected"], report["steps"]) == (1, "1", 16)
    found = json.loads(runs.python(space, "trl", "check", _CHECK.format(folder=folder)).splitlines()[-1])
    assert found["losses"][-1] < found["losses"][0] / 2, found
    assert found["weights"] > 0
