from __future__ import annotations

import pytest

from muster.audit import record_schema


def test_a_record_as_the_pipeline_builds_it_fits(make_record, make_change, make_finding):
    record = make_record(
        changes=[make_change(before=None, after={"x": 1})], findings=[make_finding("a", 1)], message="x"
    )
    assert record_schema.misfit(record, record_schema.Record) is None


def test_a_field_of_a_later_version_is_let_through(make_record):
    assert record_schema.misfit(make_record(later={"x": 1}), record_schema.Record) is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"decision": "permitted"}, "decision: 'permitted' is not one of the values that it can have"),
        ({"schema": "muster.dev/audit/v2"}, "schema: 'muster.dev/audit/v2' is not one of the values that it can have"),
        ({"time": "2026-03-01"}, "time: '2026-03-01' is not a string that matches"),
        ({"uid": None}, "uid: None is not a string"),
        ({"dryRun": 1}, "dryRun: 1 is not true or false"),
        ({"latencyMicroseconds": True}, "latencyMicroseconds: True is not an integer"),
        ({"user": {"username": "a", "groups": ["b", 3]}}, "user.groups[1]: 3 is not a string"),
        ({"owner": {"kind": "TrainJob", "name": "a"}}, "owner.uid: is missing"),
        ({"owner": []}, "owner: [] is not an object"),
        ({"changes": {}}, "changes: {} is not a list"),
        ({"changes": [{"op": "add"}]}, "changes[0].path: is missing"),
        ({"message": "x" * 99, "framework": ["y" * 99]}, f"framework: ['{'y' * 58}... is not a string"),
    ],
)
def test_each_misfit_is_named_with_its_field_and_value(make_record, fields, problem):
    assert record_schema.misfit(make_record(**fields), record_schema.Record).startswith(problem)


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_what_is_no_object_is_no_record(value):
    assert record_schema.misfit(value)
    assert record_schema.misfit(value, record_schema.Link)


def test_a_record_without_its_place_in_the_chain_is_not_sealed(make_record):
    record = make_record()
    assert record_schema.misfit(record)
    assert record_schema.misfit({**record, "seq": 1, "prev": "0" * 64, "hash": "f" * 64}) is None
