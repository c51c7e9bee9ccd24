"""A reward for GRPO, by TRL's command line: `--reward_funcs rewards.small_letters`, with this folder on PYTHONPATH."""

from __future__ import annotations

from typing import Any

__all__ = ["small_letters"]


def small_letters(completions: list[Any], **_: Any) -> list[float]:
    """Return for each completion the share of its characters that are small letters: a model learns that at once.

    Args:
        completions: texts, or conversations whose last message is the text.
    """
    texts = [each if isinstance(each, str) else each[-1]["content"] for each in completions]
    return [sum("a" <= letter <= "z" for letter in text) / max(1, len(text)) for text in texts]
