"""Flags of `vllm serve` that Muster reads or writes (vLLM 0.19 to 0.33, `vllm/engine/arg_utils.py`).

Only these are known; any other flag is the user's and is passed over. Unlike torchrun's, vLLM's flags are case and
dash sensitive, except that `_` may stand for `-`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Serve", "read"]

_SHORT = {"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size"}


@dataclass(frozen=True, slots=True)
class Serve:
    """What a `vllm serve` command line says.

    Attributes:
        model: path or name of the model, None when none is written.
        values: by flag name without dashes; "" for a flag without a value.
    """

    model: str | None
    values: dict[str, str]

    def number(self, flag: str) -> int:
        """Return an integer flag, 1 when it is missing or not a number."""
        text = self.values.get(flag, "1")
        return int(text) if text.isdecimal() else 1

    def has(self, flag: str) -> bool:
        """Whether the flag was written."""
        return flag in self.values


def read(args: Sequence[str]) -> Serve:
    """Read the words after `vllm serve`."""
    values: dict[str, str] = {}
    position, model = 0, None
    if args and not args[0].startswith("-"):
        position, model = 1, args[0]
    while position < len(args):
        word = args[position]
        position += 1
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name.lstrip("-").replace("_", "-"))
        if not equals and position < len(args) and not args[position].startswith("-"):
            value = args[position]
        values[name] = value
    return Serve(model or values.get("model"), values)
