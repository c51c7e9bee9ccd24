"""What is filtered, as a file: whole or saying where it continues, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re

import aiohttp
import orjson
import pytest

from muster.audit import chain
from muster.webhook.pages import exports


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


async def test_json_lines_are_the_records_as_they_are_in_the_log(site, real_log, trail):
    client = await site(real_log)
    status, headers, text = await client.ask("/export.jsonl")
    assert (status, headers["Content-Type"]) == (200, "application/x-ndjson")
    assert headers["Content-Disposition"] == 'attachment; filename="muster-audit.jsonl"'
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert text.encode() == b"".join(reversed(trail))


async def test_whether_there_is_an_export_can_be_asked_without_reading_it(site, real_log):
    status, headers, text = await (await site(real_log)).ask("/export.csv", method="HEAD")
    assert (status, headers["Content-Type"], text) == (200, "text/csv", "")


async def test_an_export_has_what_the_filters_choose_and_the_page_links_to_it(site, real_log):
    client = await site(real_log)
    page = await client.get(decision="denied", user="ada")
    path = re.search(r'href="(/export\.csv[^"]*)"', page)[1].replace("&amp;", "&")
    status, _, text = await client.ask(path)
    rows = table(text)
    assert status == 200
    assert [(row["decision"], row["user"], row["job"]) for row in rows] == [("denied", "ada", each) for each in JOBS]
    assert "error: spec.trainer" in rows[0]["found"]


JOBS = ["trl-grpo", "wrong-numbers"]


async def test_what_cannot_be_asked_and_a_log_that_is_gone_are_said(site, real_log):
    client = await site(real_log)
    status, _, text = await client.ask("/export.csv", params={"since": "never"})
    assert (status, "is not a time" in text) == (400, True)
    status, _, text = await client.ask("/export.csv", params={"before": "0.0123456789abcdef.0"})
    assert (status, "deleted by rotation" in text) == (404, True)
    real_log.unlink()
    real_log.mkdir()
    status, _, text = await client.ask("/export.csv")
    assert (status, "cannot be read" in text) == (500, True)


@pytest.mark.parametrize("path", ["/export.csv", "/export.jsonl"])
async def test_an_export_that_ends_before_the_log_says_where_it_continues(site, log, sealed, monkeypatch, path):
    log.write_bytes(b"".join(sealed(7)))
    client = await site(log)
    monkeypatch.setattr(exports.Bounds, "__new__", lambda cls: tuple.__new__(cls, (3, 100)))
    seen, link = [], path
    while link:
        _, _, text = await client.ask(link)
        last = text.splitlines()[-1]
        seen += re.findall(r"uid-\d", text)
        link = last.split('"')[3] if "continued at" in last else None
    assert seen == [f"uid-{each}" for each in range(7, 0, -1)]


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", "\uff1d1", "=cmd|' /C calc'!A0", '"=1"']
)
async def test_no_cell_is_a_formula(site, log, make_record, name):
    log.write_bytes(chain.Chain().seal(make_record(user={"username": name}, object={**OBJECT, "name": name})))
    (row,) = table((await (await site(log)).ask("/export.csv"))[2])
    for cell in (row["user"], row["name"], row["job"]):
        assert not cell.strip().startswith(("=", "+", "-", "@", "\uff1d"))
        assert not cell.startswith(("\t", "\r", "\n"))


OBJECT = {"kind": "TrainJob", "namespace": "team-a", "name": "sft"}


async def test_a_hostile_record_is_one_row_of_bounded_cells(site, log, make_record, make_change):
    long = 'x"\n,' * 100_000
    record = make_record(changes=[{**make_change(long), "rule": long}], user={"username": long})
    link = chain.Chain()
    log.write_bytes(link.seal(record) + b"no record\n" + link.seal(make_record()))
    rows = table((await (await site(log)).ask("/export.csv"))[2])
    assert [len(row["user"]) for row in rows] == [5, 2001]
    assert max(len(cell) for row in rows for cell in row.values()) < 2_100


async def test_each_block_reads_within_its_budget(site, log, make_record, monkeypatch):
    budgets = []
    scan = exports.scans.scan
    monkeypatch.setattr(
        exports.scans, "scan", lambda *args, **options: budgets.append(options) or scan(*args, **options)
    )
    link = chain.Chain()
    log.write_bytes(b"".join(link.seal(make_record(uid=f"u{each}")) for each in range(450)))
    _, _, text = await (await site(log)).ask("/export.jsonl")
    assert len([orjson.loads(line) for line in text.splitlines()]) == 450
    assert [each["budget"].rows for each in budgets] == [200, 200, 200]


async def test_an_export_that_fails_on_its_way_is_not_taken_for_a_whole_one(site, log, make_record, monkeypatch):
    scan = exports.scans.scan

    def failing(shelf, questions, cursor=None, **options):
        if cursor:
            raise PermissionError(13, "Permission denied", "audit.log")
        return scan(shelf, questions, cursor, **options)

    monkeypatch.setattr(exports.scans, "scan", failing)
    link = chain.Chain()
    log.write_bytes(b"".join(link.seal(make_record(uid=f"u{each}")) for each in range(450)))
    client = await site(log)
    with pytest.raises(aiohttp.ClientError):
        await client.ask("/export.jsonl")
    assert (await client.ask("/rules/trl/launch"))[0] == 200
