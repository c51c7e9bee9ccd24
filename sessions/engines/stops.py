"""Where a sequence ends: at a token, or as soon as its text holds a stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.sessions.refusals import Refused

__all__ = ["Stops", "ends_of"]

_MOST = 64
_LONGEST = 1024
_LEAD = 4
"""Tokens read before those that can hold a stop: a decoder may treat the first of a text in its own way."""


class Stops:
    """The stops of one request.

    Args:
        stop: texts or token ids; None is the end of the tokenizer, empty is none.
        ends: token ids that end a sequence when `stop` is None.
        tokenizer: of the model.

    Raises:
        Refused: for stops that cannot be looked for.
    """

    def __init__(self, stop: Sequence[str] | Sequence[int] | None, ends: frozenset[int], tokenizer: Any) -> None:
        given: list[str | int] = [stop] if isinstance(stop, str) else list(stop or ())
        if len(given) > _MOST or any(isinstance(each, str) and not 0 < len(each) <= _LONGEST for each in given):
            raise Refused(f"sampling_params.stop: pass at most {_MOST} stops of 1 to {_LONGEST} characters")
        self._ids = ends if stop is None else frozenset(each for each in given if not isinstance(each, str))
        self._texts = tuple(each for each in given if isinstance(each, str))
        self._window = max((len(each.encode()) for each in self._texts), default=0) + _LEAD
        self._tokenizer = tokenizer

    @property
    def ids(self) -> frozenset[int]:
        """The tokens that end it."""
        return self._ids

    @property
    def has_texts(self) -> bool:
        """Whether its text must be looked at after each token."""
        return bool(self._texts)

    def reached(self, tokens: Sequence[int]) -> bool:
        """Return whether the last of these tokens ends the sequence."""
        if tokens[-1] in self._ids:
            return True
        if not self._texts:
            return False
        text = self._tokenizer.decode(tokens[-self._window :], clean_up_tokenization_spaces=False)
        return any(each in text for each in self._texts)


def ends_of(config: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end a text: those of a model's generation config, and the tokenizer's."""
    given = config.eos_token_id if config is not None else None
    ids = given if isinstance(given, list) else [given]
    return frozenset(each for each in [*ids, tokenizer.eos_token_id] if each is not None)
