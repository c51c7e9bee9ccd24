"""Loads checkpoints as anybody would, and prints of each its class and how far it is from the model it began as."""

import json
import sys

import torch
import transformers

AUTOS = {
    "LlamaForCausalLM": transformers.AutoModelForCausalLM,
    "LlamaForSequenceClassification": transformers.AutoModelForSequenceClassification,
}


def weights(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    model = AUTOS[config.architectures[0]].from_pretrained(folder)
    return type(model).__name__, model.base_model.state_dict()


def main(begun, *folders):
    _, first = weights(begun)
    found = {}
    for folder in folders:
        name, last = weights(folder)
        moved = sum((last[each].float() - first[each]).square().sum() for each in first).sqrt()
        words = transformers.AutoTokenizer.from_pretrained(folder)("hello").input_ids
        found[folder] = {"class": name, "moved": float(moved), "finite": bool(torch.isfinite(moved)), "words": words}
    print(json.dumps(found))


main(*sys.argv[1:])
