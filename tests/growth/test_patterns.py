"""No regular expression of the product takes more than linear time on any text.

One call of the engine cannot be ended by a deadline, so that a slow one stops everything. The patterns are looked
through as automata (`patterns`); no text is tried and nothing is timed.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.growth import expressions, patterns
from muster.strategies.launches import capabilities
from muster.webhook.doctor import dry_run_probe

_NOT = {
    "strategies/documents/paths.py: _SEGMENT": "a walk over the steps ends where a step cannot be read",
    "strategies/shell/grammar.py: _ASSIGNMENT": "it is tried where a word begins, and a name ends with its word",
    "strategies/shell/grammar.py: _NEXT_LINE": "it is tried behind a backslash, and comments are read once",
    "strategies/shell/word_parser.py: _BACKTICKS": "it is tried at a backtick, and one that nothing closes ends it all",
    "audit/known.py: _STEP": "it is tried where the step before ends, and a bracket that nothing closes is the last",
}
"""Patterns that are linear where they are used, and why; each is one that the test would find."""

_OTHERS = {
    "strategies/launches/capabilities.py: re.match(pattern, value)": "of the table of instances, see below",
    "strategies/launches/networks.py: re.fullmatch(fault.wrong, value)": "of a table, and of 256 characters at most",
    "strategies/launches/wrappers.py: re.fullmatch(form, rest[0])": "of `wrappers.json`, and of one word",
    "strategies/rules/relations.py: re.fullmatch(str(operand), value)": "of rows, and of one value",
    "strategies/frameworks/vllm/model_shapes.py: re.compile(family + re.escape(size) + '(?![^-]": "models of ours",
    "strategies/frameworks/vllm/model_shapes.py: re.compile(name + _TUNED, re.IGNORECASE)": "models of ours",
    "strategies/frameworks/vllm/model_shapes.py: re.compile(table[kind], re.IGNORECASE)": "models of ours",
    "audit/scanner.py: re.compile('|'.join((f'(?:{each})' for each in": "configured",
    "audit/scanner.py: re.compile(each)": "configured",
    "strategies/trainer/optimization_trials.py: re.search(f'{PREFIX}{re.escape(name)}b', text)": "a name",
    "webhook/cli/migrations/pod_templates.py: pattern": "names of variables that operators set",
    "webhook/cli/migrations/trainjob_writing.py: pattern": "the name of a job, and of its roles",
    "webhook/cli/schemas/schema_shapes.py: re.compile(re.sub('$$', 'Z', described.pattern": "of CRDs, see below",
    "webhook/doctor/dry_run_probe.py: re.search(pattern, message)": "see below",
}
"""Patterns that are made while the service runs, and of what."""

SLOW = (
    ("(a+)+b", {}, "nested"),
    (r"(\w+\s*)+:", {"searched": False}, "nested"),
    ("(?:a|b*)*c", {"searched": False}, "nested"),
    ("(?:a?b?)*c", {"searched": False}, "nested"),
    ("a*a*b", {"searched": False}, "read the same"),
    (r"\d+\.?\d*", {"searched": False, "whole": True}, "read the same"),
    (r"x\s*(-f)?\s*y", {"searched": False}, "read the same"),
    (r"x(?!\s*(-f)?\s*y)", {"searched": False}, "read the same"),
    ("a+b", {}, "any text before"),
    (r"\s+$", {}, "any text before"),
    (r"(?m)^\s+x", {}, "any text before"),
    (r'"[^"\\]*(?:\\.[^"\\]*)*"', {}, "any text before"),
    (rb"(?i)[a-z]+1", {}, "any text before"),
)
FAST = (
    ("a+", {}),
    ("a+b", {"searched": False}),
    (r"(?<!\w)\w+:", {}),
    ("(?<=://)[^/ ]+(?=@)", {}),
    (r"^\s+x", {}),
    ("(a|b)*c", {"searched": False}),
    (r"(?:\.[^.]*)*x", {"searched": False}),
    (r"\d+(?:\.\d*)?", {"searched": False, "whole": True}),
    (r"--B[\s\S]*?(?:--E|\Z)", {}),
    ("x{0,64}y", {}),
)


@pytest.fixture(scope="module")
def found():
    return expressions.expressions()


def slow(expression):
    """Why a pattern is not linear as it is used, "" where it is."""
    ways = (
        patterns.worst(expression.pattern, expression.flags, searched=searched, whole=whole)
        for searched, whole in expression.ways()
    )
    return next(filter(None, ways), "")


def test_no_pattern_of_the_product_takes_more_than_linear_time(found):
    assert len(found) > 100
    told = {each.place: f"{why}; {each.pattern!r}" for each in found if (why := slow(each))}
    assert {place: why for place, why in told.items() if place not in _NOT} == {}
    assert set(told) == set(_NOT), "an exception is not needed any more"


def test_each_pattern_that_is_made_later_is_known():
    assert sorted(expressions.unread()) == sorted(_OTHERS)


def test_no_pattern_that_is_written_elsewhere_takes_more_than_linear_time():
    files = sorted((expressions.ROOT / "strategies/upstream").glob("*/*/schemas.json"))
    shapes = "".join(file.read_text() for file in files)
    written = {json.loads(each) for each in re.findall(r'"pattern":\s*("(?:[^"\\\\]|\\\\.)*")', shapes)}
    assert len(written) > 2
    instances = {pattern for pattern, _ in capabilities._INSTANCES}
    assert {each: why for each in instances if (why := patterns.worst(each, searched=False))} == {}
    assert {each: why for each in written | {*dry_run_probe._CAUSES} if (why := patterns.worst(each, whole=True))} == {}


@pytest.mark.parametrize(("pattern", "how", "why"), SLOW, ids=str)
def test_a_slow_pattern_is_found(pattern, how, why):
    assert why in patterns.worst(pattern, **how)


@pytest.mark.parametrize(("pattern", "how"), FAST, ids=str)
def test_a_fast_pattern_is_let_pass(pattern, how):
    assert patterns.worst(pattern, **how) == ""


def test_a_pattern_that_no_automaton_reads_is_refused():
    with pytest.raises(patterns.UnsupportedError):
        patterns.worst(r"(a+)\1")
