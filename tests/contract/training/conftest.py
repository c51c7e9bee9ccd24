"""The small model and its data, made once, and TRL's arguments for them."""

import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[3] / "e2e" / "models"


@pytest.fixture(scope="session")
def made(python, tmp_path_factory):
    """The folder that e2e/models/make.py has filled."""
    folder = tmp_path_factory.mktemp("made")
    done = subprocess.run(
        [python, MODELS / "make.py", folder], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def arguments(made):
    """What a training of a method needs on a CPU; `output` is in the working folder, which each node has for itself."""

    def of(method, steps, *more):
        return [
            f"--model_name_or_path={made}/llama", f"--dataset_name={made}/data/{method}", "--output_dir=output",
            "--use_cpu", "--bf16=false", "--report_to=none", "--per_device_train_batch_size=4",
            "--learning_rate=3e-3", "--lr_scheduler_type=constant",
            f"--max_steps={steps}", f"--save_steps={steps}", "--logging_steps=1", *more,
        ]  # fmt: skip

    return of
