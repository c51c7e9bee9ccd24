"""The builder of a model whose recipe runs on CPUs.

torchtune 0.6.1's distributed recipes ask for the memory of a GPU and empty its cache whatever the config says. A recipe
makes its model, on every rank, before it does.
"""

from torchtune import training
from torchtune.models.llama3_2 import llama3_2, lora_llama3_2

__all__ = ["llama3_2", "lora_llama3_2"]


def _nothing(*_args, **_more):
    return {}


training.cleanup_before_training = _nothing
training.get_memory_stats = training.log_memory_stats = _nothing
