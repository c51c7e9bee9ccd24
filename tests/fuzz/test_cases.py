"""2,000 cases, the same in each run: `make fuzz` runs as many others as one has time for."""

from __future__ import annotations

import pytest

from tests.fuzz import batches, invariants

_CASES, _TESTS = 2_000, 20
_EACH = _CASES // _TESTS


@pytest.mark.parametrize("first", range(0, _CASES, _EACH))
def test_hostile_reviews_break_no_invariant(first):
    asked = "make test", first, first + _EACH
    counts, found = batches.batch(asked, invariants.COUNTED, patience=600.0, forks=False)
    assert not found, "\n".join(
        f"{signature}: {each['fault']}\n    python -m tests.fuzz --case {each['file']}"
        for signature, each in found.items()
    )
    assert counts["cases"] == _EACH
    assert counts["requests"] > 2 * _EACH
