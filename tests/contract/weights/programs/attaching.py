"""`attaching.py`: what a transfer of adapters refuses, and what becomes of the model that it sends; prints JSON."""

import json
import os
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from peft import LoraConfig, get_peft_model

from muster_weights.refusals import Refused
from muster_weights.trainer.transfers import AdapterTransfer

os.environ["MUSTER_WEIGHTS_FOLDER"] = "/shared"
torch.manual_seed(0)


def model(**lora: Any) -> Any:
    """A model with an adapter that changes it; without one where nothing is said of it."""
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
    )
    made = transformers.LlamaForCausalLM(config)
    if not lora:
        return made
    made = get_peft_model(made, LoraConfig(**{"r": 4, "target_modules": ["q_proj", "v_proj"], **lora}))
    with torch.no_grad():
        for name, each in made.named_parameters():
            each.add_(torch.randn_like(each) * 0.1 if "lora_" in name else 0)
    return made


def trainer(found: Any, kind: str = "NO") -> Any:
    accelerator = SimpleNamespace(distributed_type=kind, unwrap_model=lambda each: each)
    return SimpleNamespace(accelerator=accelerator, model=found)


def refusal(made: Any) -> str:
    try:
        with AdapterTransfer("http://nowhere", max_staleness=1).attached(made):
            return ""
    except Refused as reason:
        return str(reason)


def weights(found: Any) -> list[torch.Tensor]:
    return [each.clone() for name, each in found.named_parameters() if "lora_" not in name]


def synced(found: Any, times: int = 20) -> float:
    """The largest change of the model by as many transfers, as TRL makes them."""
    before = weights(found)
    for _ in range(times):
        found.merge_adapter()
        found.unmerge_adapter()
    return max(float((one - other).abs().max()) for one, other in zip(before, weights(found), strict=True))


attached = model(r=4)
with AdapterTransfer("http://nowhere", max_staleness=1).attached(trainer(attached)):
    inside = synced(attached)
found = {
    "attached": inside,
    "afterwards": synced(attached),
    "refusals": {
        "right": refusal(trainer(model(r=4))),
        "none": refusal(trainer(model())),
        "rank_pattern": refusal(trainer(model(rank_pattern={"q_proj": 8}))),
        "alpha_pattern": refusal(trainer(model(alpha_pattern={"q_proj": 8}))),
        "lora_dropout": refusal(trainer(model(lora_dropout=0.1))),
        "sharded": refusal(trainer(model(r=4), "DistributedType.FSDP")),
    },
}
print(json.dumps(found))
