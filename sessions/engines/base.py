"""The base model that all models of an engine share; its weights never change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from muster.sessions.refusals import Refused

__all__ = ["Base", "prepare"]


class Base:
    """A causal language model of a folder, with frozen weights.

    Attributes:
        name: of the folder.
        model: in evaluation mode, so without dropout.
        context: the longest sequence, in tokens.
        vocabulary: how many tokens there are.
        device: where it computes.

    Raises:
        Refused: for a device that is not there.
    """

    def __init__(self, folder: Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        _reach(device)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
        self._take(folder, model.requires_grad_(False).eval().to(device), device)

    def _take(self, folder: Path, model: Any, device: str) -> None:
        self.name = folder.name
        self.device = torch.device(device)
        self.model = model
        text = self.model.config.get_text_config()
        self.context: int = text.max_position_embeddings
        self.vocabulary: int = text.vocab_size


def prepare(folder: Path) -> None:
    """Import what a model of this kind needs, which transformers does when it first makes one."""
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    with torch.device("meta"):
        transformers.AutoModelForCausalLM.from_config(config)


def _reach(device: str) -> None:
    """Raise `Refused` for a device that is not there, before a model is read for it."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as fault:
        why = str(fault).partition("\n")[0].rstrip(".")
        raise Refused(f"device: {device}: {why}: pass cpu, or cuda where PyTorch sees a GPU") from fault
