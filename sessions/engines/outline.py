"""A base model without its weights: what adapters fit it, and how long a prompt may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from muster.sessions.engines.base import Base

__all__ = ["Outline"]


class Outline(Base):
    """The shapes of a base model, for an engine that holds its weights itself.

    Attributes:
        generation: which tokens end a text, as its `eos_token_id`.

    Args:
        folder: of the base model, as `from_pretrained` reads it.
    """

    def __init__(self, folder: Path) -> None:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        self._take(folder, model, "cpu")
        has = (folder / "generation_config.json").is_file()
        self.generation: Any = transformers.GenerationConfig.from_pretrained(folder) if has else config
