"""Prints how far attention without kernels is from float64, and packed samples from each alone, as JSON."""

import json
import math
import sys

import numpy as np
import torch
import transformers
from trl.experimental.async_grpo import packing

from muster_rollouts.switches import attend, without_kernels


def dense(query, key, value, scale, window):
    """One segment in float64: query [n, H, D], key and value [m, G, D]."""
    shares = query.shape[1] // key.shape[1]
    key, value = (states.double().repeat_interleave(shares, dim=1) for states in (key, value))
    scores = torch.einsum("nhd,mhd->hnm", query.double(), key) * scale
    for row in range(len(query)):
        at = len(key) - len(query) + row
        scores[:, row, at + 1 :] = -math.inf
        if window >= 0:
            scores[:, row, : max(0, at - window)] = -math.inf
    return torch.einsum("hnm,mhd->nhd", scores.softmax(-1), value)


def kernels(window):
    chance = torch.Generator().manual_seed(0)
    queries, keys = [5, 1, 3], [5, 9, 7]
    query = torch.randn(sum(queries), 4, 8, generator=chance)
    key, value = (torch.randn(sum(keys), 2, 8, generator=chance) for _ in range(2))
    starts = [torch.tensor([0, *np.cumsum(sizes)], dtype=torch.int32) for sizes in (queries, keys)]
    ours = attend(query, key, value, *starts, 5, 9, softmax_scale=0.3, window_size=(window, 0 if window >= 0 else -1))
    parts = zip(query.split(queries), key.split(keys), value.split(keys), strict=True)
    return float((ours - torch.cat([dense(*part, 0.3, window) for part in parts])).abs().max())


def packed():
    """The real packing of TRL, on a real Llama: two samples with one prompt, against each alone."""
    without_kernels()
    packing.register_tree_attention()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    texts = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 9, 8]]
    row = packing.TreeRow()
    for text in texts:
        ids = np.asarray(text)
        row.add(
            {
                "input_ids": ids,
                "completion_mask": np.ones_like(ids),
                "old_log_probs": ids * 0.0,
                "advantage": 0.0,
                "group_id": 0,
            }
        )
    laid = row.pack()
    with torch.no_grad():
        alone = [model(torch.tensor([text])).logits[0] for text in texts]
        model.set_attn_implementation(packing.TREE_ATTENTION)
        together = model(
            laid["input_ids"][None],
            position_ids=laid["position_ids"][None],
            tree_kv_index=laid["tree_kv_index"],
            tree_cu_seqlens_q=laid["tree_cu_seqlens_q"],
            tree_cu_seqlens_k=laid["tree_cu_seqlens_k"],
            tree_max_seqlen_q=int(laid["tree_max_seqlens"][0]),
            tree_max_seqlen_k=int(laid["tree_max_seqlens"][1]),
        ).logits[0]
    at, found = iter(laid["token_index"].tolist()), []
    for logits, text in zip(alone, texts, strict=True):
        found += [float((together[next(at)] - logits[place]).abs().max()) for place in range(len(text) - 1)]
    return max(found)


def refusals():
    empty = torch.zeros(1, 1, 1)
    starts = torch.tensor([0, 1])
    for named in ({"causal": False}, {"softcap": 1.0}, {"window_size": (3, 3)}):
        try:
            attend(empty, empty, empty, starts, starts, 1, 1, **named)
        except ValueError as error:
            yield str(error)


torch.set_num_threads(1)
json.dump({"kernels": kernels(-1), "window": kernels(2), "packed": packed(), "refusals": list(refusals())}, sys.stdout)
