"""What a misspelt name means is found as difflib finds it, without comparing all names."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.launches.guesses import Guesses

WORDS = st.text("abcd_", max_size=9)


@given(st.lists(WORDS, max_size=12), WORDS, st.sampled_from([0.5, 0.6, 0.75, 0.9]))
def test_the_guess_is_that_of_difflib(names, word, cutoff):
    found = difflib.get_close_matches(word, sorted(names), 1, cutoff)
    assert Guesses(names, cutoff).closest(word) == (found[0] if found else None)


def test_names_that_cannot_be_close_are_not_compared(monkeypatch):
    compared = []
    real = difflib.get_close_matches
    monkeypatch.setattr(
        difflib, "get_close_matches", lambda word, near, *more: compared.extend(near) or real(word, near, *more)
    )
    assert (
        Guesses([*(f"z{number}" for number in range(500)), "learning_rate"], 0.75).closest("learning_rat")
        == "learning_rate"
    )
    assert compared == ["learning_rate"]
