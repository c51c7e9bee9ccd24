"""Pages about a log on which others wrote: each is bounded, whatever its lines are."""

from __future__ import annotations

import os

import pytest

from webhook.audit.log import chain, files
from webhook.audit.reading import queries
from webhook.pages import scans, values
from webhook.pages.shelves import Shelf

KIB = 1024


@pytest.fixture
def short(monkeypatch):
    """The limits of lines, a thousand times smaller."""
    monkeypatch.setattr(files, "LONGEST", 32 * KIB)
    monkeypatch.setattr(files, "FARTHEST", 256 * KIB)


async def test_a_page_shows_as_many_parts_as_fit_and_says_how_many_more_there_are(site, log, make_record, make_change):
    changes = [make_change(f"spec.a{number}", after="x" * 1000) for number in range(150)]
    large = [make_change(f"spec.b{number}", after="y" * 300 * KIB) for number in range(9)]
    log.write_bytes(chain.Chain().seal(make_record(changes=[*changes, *large])))
    client = await site(log)
    (path,) = await client.records()
    page = await client.get(path)
    assert "7 more changes are in the JSON." in page
    assert len(page) < 2 * KIB * KIB


def test_a_value_that_is_too_large_is_cut_before_it_is_written_as_lines(monkeypatch):
    written = []
    dump = values.kubeyaml.dump
    monkeypatch.setattr(values.kubeyaml, "dump", lambda value: written.append(len(value)) or dump(value))
    for value in ("z" * 2_000_000, ["z"] * 500_000, {str(number): number for number in range(200_000)}):
        values.lines(value)
    assert max(written) < 300 * KIB


async def test_a_list_shows_the_beginning_of_names_only(site, log, make_record, make_change):
    long = "n" * 100_000
    subject = {"kind": long, "namespace": long, "name": long}
    change = {**make_change(long), "rule": long, "reason": long}
    link = chain.Chain()
    hostile = make_record(object=subject, user={"username": long}, framework=long, changes=[change])
    log.write_bytes(b"".join(link.seal(hostile) for _ in range(10)))
    client = await site(log)
    assert len(await client.get()) < 200 * KIB


@pytest.mark.usefixtures("short")
def test_lines_that_are_too_long_count_against_the_budget_of_a_scan(log, monkeypatch):
    reads = []
    before = files._block_before
    monkeypatch.setattr(files, "_block_before", lambda *args: reads.append(1) or before(*args))
    log.write_bytes(b"{}\n")
    os.truncate(log, 1024 * KIB * KIB)  # a hole, which takes nothing of the disk
    budget = scans.Budget(data=96 * KIB)
    found = scans.scan(Shelf([log]), queries.Questions(), budget=budget)
    assert found.older is not None
    assert "no record is that long" in found.rows[0].entry.problem
    assert len(reads) < 30
    again = scans.scan(Shelf([log]), queries.Questions(), found.older, budget=budget)
    assert again.older.logs[0].offset < found.older.logs[0].offset


async def test_what_is_no_file_is_said(site, log):
    os.mkfifo(log)
    client = await site(log)
    status, _, text = await client.ask()
    assert (status, "it is a pipe and not a regular file" in text) == (500, True)


def test_a_file_with_two_names_is_shown_once(log, sealed):
    log.write_bytes(b"".join(sealed(2)))
    log.with_name("audit.log.1").hardlink_to(log)
    log.with_name("audit.log.2").symlink_to(log)
    assert len(scans.scan(Shelf([log]), queries.Questions()).rows) == 2
