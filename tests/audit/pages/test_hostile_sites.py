"""Pages about a log on which others wrote: each is bounded, whatever its lines are."""

from __future__ import annotations

import asyncio
import gzip
import os

import pytest
from aiohttp import compression_utils

from muster.audit import chain, log_files, queries
from muster.front.connections import Limits
from muster.webhook.pages import log_scan, page_server, side_by_side
from muster.webhook.pages.log_places import Shelf
from tests.support import waits

KIB = 1024


@pytest.fixture
def short(monkeypatch):
    """The limits of lines, a thousand times smaller."""
    monkeypatch.setattr(log_files, "LONGEST", 32 * KIB)
    monkeypatch.setattr(log_files, "FARTHEST", 256 * KIB)


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
    dump = side_by_side.kubeyaml.dump
    monkeypatch.setattr(side_by_side.kubeyaml, "dump", lambda value: written.append(len(value)) or dump(value))
    for value in ("z" * 2_000_000, ["z"] * 500_000, {str(number): number for number in range(200_000)}):
        side_by_side.lines(value)
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
    before = log_files._block_before
    monkeypatch.setattr(log_files, "_block_before", lambda *args: reads.append(1) or before(*args))
    log.write_bytes(b"{}\n")
    os.truncate(log, 1024 * KIB * KIB)  # a hole, which takes nothing of the disk
    budget = log_scan.Budget(data=96 * KIB)
    found = log_scan.scan(Shelf([log]), queries.Questions(), budget=budget)
    assert found.older is not None
    assert "no record is that long" in found.rows[0].entry.problem
    assert len(reads) < 30
    again = log_scan.scan(Shelf([log]), queries.Questions(), found.older, budget=budget)
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
    assert len(log_scan.scan(Shelf([log]), queries.Questions()).rows) == 2


# --- who reaches the port --------------------------------------------------------------------------------------------


@pytest.fixture
async def opened():
    """Open a connection to a site; closed with the test."""
    kept = []

    async def open_one(client, first=b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(client.url.rpartition(":")[2]))
        kept.append(writer)
        writer.write(first)
        return reader

    yield open_one
    for each in kept:
        each.transport.abort()
    await asyncio.sleep(0)


async def test_connections_that_do_nothing_keep_nobody_out(site, log, sealed, opened, monkeypatch):
    monkeypatch.setattr(page_server, "_LIMITS", Limits(connections=16))
    log.write_bytes(b"".join(sealed(1)))
    client = await site(log)
    first = await opened(client)
    for _ in range(40):
        await opened(client, b"GET / HTTP/1.1\r\nHost:")
    assert (await client.ask())[0] == 200
    assert await asyncio.wait_for(first.read(), waits.LIMIT) == b""


async def test_what_is_no_http_is_told_in_a_sentence_that_repeats_nothing_and_is_not_logged(site, log, opened, caplog):
    log.write_bytes(b"")
    client = await site(log)
    for sent in (b"\x16\x03\x01 secret\r\n\r\n", b"GET / HTTP/1.1\r\nA secret: b\r\n\r\n"):
        answered = await asyncio.wait_for((await opened(client, sent)).read(), waits.LIMIT)
        assert answered.startswith(b"HTTP/1.0 400 ")
        assert b"secret" not in answered
    assert caplog.records == []


async def test_a_body_is_not_unpacked_before_it_is_refused(site, log, monkeypatch):
    unpacked = []
    monkeypatch.setattr(
        compression_utils.ZLibDecompressor, "decompress_sync", lambda *_, **__: unpacked.append(1) or b""
    )
    log.write_bytes(b"")
    client = await site(log)
    packed, headers = gzip.compress(b" " * 10_000_000), {"Content-Encoding": "gzip"}
    assert (await client.ask(data=packed, headers=headers))[0] == 413
    assert unpacked == []


async def test_no_answer_tells_the_versions_of_what_it_was_made_with(site, log, sealed):
    log.write_bytes(b"".join(sealed(1)))
    client = await site(log)
    for path in ("/", "/healthz", "/nothing"):
        assert (await client.ask(path))[1]["Server"] == "muster"
