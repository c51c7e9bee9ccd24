from __future__ import annotations

import re
import typing
from pathlib import Path

import orjson
import pytest

from muster.audit import chain, record_schema, verification

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
EXAMPLE = orjson.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])


def fields(shape):
    """Every field of a shape and of the shapes in it, `changes[].op` for instance."""
    for name, hint in typing.get_type_hints(shape).items():
        inner = [each for each in (hint, *typing.get_args(hint)) if typing.is_typeddict(each)]
        separator = "[]." if typing.get_origin(hint) is list else "."
        yield from (f"{name}{separator}{field}" for each in inner for field in fields(each))
        if not inner or separator == "[].":
            yield name


@pytest.mark.parametrize("field", list(fields(record_schema.Sealed)))
def test_each_field_is_explained(field):
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert any(f"`{field}`" in row for row in rows)


@pytest.mark.parametrize("kind", typing.get_args(verification.Kind))
def test_each_kind_of_problem_is_explained(kind):
    assert f"| `{kind}` |" in PAGE


@pytest.mark.parametrize("decision", typing.get_args(record_schema.Decision))
def test_each_decision_is_explained(decision):
    assert f"`{decision}`" in PAGE.partition("Decisions:")[2].partition("\n\n")[0]


def test_the_example_is_a_record_whose_hash_is_right():
    assert record_schema.misfit(EXAMPLE) is None
    assert chain.digest_of(EXAMPLE) == EXAMPLE["hash"]


def test_the_example_shows_what_is_known_and_a_hash_of_what_is_not():
    before = EXAMPLE["changes"][0]["before"]
    assert [word.startswith("sha256:") for word in before] == [False, False, False, True, False, True]
