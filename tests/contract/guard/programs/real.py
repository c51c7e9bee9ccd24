"""Trainings as users of transformers, accelerate, peft and torch write them: `real.py WAY MODELS`."""

import json
import os
import sys
from pathlib import Path

import peft
import torch
import torch.distributed as dist
import transformers
from accelerate import Accelerator
from safetensors.torch import save_file
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

sys.modules["torchao"] = None  # peft refuses the version that torchtune pins, though it needs none here
STEPS = 4
FOLDER = Path(sys.argv[2])


def examples():
    """Sentences as numbers of tokens, all of one length."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER / "llama")
    lines = (FOLDER / "data" / "sft" / "train.jsonl").read_text().splitlines()
    texts = ["".join(message["content"] for message in json.loads(line)["messages"]) for line in lines]
    return [{"input_ids": each, "labels": each} for each in (tokenizer(text).input_ids[:32] for text in texts)]


def llama():
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER / "llama")


def trainer(model, **more):
    """Train by transformers' Trainer."""
    arguments = transformers.TrainingArguments(
        "output", max_steps=STEPS, per_device_train_batch_size=4, use_cpu=True, report_to="none", logging_steps=1,
        save_steps=STEPS, seed=7, disable_tqdm=True, **more,
    )  # fmt: skip
    transformers.Trainer(model, arguments, train_dataset=examples()).train()


def by_hand(model, *, step=None, optimizer=None):
    """Train with dropout of its own chance, and save."""
    torch.manual_seed(7)
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    optimizer = optimizer or torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)
    rows = torch.tensor([each["input_ids"] for each in examples()])[rank::size]
    dropout = torch.nn.Dropout(0.1)
    for number in range(STEPS):
        batch = rows[4 * number : 4 * number + 4]
        loss = model(input_ids=batch, labels=batch).loss + dropout(torch.ones(8)).mean()
        (step or torch.Tensor.backward)(loss)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"{number} {loss.item()!r}", flush=True)
    state = {name: getattr(each, "full_tensor", lambda each=each: each)() for name, each in model.state_dict().items()}
    if rank == 0:
        Path("output").mkdir()
        save_file({name: each.clone() for name, each in state.items()}, "output/model.safetensors")


def adapted(config):
    return peft.get_peft_model(llama(), config)


def accelerated(**more):
    accelerator = Accelerator(cpu=True, **more)
    own = llama()
    model, optimizer = accelerator.prepare(own, torch.optim.SGD(own.parameters(), lr=0.1, momentum=0.9))
    by_hand(model, step=accelerator.backward, optimizer=optimizer)


def grouped(wrap):
    dist.init_process_group("gloo")
    by_hand(wrap(llama()))
    dist.barrier()
    dist.destroy_process_group()


LORA = peft.LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)
WAYS = {
    "trainer": lambda: trainer(llama()),
    "trainer-adafactor": lambda: trainer(llama(), optim="adafactor", gradient_accumulation_steps=2),
    "trainer-peft": lambda: trainer(adapted(LORA)),
    "accelerate": accelerated,
    "accelerate-accumulated": lambda: accelerated(gradient_accumulation_steps=2),
    "peft-lora": lambda: by_hand(adapted(LORA)),
    "peft-ia3": lambda: by_hand(
        adapted(
            peft.IA3Config(
                task_type="CAUSAL_LM", target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]
            )
        )
    ),
    "ddp": lambda: grouped(DistributedDataParallel),
    "fsdp": lambda: grouped(fully_shard),
}

if __name__ == "__main__":
    transformers.set_seed(int(os.environ.get("RANK", "0")))
    WAYS[sys.argv[1]]()
