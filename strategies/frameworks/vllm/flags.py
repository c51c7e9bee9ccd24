"""Flags of `vllm serve` that Muster reads or writes (vLLM 0.19 to 0.33, `vllm/engine/arg_utils.py`).

Any other flag is the user's and is ignored here. Unlike torchrun's, vLLM's flags are sensitive to case and to the
number of leading dashes; `_` may stand for `-`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Serve", "read"]

_SHORT = {"-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size"}
_SWITCHES = ("--enable-", "--disable-", "--enforce-", "--no-", "--trust-", "--headless", "--async-", "--skip-")
_SPREAD = frozenset(
    {
        "data-parallel-address",
        "data-parallel-rank",
        "data-parallel-size-local",
        "data-parallel-start-rank",
        "headless",
        "nnodes",
        "node-rank",
    }
)


@dataclass(frozen=True, slots=True)
class Serve:
    """The parsed command line of `vllm serve`.

    Attributes:
        model: path or name of the model, None when the command line has none.
        values: values by flag name without leading dashes; "" for a flag without a value.
    """

    model: str | None
    values: dict[str, str]

    @property
    def open(self) -> bool:
        """Whether a file may hold any of the flags (`--config`); flags on the command line would override it."""
        return "config" in self.values

    @property
    def spread(self) -> bool:
        """Whether one engine may span several pods, so that one pod does not show its size or its health."""
        return bool(_SPREAD & set(self.values)) or self.values.get("distributed-executor-backend") == "ray"

    def number(self, flag: str) -> int | None:
        """Return an integer flag, 1 when it is missing, None when admission cannot see it (`$(NAME)`)."""
        text = self.values.get(flag, "1")
        return int(text) if text.isdecimal() else None

    def has(self, flag: str) -> bool:
        """Whether the command line has the flag or its `no-` form."""
        return flag in self.values or f"no-{flag}" in self.values


def read(args: Sequence[str]) -> Serve:
    """Read the words after `vllm serve`. The model may come first, or after the flags."""
    values: dict[str, str] = {}
    model: str | None = None
    before = "--no-"
    for word in args:
        if word.startswith("-"):
            name, _, value = word.partition("=")
            name = _SHORT.get(name, name.lstrip("-").replace("_", "-"))
            values[name] = value
        elif before.startswith(_SWITCHES) or not before.startswith("-") or "=" in before:
            model = model or word
        else:
            values[name] = word
        before = word
    return Serve(model or values.get("model"), values)
