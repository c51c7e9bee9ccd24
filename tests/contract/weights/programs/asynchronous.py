"""`asynchronous.py URL MODEL STEPS OUT`: TRL's AsyncGRPOTrainer on the toy task; prints what it logged.

Two things of TRL need a GPU and are replaced: its attention kernel, by torch's own attention, and the peak FLOPS of a
device, by none. Nothing of the weights is.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from datasets import Dataset
from rewards import small_letters
from trl import chat_template_utils
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer, packing


def varlen(query: Any, key: Any, value: Any, *cumulated: Any, softmax_scale: float, **_: Any) -> torch.Tensor:
    """Attend as flash_attn_varlen_func does: causal, aligned at the end of keys, segment by segment."""
    begins, ends = cumulated[0].tolist(), cumulated[1].tolist()
    found = []
    for number in range(len(begins) - 1):
        q = query[begins[number] : begins[number + 1]].transpose(0, 1)
        k, v = (each[ends[number] : ends[number + 1]].transpose(0, 1) for each in (key, value))
        repeats = q.shape[0] // k.shape[0]
        k, v = (each.repeat_interleave(repeats, 0) for each in (k, v))
        mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        found.append(torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=softmax_scale))
    return torch.cat([each.transpose(0, 1) for each in found])


def main() -> None:
    url, model, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=varlen)
    async_grpo_trainer.get_peak_flops_per_device = lambda *_: None
    config = AsyncGRPOConfig(
        output_dir=sys.argv[4], use_cpu=True, bf16=False, dtype="float32", report_to="none", max_steps=steps,
        per_device_train_batch_size=8, learning_rate=3e-3, lr_scheduler_type="constant", logging_steps=1,
        save_strategy="no", num_generations=8, max_completion_length=16, vllm_server_base_url=url, max_staleness=1,
        queue_maxsize=16, max_inflight_tasks=8, weight_sync_steps=1, gradient_checkpointing=False, seed=0,
    )  # fmt: skip
    rows = [{"prompt": [{"role": "user", "content": f"What does the {each} say?"}]} for each in ("cat", "dog") * 64]
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = chat_template_utils.qwen2_5_chat_template  # TRL's worker asks for one that it knows
    trainer = AsyncGRPOTrainer(
        model=model, args=config, train_dataset=Dataset.from_list(rows), reward_funcs=small_letters,
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    kept = {name: [row[name] for row in trainer.state.log_history if name in row] for name in ("ratio", "reward")}
    print(
        "\n" + json.dumps({"last": trainer.muster_probe.last, "steps": trainer.state.global_step, **kept}), flush=True
    )


if __name__ == "__main__":
    main()
