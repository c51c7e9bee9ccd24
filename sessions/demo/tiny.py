"""A language model made on the spot: a random Llama of some 100 thousand parameters with a tokenizer of characters."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

__all__ = ["make"]

_SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
_CHARACTERS = ["\n", " ", *string.digits, *string.ascii_letters, *string.punctuation]


def make(folder: Path, *, layers: int = 2, hidden: int = 64, context: int = 1024, seed: int = 0) -> Path:
    """Write a model and its tokenizer as `from_pretrained` reads them, and return the folder.

    Args:
        folder: to write into; it is made when it is missing.
        layers: of the decoder.
        hidden: size of the hidden states, divisible by 4.
        context: the longest sequence, in tokens.
        seed: of the weights.
    """
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        LlamaForCausalLM(_config(len(tokenizer), layers, hidden, context)).save_pretrained(folder)
    return folder


def _config(vocabulary: int, layers: int, hidden: int, context: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )


def _tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: number for number, token in enumerate([*_SPECIAL, *_CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106 - a token of text
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",  # noqa: S106 - a token of text
        unk_token="<unk>",  # noqa: S106 - a token of text
        bos_token="<s>",  # noqa: S106 - a token of text
        eos_token="</s>",  # noqa: S106 - a token of text
    )
