"""Bodies are read beside the event loop: others go on, tenants take turns, and no body takes the Gateway with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from muster.sessions.gateway import bodies
from muster.sessions.readers import frames, pool, process
from muster.sessions.readers.pool import CrowdedError, Readers
from muster.sessions.refusals import Refused
from tests.sessions.readers import errands


@contextlib.asynccontextmanager
async def reading(most=8, processes=1):
    made = Readers(lambda _: most, processes)
    try:
        yield made
    finally:
        await made.close()


async def told(readers, reads, body, tenant="a"):
    return json.loads(await readers.told(tenant, reads, body))


async def test_others_go_on_while_a_body_is_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with reading(processes=2) as readers:
        slow = asyncio.create_task(told(readers, errands.waits, str(pipe).encode()))
        assert await told(readers, errands.told, b"quick", "b") == "quick"
        assert not slow.done()
        await asyncio.to_thread(pipe.write_text, "slow")
        assert await slow == "slow"


@pytest.fixture
def held(monkeypatch):
    """Have readers answer when they are told to, and note what they were asked."""

    class Held(pool.Reader):
        asked, go = [], threading.Semaphore(0)

        def ask(self, _task, data):
            self.go.acquire()
            self.asked.append(data)
            return b"null"

    monkeypatch.setattr(pool, "Reader", Held)
    return Held


async def test_tenants_take_turns_however_many_bodies_one_has(held):
    async with reading() as readers:
        waits = [asyncio.create_task(readers.told("a", errands.told, b"a%d" % number)) for number in range(4)]
        await asyncio.sleep(0)
        waits += [asyncio.create_task(readers.told("b", errands.told, b"b%d" % number)) for number in range(2)]
        await asyncio.sleep(0)
        waits[2].cancel()
        held.go.release(5)
        done = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(each) for each in done] == [bytes, bytes, asyncio.CancelledError, bytes, bytes, bytes]
        assert held.asked == [b"a0", b"a1", b"b0", b"a3", b"b1"]


async def test_who_is_given_a_turn_and_is_cancelled_at_once_passes_it_on(held, monkeypatch):
    waits = []

    def free(readers, slot, frees=Readers._free):
        frees(readers, slot)
        waits[1].cancel()  # before it knows of its turn

    monkeypatch.setattr(Readers, "_free", free)
    async with reading() as readers:
        for number in range(3):
            waits.append(asyncio.create_task(readers.told("a", errands.told, b"%d" % number)))
            await asyncio.sleep(0)
        held.go.release(2)
        async with asyncio.timeout(60):
            await asyncio.wait(waits)
        assert waits[1].cancelled()
        assert held.asked == [b"0", b"2"]


async def test_a_process_that_reads_for_who_was_cancelled_is_nobody_elses_until_it_has_read(held):
    async with reading(most=1) as readers:
        first = asyncio.create_task(readers.told("a", errands.told, b"1"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        with pytest.raises(CrowdedError):
            await readers.told("a", errands.told, b"2")
        other = asyncio.create_task(readers.told("b", errands.told, b"3"))
        await asyncio.sleep(0)
        assert readers._waiting
        held.go.release(2)
        async with asyncio.timeout(60):
            assert await other == b"null"
        assert held.asked == [b"1", b"3"]


async def test_beyond_its_limit_a_tenant_is_told_to_come_again_and_others_are_read(held, monkeypatch):
    async with reading(most=2) as readers:
        waits = [asyncio.create_task(readers.told("a", errands.told, b"")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(CrowdedError, match="reading_bodies: 2 of your large bodies wait") as crowded:
            await readers.told("a", errands.told, b"")
        assert crowded.value.is_own
        other = asyncio.create_task(readers.told("b", errands.told, b""))
        await asyncio.sleep(0)
        monkeypatch.setattr(pool, "_ALL", 3)
        with pytest.raises(CrowdedError) as full:
            await readers.told("c", errands.told, b"")
        assert not full.value.is_own
        held.go.release(3)
        await asyncio.gather(*waits, other)
        held.go.release()
        assert await readers.told("a", errands.told, b"") == b"null"


async def test_what_was_accepted_is_read_however_many_wait(monkeypatch):
    monkeypatch.setattr(pool, "LARGE", 3)
    monkeypatch.setattr(pool, "_ALL", 0)
    async with reading(most=0) as readers:
        assert [await readers.asked("m", errands.told, body) for body in (b"abc", b"abcd")] == ["abc", "abcd"]


async def test_a_process_that_was_killed_is_followed_by_another_which_is_asked_again(tmp_path):
    async with reading() as readers:
        assert await told(readers, errands.is_killed, str(tmp_path / "once").encode()) == "survived"


@pytest.mark.parametrize(
    ("reads", "body", "says"),
    [
        (errands.refuses, b"abc", "3 bytes are too many"),
        (errands.aborts, b"", "the body ends the process that reads it"),
        (errands.takes, b"%d" % (2 * process.MOST), "takes more memory than one may"),
        (bodies.Poll, b'{"request_id": 3}', "request_id: Input should be a valid string"),
    ],
    ids=["refused", "aborted", "memory", "a form"],
)
async def test_what_cannot_be_read_is_refused_and_the_next_is_read(reads, body, says):
    async with reading() as readers:
        for _ in range(2):
            with pytest.raises(Refused, match=says):
                await readers.told("a", reads, body)
        assert await told(readers, errands.told, b"next") == "next"


async def test_a_fault_of_ours_is_told_without_the_body():
    async with reading() as readers:
        with pytest.raises(RuntimeError, match=r"(?s)errands.py.*ValueError") as failed:
            await readers.told("a", errands.fails, b"a secret")
        assert "a secret" not in str(failed.value)


async def test_a_body_whose_process_is_ended_for_its_time_is_refused(tmp_path, monkeypatch):
    one = pool.Reader()
    monkeypatch.setattr(pool, "Reader", lambda: one)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with reading() as readers:
        slow = asyncio.create_task(readers.told("a", errands.waits, str(pipe).encode()))
        writes = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)  # when the other end is open
        one.kill()
        with pytest.raises(Refused, match="for its memory or its time"):
            await slow
        os.close(writes)
        assert await told(readers, errands.told, b"next") == "next"


def test_a_process_ends_when_its_gateway_does():
    command = [sys.executable, "-m", "muster.sessions.readers.process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as made:
        frames.send(made.stdin, pool.named(errands.told).encode(), b"a")
        assert frames.receive(made.stdout) == (frames.TOLD, b'"a"')
        made.send_signal(signal.SIGINT)  # of a terminal, which has the Gateway end it
        frames.send(made.stdin, pool.named(errands.told).encode(), b"b")
        assert frames.receive(made.stdout) == (frames.TOLD, b'"b"')
        made.stdin.write(b"\0")  # of a frame that does not come
        made.stdin.close()
        assert made.wait(timeout=120) == 0


async def test_a_process_goes_after_a_body_that_took_much_memory():
    async with reading() as readers:
        first = await told(readers, errands.pid, b"")
        assert await told(readers, errands.pid, b"") == first
        await told(readers, errands.keeps, bytes(2 << 20))
        assert await told(readers, errands.pid, b"") != first


async def test_numbers_that_json_does_not_know_come_back_as_they_were():
    body = b'{"user_metadata": {"a": NaN, "b": [-Infinity, 1e3], "c": "\\u00e9"}, "tags": []}'
    async with reading() as readers:
        one, other = bodies.CreateSession.model_validate_json(body), await readers.told("a", bodies.CreateSession, body)
    assert repr(bodies.CreateSession.model_validate_json(other)) == repr(one)
