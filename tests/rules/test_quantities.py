from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.documents import quantities
from tests.support import limits

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", 2),
        (2, 2),
        ("500m", 1),
        ("2500m", 3),
        ("1.5", 2),
        (1.5, 2),
        (".5", 1),
        ("5.", 5),
        ("1k", 1000),
        ("16Gi", 16 * 2**30),
        ("1Ei", 2**60),
        ("3e2", 300),
        ("3E2", 300),
        ("2E", 2 * 10**18),
        ("1e-3", 1),
        ("100n", 1),
        ("100u", 1),
        ("0", 0),
        ("+4", 4),
        ("-1500m", -2),
    ],
)
def test_a_quantity_is_its_amount_rounded_up(text, amount):
    assert quantities.value(text) == amount


@pytest.mark.parametrize(
    "text", ["", "two", "1 Gi", "1gi", "1e", "--1", "1.2.3", "0x10", "٣", "1K", "Gi", "1e1.5", "nan", "9" * 65]
)
def test_what_is_no_quantity_is_named(text):
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        quantities.value(text)
    assert quantities.count(text) == 0


@pytest.mark.parametrize(
    "text", ["1e999999999", "10E", "9Ei", "1" + "0" * 40 + "Ei", 10**400, 1e300, "9" * 40 + "e999"]
)
def test_amounts_beyond_64_bits_are_capped_as_in_kubernetes_and_cost_nothing(text):
    assert quantities.value(text) == LARGEST


@pytest.mark.parametrize(
    ("text", "amount"), [("1e-999999999", 1), ("-1e-999999999", -1), ("0e999999999", 0), ("-1e999999999", -LARGEST)]
)
def test_exponents_of_any_size_are_read(text, amount):
    assert quantities.value(text) == amount


@limits.MANY
@given(st.text(alphabet="0123456789.eE+-munkMGTPi ", max_size=12) | st.text(max_size=8))
def test_any_text_is_counted_or_counts_as_none(text):
    assert abs(quantities.count(text)) <= LARGEST


@pytest.mark.parametrize("thing", [None, {}, [], True, "x"])
def test_what_is_missing_or_of_another_type_counts_as_none(thing):
    assert quantities.count(thing) == 0
