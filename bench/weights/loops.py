"""Steps a second, synchronous against asynchronous, with a sampler that is made slow without work for a core.

Both are `muster_rollouts.train` with adapters: with a staleness of 0 the trainer waits for each of its samples, and
nothing is generated while it trains. What both roles work for a step is told too: where a step takes as long as the
cores need for that, no staleness makes it shorter. BENCH_SLOW says by how many seconds, BENCH_STEPS how many steps.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import figures
from bench.weights import models, samplers

__all__ = ["run"]

_STEPS, _FIRST = "24", 4
_SLOW = "2"
_STALENESS = (0, 1, 3)
_BATCH = 8
_REWARDS = Path(__file__).parents[2] / "e2e" / "models"


def run() -> None:
    """Print the steps a second and the samples that were thrown away, for some values of max_staleness."""
    slow = float(os.environ.get("BENCH_SLOW", _SLOW))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        models.made(folder / "model", 5)
        (folder / "data").mkdir()
        row = json.dumps({"prompt": [{"role": "user", "content": "What does the cat say?"}]})
        (folder / "data" / "train.jsonl").write_text(f"{row}\n" * 64)
        known, flags = samplers.environment(folder), ("--max-loras", str(max(_STALENESS) + 2), "--max-lora-rank", "16")
        with (
            samplers.serving(folder / "model", known, folder / "log", "--enable-lora", *flags) as server,
            samplers.slowed(server.url, slow) as behind,
        ):
            print(f"sampler with {slow:g} s more for each completion, {_steps()} steps of {_BATCH} samples")
            for staleness in _STALENESS:
                _trained(folder, known, behind, staleness, server)


def _steps() -> int:
    return int(os.environ.get("BENCH_STEPS", _STEPS))


def _trained(folder: Path, known: dict[str, str], url: str, staleness: int, server: samplers.Serving) -> None:
    training = subprocess.Popen(  # noqa: S603  # our own program
        [
            sys.executable, "-m", "muster_rollouts.train", f"--model_name_or_path={folder}/model",
            f"--dataset_name={folder}/data", f"--output_dir={folder}/out", f"--max_staleness={staleness}",
            f"--vllm_server_base_url={url}", "--use_cpu", "--bf16=false", "--report_to=none", "--save_strategy=no",
            "--gradient_checkpointing=false", "--reward_funcs=rewards.small_letters", "--use_peft", "--lora_r=16",
            "--without_kernels", "--token_budget=0", f"--per_device_train_batch_size={_BATCH}",
            f"--num_generations={_BATCH}", "--max_completion_length=16", f"--max_steps={_steps()}", "--logging_steps=1",
        ],
        env=known | {"PYTHONPATH": os.pathsep.join([known["PYTHONPATH"], str(_REWARDS)])},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert training.stdout is not None
    lines, taken, work = [], [], [0.0, 0.0]
    for line in training.stdout:
        lines.append(line)
        taken += [float(each) for each in re.findall(r"'perf/step_s': '?([0-9.e+-]+)", line)]
        if len(taken) in (_FIRST, _steps()) and "perf/step_s" in line:
            now = [samplers.worked(each) for each in (training.pid, server.session)]
            work = [after - before for after, before in zip(now, work, strict=True)]
    text = "".join(lines)
    if training.wait():
        raise RuntimeError(f"the training ended with {training.returncode}: {text[-2000:]}")
    (told,) = (json.loads(each) for each in re.findall(r"^muster: (\{.*\})$", text, re.MULTILINE))
    taken = taken[_FIRST:]
    rate, kept = len(taken) / sum(taken), f"{told['dropped']} of {told['samples'] + told['dropped']} thrown away"
    both = " and ".join(f"{each / len(taken):.2f}" for each in work)
    print(f"max_staleness {staleness}: {rate:.2f} steps/s, a step {figures.rounds(taken)} s, {kept};", flush=True)
    print(f"    for a step, trainer and sampler have a core for {both} s", flush=True)
