from __future__ import annotations

import orjson

from muster.webhook.audit import schemas
from muster.webhook.audit.records import Record
from muster.webhook.audit.redaction import bounds, redaction, texts


def size(record):
    return len(orjson.dumps(record))


def changes(make_change, count, text="2"):
    return [make_change(f"spec.x[{number}]", f"/spec/x/{number}", after=text) for number in range(count)]


def test_a_record_of_a_large_job_stays_as_it_is(make_record, make_change, make_finding):
    found = [make_finding(f"spec.x[{number}]", "3") for number in range(200)]
    record = make_record(changes=changes(make_change, 2000, "x" * 200), findings=found)
    assert redaction.redact(record) is record


def test_long_values_are_cut_before_changes_are_left_out(make_record, make_change):
    record = make_record(changes=changes(make_change, 20, "x" * 100_000))
    shown = redaction.redact(record)
    assert size(shown) < bounds.BYTES
    assert len(shown["changes"]) == 20
    assert "omitted" not in shown
    assert shown["changes"][0]["after"].endswith("… and 98976 more characters")


def test_a_record_says_how_many_changes_and_findings_it_omits(make_record, make_change, make_finding):
    found = [make_finding(f"spec.x[{number}]", "y" * 900, "z" * 900) for number in range(1000)]
    shown = redaction.redact(make_record(changes=changes(make_change, 30_000), findings=found))
    assert size(shown) < bounds.BYTES + 1000
    assert shown["omitted"]["changes"] == 30_000 - len(shown["changes"])
    assert shown["omitted"]["findings"] == 1000 - len(shown["findings"])
    assert shown["changes"]
    assert shown["findings"]
    assert schemas.check(shown, Record) == []


def test_secrets_are_gone_before_a_value_is_cut(make_record, make_change):
    for before in range(bounds.BYTES, bounds.BYTES + 40, 5):
        text = "x" * 1000 + " " * (before % 64) + "hf_" + "a1" * 20 + "y " * (bounds.BYTES // 2)
        shown = redaction.redact(make_record(changes=[make_change(after=["HF_TOKEN=planted", text])]))
        assert "hf_a" not in orjson.dumps(shown).decode()


def test_an_object_that_is_cut_becomes_the_beginning_of_its_json(make_record, make_change):
    value = {str(number): texts.MARK for number in range(100_000)}
    shown = redaction.redact(make_record(changes=[make_change(after=value)]))["changes"][0]["after"]
    assert shown.startswith('{"0":"<redacted>"')
