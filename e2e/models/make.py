"""Makes a small model and data to train it on, on the spot: no hub, no download, the same bytes every time.

    python make.py OUT

The model is Llama 3.2 in small: the same architecture, tied embeddings and scaled rotary positions, but 1.2 million
weights, of chance. Heads are 64 wide, which vLLM's CPU kernels ask for. Its tokenizer knows bytes, so that it needs no
training, and Llama 3's special tokens; it is written twice, for transformers and, as `original/tokenizer.model`, for
torchtune. A few sentences fill each data set, so that a loss falls within some steps.

    OUT/llama         a checkpoint for transformers, TRL, vLLM and torchtune
    OUT/untied        one whose embeddings are not tied, for weights that change while vLLM serves them on CPUs
    OUT/data/METHOD   one JSONL file for each of TRL's methods: `--dataset_name OUT/data/sft`

Runs where torch and transformers are installed.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

SPECIAL = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>",
    "<|python_tag|>", "<|finetune_right_pad_id|>", "<|step_id|>", "<|image|>",
)  # fmt: skip
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    "{{ message['content'] }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
VOCABULARY = 320  # 256 bytes and the special tokens, up to a multiple of 64, as matrices like it
ROWS = 64

Row = dict[str, Any]


def alphabet() -> list[str]:
    """Return the character that stands for each byte in a byte-level vocabulary.

    Source: openai/gpt-2 src/encoder.py, `bytes_to_unicode`: what prints stands for itself, the rest is moved up.
    """
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printing else next(others)) for byte in range(256)]


def tokenizer() -> Any:
    """Return a tokenizer whose tokens are the bytes, 0 to 255, and then the special ones."""
    known = {character: number for number, character in enumerate(alphabet())}
    bytewise = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=known, merges=[]))
    bytewise.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytewise.decoder = tokenizers.decoders.ByteLevel()
    bytewise.add_special_tokens(list(SPECIAL))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytewise,
        bos_token="<|begin_of_text|>",
        eos_token="<|eot_id|>",
        pad_token="<|finetune_right_pad_id|>",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def llama(seed: int, *, tied: bool = True) -> Any:
    """Return a Llama of 1.2 million random weights, or of 1.3 million where the embeddings are not tied."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        tie_word_embeddings=tied,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        bos_token_id=256 + SPECIAL.index("<|begin_of_text|>"),
        eos_token_id=256 + SPECIAL.index("<|eot_id|>"),
        pad_token_id=256 + SPECIAL.index("<|finetune_right_pad_id|>"),
        dtype="float32",
    )
    return transformers.LlamaForCausalLM(config)


def tiktokens() -> str:
    """Return the bytes as torchtune's tokenizer of Llama 3 reads them: base64 and rank, one a line."""
    return "".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256))


def says(role: str, text: str) -> list[Row]:
    """Return a conversation of one message."""
    return [{"role": role, "content": text}]


def rows(seed: int) -> Iterator[tuple[str, Row]]:
    """Yield rows and the methods that they are for: questions with a good answer, the same each time, and a bad one."""
    chance = random.Random(seed)
    animals = ("cat", "dog", "owl", "fox")
    for _ in range(ROWS):
        asked = chance.choice(animals)
        question = f"What does the {asked} say?"
        good, bad = f"The {asked} says hello to you.", f"{chance.randrange(10**9):09d}"
        user, right, wrong = says("user", question), says("assistant", good), says("assistant", bad)
        yield "sft", {"messages": [*user, *right]}
        yield "dpo", {"prompt": user, "chosen": right, "rejected": wrong}
        yield "reward", {"chosen": [*user, *right], "rejected": [*user, *wrong]}
        yield "kto", {"prompt": user, "completion": right, "label": True}
        yield "kto", {"prompt": user, "completion": wrong, "label": False}
        yield "grpo", {"prompt": user}


def main() -> None:
    """Write the model, its tokenizer and the data sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    for name, tied in (("llama", True), ("untied", False)):
        llama(options.seed, tied=tied).save_pretrained(options.out / name)
        tokenizer().save_pretrained(options.out / name)
    original = options.out / "llama" / "original"
    original.mkdir(exist_ok=True)
    (original / "tokenizer.model").write_text(tiktokens())
    texts: dict[str, list[str]] = {}
    for method, row in rows(options.seed):
        texts.setdefault(method, []).append(json.dumps(row))
    for method, lines in texts.items():
        (options.out / "data" / method).mkdir(parents=True, exist_ok=True)
        (options.out / "data" / method / "train.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
