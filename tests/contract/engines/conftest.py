"""A small model for torchtune, and its recipes with what makes their configs small enough for a CPU."""

import subprocess
from pathlib import Path

import pytest

ON_CPU = Path(__file__).parent / "programs" / "on_cpu"
MAKE = Path(__file__).parents[3] / "e2e" / "models" / "make.py"


@pytest.fixture(scope="session")
def made(python, tmp_path_factory):
    """The folder with the small model and its data."""
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([python, MAKE, folder], check=True, timeout=300)
    return folder


@pytest.fixture
def tune(nodes, made, tmp_path):
    """Run `tune run`, completed as by Trainer and the strategy, with the config made small."""

    def run(recipe, config, *more, count=1, each=1, model="llama3_2", options=(), **environment):
        output = tmp_path / "output"
        items = [
            f"output_dir={output}",
            f"tokenizer.path={made}/llama/original/tokenizer.model",
            f"checkpointer.checkpoint_dir={made}/llama",
            *small(made, model),
            *more,
        ]
        sizes = {"PET_NNODES": str(count), "PET_NPROC_PER_NODE": str(each), **environment}
        command = ["tune", "run", *options, recipe, "--config", config, *items]
        return nodes(*command, count=count, seconds=300, modules=[ON_CPU], **sizes), output

    return run


def small(made, model):
    """What makes a config of Llama 3.2 one of the small model: the builder under its own, on CPU, without a hub."""
    sizes = {
        "vocab_size": 320, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "embed_dim": 256,
        "intermediate_dim": 512, "max_seq_len": 131072,
    }  # fmt: skip
    return [
        f"model=on_cpu.{model}",
        *(f"model.{name}={value}" for name, value in sizes.items()),
        f"tokenizer.special_tokens_path={made}/llama/tokenizer.json",
        "~checkpointer.checkpoint_files",
        "checkpointer.checkpoint_files=[model.safetensors]",
        "checkpointer.model_type=LLAMA3_2",
        "dataset=torchtune.datasets.chat_dataset",
        "dataset.packed=False",
        "dataset.source=json",
        f"dataset.data_files={made}/data/sft/train.jsonl",
        "dataset.split=train",
        "dataset.conversation_column=messages",
        "dataset.conversation_style=openai",
        "seed=1",
        "device=cpu",
        "dtype=fp32",
        "compile=False",
        "batch_size=4",
        "gradient_accumulation_steps=1",
        "optimizer=torch.optim.AdamW",
        "optimizer.lr=0.003",
        "log_peak_memory_stats=False",
    ]


def losses(output):
    """The loss of each step, as torchtune's DiskLogger writes it: `Step 1 | loss:5.77 lr:0.003 ...`."""
    (log,) = (output / "logs").glob("log_*.txt")
    lines = [line for line in log.read_text().splitlines() if line.startswith("Step ")]
    return [float(line.partition("loss:")[2].split()[0]) for line in lines]
