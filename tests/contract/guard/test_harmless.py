"""Programs of the installed libraries train the same weights and say the same with the guard and without it."""

import hashlib
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from e2e.suites.support import thorough
from tests.contract.engines.conftest import ON_CPU, small
from tests.contract.forks import Forks
from tests.contract.nodes import GUARD

HERE = Path(__file__).parent
MODELS = HERE.parents[2] / "e2e" / "models"
TRL = (
    "--model_name_or_path={made}/llama --output_dir=output --use_cpu --bf16=false --report_to=none --disable_tqdm=true"
    " --per_device_train_batch_size=4 --max_steps=4 --save_steps=4 --logging_steps=1 --seed=7"
)
REWARDED = "--reward_funcs=rewards.small_letters --num_generations=4 --max_completion_length=8"
MORE = "--gradient_accumulation_steps=2 --optim=adafactor"
TUNE = "output_dir=output checkpointer.checkpoint_dir={made}/llama tokenizer.path={made}/llama/original/tokenizer.model"
LORA = "model.lora_attn_modules=[q_proj,v_proj] model.lora_rank=8 model.lora_alpha=16 lr_scheduler.num_warmup_steps=1"
TWO = "torchrun --nproc_per_node=2 --master_port={port} -m real"
TWO_OF_TUNE = "tune run --nproc_per_node=2 --master_port={port}"
PROGRAMS = {
    "TRL sft": f"python -m trl.scripts.sft {TRL} --dataset_name={{made}}/data/sft",
    "TRL sft, Adafactor, accumulated": f"python -m trl.scripts.sft {TRL} {MORE} --dataset_name={{made}}/data/sft",
    "TRL dpo": f"python -m trl.scripts.dpo {TRL} --dataset_name={{made}}/data/dpo",
    "TRL kto": f"python -m trl.scripts.kto {TRL} --dataset_name={{made}}/data/kto",
    "TRL reward": f"python -m trl.scripts.reward {TRL} --dataset_name={{made}}/data/reward",
    "TRL grpo": f"python -m trl.scripts.grpo {TRL} {REWARDED} --dataset_name={{made}}/data/grpo",
    "TRL rloo": f"python -m trl.scripts.rloo {TRL} {REWARDED} --dataset_name={{made}}/data/grpo",
    "torchtune, whole model": f"tune run full_finetune_single_device --config llama3_2/1B_full_single_device {TUNE}"
    " optimizer_in_bwd=False {small}",
    "torchtune, adapters": "tune run lora_finetune_single_device --config llama3_2/1B_lora_single_device"
    f" {TUNE} {{lora}} {LORA}",
    "torchtune, two ranks": f"{TWO_OF_TUNE} full_finetune_distributed --config llama3_2/1B_full {TUNE} {{small}}",
    "Trainer": "python -m real trainer {made}",
    "Trainer, Adafactor, accumulated": "python -m real trainer-adafactor {made}",
    "Trainer, adapters": "python -m real trainer-peft {made}",
    "Trainer, two ranks": f"{TWO} trainer {{made}}",
    "accelerate": "python -m real accelerate {made}",
    "accelerate, two ranks, accumulated": f"{TWO} accelerate-accumulated {{made}}",
    "peft LoRA": "python -m real peft-lora {made}",
    "peft IA3": "python -m real peft-ia3 {made}",
    "DDP": f"{TWO} ddp {{made}}",
    "FSDP": f"{TWO} fsdp {{made}}",
}
# What two runs of one program say differently: times, rates of them, and a name by the time.
TIMES = re.compile(
    r"('?\w*(?:runtime|per_second|_time)'?[:=] ?)'?[\d.e+-]+'?|\d\d:\d\d:\d\d|\b\d+(?:\.\d+)? ?(?:secs|seconds|s)\b"
    r"|log_\d+\.txt"
)


@pytest.fixture(scope="module")
def made(python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([python, MODELS / "make.py", folder], check=True, timeout=300, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def servers(python, tmp_path_factory):
    """A fork server without the guard and one with it."""
    modules = (
        "trl.cli.main",
        "trl.scripts.sft",
        "torch._dynamo",
        "torch.distributed.fsdp",
        "torchtune._cli.tune",
        "peft",
    )
    found = [Forks(python, tmp_path_factory.mktemp("f"), *modules, guard=guard) for guard in ((), (GUARD,))]
    yield found
    for each in found:
        each.close()


@pytest.mark.parametrize("program", thorough.but_named("TRL sft", "torchtune, adapters", "DDP", of=PROGRAMS))
def test_weights_output_and_exit_code_are_those_without_the_guard(servers, made, tmp_path, program):
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    words = program.format(
        made=made, port=port, small=" ".join(small(made, "llama3_2")), lora=" ".join(small(made, "lora_llama3_2"))
    ).split()

    bare, guarded = (ran(each, words, tmp_path) for each in servers)

    assert bare.returncode == 0, bare.stderr
    assert bare.weights
    assert guarded.weights == bare.weights, guarded.stderr
    assert guarded.returncode == bare.returncode
    assert guarded.stdout == bare.stdout
    assert '"schema":"muster.dev/training/v1"' in guarded.stderr
    assert '"schema"' not in bare.stderr


def ran(server, words, place):
    """Run a program in the same folder as the other, and take its weights away."""
    folder = place / "run"
    folder.mkdir()
    known = {
        **server.env, "PYTHONPATH": ":".join(map(str, (HERE / "programs", MODELS, ON_CPU))), "HOME": str(folder),
        "TMPDIR": str(place), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        "HF_DATASETS_CACHE": str(place / "datasets"), "FREE_PORT": "0", "PYTHONHASHSEED": "0", "COLUMNS": "200",
    }  # fmt: skip
    done = subprocess.run(words, env=known, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    done.stdout = TIMES.sub(r"\1", done.stdout)
    done.weights = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.safetensors"))
    }
    shutil.rmtree(folder)
    return done
