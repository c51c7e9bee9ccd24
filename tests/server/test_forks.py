"""Work in a process of its own goes on beside the event loop, and is killed when nobody waits for it."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from pathlib import Path

import pytest

from muster.webhook.server.forks import ForkError, Forks
from tests.support import waits

ANN, BOB = ("team-a", "ann"), ("team-b", "bob")
Event = multiprocessing.get_context("fork").Event


@pytest.fixture
def forks():
    return Forks(at_once=2)


OTHERS = set()


def every_child():
    """Processes that this one has started and that have not ended, or whose end nobody has seen."""
    return set(" ".join(each.read_text() for each in Path("/proc/self/task").glob("*/children")).split())


@pytest.fixture(autouse=True)
def others(monkeypatch):
    """Processes that other tests have started, such as a browser, do not count."""
    monkeypatch.setitem(globals(), "OTHERS", every_child())


def children():
    """Those that the test has started."""
    return every_child() - OTHERS


async def test_what_the_work_returns_is_returned(forks):
    assert await forks.run(lambda: b"x" * 3_000_000, ANN) == b"x" * 3_000_000
    assert not children()


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
async def test_nothing_that_is_raised_ends_more_than_the_work(forks, error):
    def work():
        raise error

    with pytest.raises(ForkError, match="without an answer"):
        await forks.run(work, ANN)


async def test_work_that_takes_memory_without_end_ends_alone():
    def work():
        return bytes(1 << 30)

    with pytest.raises(ForkError):
        await Forks(memory=64 * 1024**2).run(work, ANN)


async def test_the_loop_goes_on_beside_endless_work_which_is_killed_when_it_is_given_up(forks):
    begun = Event()

    def work():
        begun.set()
        while True:
            try:
                while True:
                    pass
            except BaseException:  # noqa: BLE001, S110  # as careless code does
                pass

    task = asyncio.create_task(forks.run(work, ANN))
    assert await asyncio.to_thread(begun.wait, waits.LIMIT)
    assert children()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not children()
    assert await forks.run(lambda: b"next", ANN) == b"next"


async def test_no_more_children_than_allowed_run_at_once(forks):
    free, begun = Event(), [Event() for _ in range(3)]

    def work(number):
        begun[number].set()
        free.wait(waits.LIMIT)
        return b"done"

    tasks = [
        asyncio.create_task(forks.run(lambda number=number: work(number), (f"team-{number}", "ann")))
        for number in range(3)
    ]
    for each in begun[:2]:
        assert await asyncio.to_thread(each.wait, waits.LIMIT)
    assert not begun[2].is_set()
    free.set()
    assert await asyncio.gather(*tasks) == [b"done"] * 3


async def test_a_connection_that_the_parent_closes_is_closed_while_a_child_lives(forks):
    ours, theirs = socket.socketpair()
    begun = Event()

    def work():
        begun.set()
        while True:
            pass

    task = asyncio.create_task(forks.run(work, ANN))
    assert await asyncio.to_thread(begun.wait, waits.LIMIT)
    theirs.close()
    assert await asyncio.to_thread(ours.recv, 1) == b""
    ours.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_author_is_answered_while_everything_that_another_has_sent_never_ends(forks):
    begun = Event()

    def endless():
        begun.set()
        while True:
            pass

    tasks = [asyncio.create_task(forks.run(endless, ANN)) for _ in range(5)]
    assert await asyncio.to_thread(begun.wait, waits.LIMIT)
    for _ in range(3):
        assert await asyncio.wait_for(forks.run(lambda: b"done", BOB), waits.LIMIT) == b"done"
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not children()
