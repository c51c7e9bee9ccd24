"""TRL's SFTTrainer in a script of one's own: `sft.py STEPS`, on a small model and data made on the spot."""

import subprocess
import sys
import tempfile

import datasets
import trl

with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, "/program/make.py", folder], check=True)
    arguments = trl.SFTConfig(
        output_dir=f"{folder}/out", use_cpu=True, bf16=False, max_steps=int(sys.argv[1]), logging_steps=1,
        per_device_train_batch_size=2, learning_rate=1e-2, max_length=128, save_strategy="no",
    )  # fmt: skip
    rows = datasets.load_dataset("json", data_files=f"{folder}/data/sft/train.jsonl", split="train")
    trl.SFTTrainer(model=f"{folder}/llama", args=arguments, train_dataset=rows).train()
print("finished", flush=True)
