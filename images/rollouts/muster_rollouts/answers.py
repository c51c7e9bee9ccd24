"""Questions with an answer that can be compared: prompts, and the reward for the answer that stands behind a mark.

GSM8K is such a data set: its column `answer` ends with `#### 2,125`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow
from pyarrow import compute

__all__ = ["NUMBER", "SYSTEM", "AnswerReward", "prompt_of"]

SYSTEM = (
    "You are a helpful math assistant. Solve the following problem step by step. "
    "End with '#### <answer>' where <answer> is just the number."
)
NUMBER = r"####\s*(?P<answer>[-+]?\$?[0-9][0-9,]*(?:\.[0-9]+)?)"
_CURE = "write a regular expression of RE2 with (?P<answer>...) in it, and (?:...) for other groups"
_LONGEST = 100  # characters of an answer that is compared as a number


@dataclass(frozen=True, slots=True)
class AnswerReward:
    """A reward function of TRL's, which goes to the worker's process: it gives one value to right answers.

    Args:
        pattern: a regular expression in the syntax of RE2, whose group `answer` is the answer; RE2 takes time that is
            linear in the text. The first match of a text counts.
        column: of the data set, which holds the right answer behind the same mark, or alone.
        right: the reward of a right answer.
        wrong: the reward of another one, and of none.

    Raises:
        ValueError: the pattern is none, or has no group `answer`.
    """

    pattern: str = NUMBER
    column: str = "answer"
    right: float = 1.0
    wrong: float = -0.2

    def __post_init__(self) -> None:
        self.found(["check"])

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float]:
        """Return a reward for each completion.

        Args:
            completions: texts, or conversations whose last message counts.
            columns: those of the data set, each with a value for each completion.

        Raises:
            ValueError: the data set has no such column.
        """
        if self.column not in columns:
            raise ValueError(f"answer_column: the data set has no column {self.column!r}; its are {sorted(columns)}")
        given = self.found([_text(each) for each in completions])
        wanted = [str(each) for each in columns[self.column]]
        marked = self.found(wanted)
        return [
            self.right if answer is not None and _same(answer, one if one is not None else other) else self.wrong
            for answer, one, other in zip(given, marked, wanted, strict=True)
        ]

    def found(self, texts: Sequence[str]) -> list[str | None]:
        """Return the answer in each text, None where there is none. Raises `ValueError` for a pattern that is none."""
        try:
            every = compute.extract_regex(pyarrow.array(texts, pyarrow.string()), pattern=self.pattern)
        except pyarrow.ArrowInvalid as fault:
            raise ValueError(f"answer_pattern: {self.pattern[:200]!r}: {str(fault)[:200]}: {_CURE}") from fault
        if every.type.get_field_index("answer") < 0:
            raise ValueError(f"answer_pattern: {self.pattern[:200]!r} has no group `answer`: {_CURE}")
        return [None if each is None else each["answer"] for each in every.to_pylist()]


def prompt_of(row: Mapping[str, Any], question: str, system: str) -> list[dict[str, str]]:
    """Return the conversation that asks a question.

    Args:
        row: of the data set.
        question: the column of the question; a column `prompt` stands before it.
        system: what is said before; "" for nothing.
    """
    given = row.get("prompt", row.get(question))
    said = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or ())
    return [{"role": "system", "content": system}, *said] if system else said


def _text(completion: Any) -> str:
    return completion if isinstance(completion, str) else str(completion[-1].get("content") or "")


def _same(one: str, other: str) -> bool:
    numbers = [_number(each) for each in (one, other)]
    return numbers[0] == numbers[1] if None not in numbers else one.strip() == other.strip()


def _number(text: str) -> Decimal | None:
    if len(text) > _LONGEST:
        return None
    try:
        return Decimal(text.strip().replace(",", "").replace("$", ""))
    except InvalidOperation:
        return None
