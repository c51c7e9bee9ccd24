"""How much of a record is written, and what is written of one that cannot be."""

from __future__ import annotations

import functools

import orjson
import pytest

from muster.audit import known, record_limits, record_schema
from muster.audit.record_schema import Record

DEEP = functools.reduce(lambda inner, _: [inner], range(5000), "planted-here")


def size(record):
    return len(orjson.dumps(record))


def changes(make_change, count, text="2"):
    return [make_change(f"spec.x[{number}]", f"/spec/x/{number}", after=text) for number in range(count)]


def test_a_record_of_a_large_job_stays_as_it_is(make_record, make_change, make_finding):
    found = [make_finding(f"spec.x[{number}]", "3") for number in range(200)]
    record = make_record(changes=changes(make_change, 2000, "x" * 200), findings=found)
    assert record_limits.bounded(record) is record


def test_long_values_are_cut_before_changes_are_left_out(make_record, make_change):
    shown = record_limits.bounded(make_record(changes=changes(make_change, 20, "x" * 100_000)))
    assert size(shown) < record_limits.BYTES
    assert len(shown["changes"]) == 20
    assert "omitted" not in shown
    assert shown["changes"][0]["after"].endswith("… and 98976 more characters")


def test_a_record_says_how_many_changes_and_findings_it_omits(make_record, make_change, make_finding):
    found = [make_finding(f"spec.x[{number}]", "y" * 900, "z" * 900) for number in range(1000)]
    shown = record_limits.bounded(make_record(changes=changes(make_change, 30_000), findings=found))
    assert size(shown) < record_limits.BYTES + 1000
    assert shown["omitted"]["changes"] == 30_000 - len(shown["changes"])
    assert shown["omitted"]["findings"] == 1000 - len(shown["findings"])
    assert shown["changes"]
    assert shown["findings"]
    assert record_schema.misfit(shown, Record) is None


def test_an_object_that_is_cut_becomes_the_beginning_of_its_json(make_record, make_change):
    value = {str(number): "x" for number in range(200_000)}
    shown = record_limits.bounded(make_record(changes=[make_change(after=value)]))["changes"][0]["after"]
    assert shown.startswith('{"0":"x"')


@pytest.mark.parametrize(
    "bad",
    [
        {"changes": [object()]},
        {"changes": None, "findings": None},
        {"object": {"kind": "TrainJob", "namespace": 1, "name": object()}},
        {"message": "\ud800 planted-here"},
        {"findings": [{"severity": "error", "field": "x", "value": DEEP, "message": "y", "rule": "z/a"}]},
        {"findings": [{"severity": "error", "field": "x", "value": 10**99, "message": "planted-here", "rule": "z"}]},
    ],
    ids=range(6),
)
def test_whatever_a_record_holds_its_head_is_written_and_nothing_else_of_it(make_record, bad):
    failures = []
    shown = record_limits.surely(known.record, make_record(**{"uid": "b", **bad}), failures.append)
    text = orjson.dumps(shown).decode()
    assert (shown["uid"], shown["decision"]) == ("b", "patched")
    assert "planted-here" not in text
    assert record_schema.misfit(shown, Record) is None


def test_a_record_whose_rendition_fails_says_so_and_by_what(make_record, make_change):
    def fail(_record):
        raise KeyError("planted-here")

    failures = []
    shown = record_limits.surely(fail, make_record(changes=[make_change(after="planted-here")]), failures.append)
    assert (shown["changes"], shown["findings"], len(failures)) == ([], [], 1)
    assert "KeyError" in shown["message"]
    assert "planted-here" not in orjson.dumps(shown).decode()
