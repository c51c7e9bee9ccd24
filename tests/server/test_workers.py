"""Work on threads goes on beside the event loop, and ends when nobody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from muster.webhook.server.workers import CrowdedError, Workers
from tests.support import waits


@pytest.fixture
async def workers():
    made = Workers(at_once=2, most_stray=2)
    yield made
    await waits.until(lambda: not made.strays)


async def run(workers, work):
    async with workers.place() as place:
        return await place.run(work)


async def given_up(workers, work, begun):
    """Begin work, and give it up when it runs."""
    task = asyncio.create_task(run(workers, work))
    await asyncio.to_thread(begun.wait, waits.LIMIT)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def endless(begun, ended):
    def work():
        try:
            begun.set()
            while True:
                pass
        finally:
            ended.set()

    return work


async def test_what_the_work_returns_is_returned(workers):
    assert await run(workers, lambda: 42) == 42


async def test_what_the_work_raises_is_raised(workers):
    with pytest.raises(ZeroDivisionError):
        await run(workers, lambda: 1 / 0)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
async def test_nothing_that_is_raised_ends_more_than_the_work(workers, error):
    def work():
        raise error

    with pytest.raises(RuntimeError, match=error.__name__):
        await run(workers, work)


async def test_the_loop_goes_on_beside_endless_work_which_ends_when_it_is_given_up(workers):
    begun, ended = threading.Event(), threading.Event()
    await given_up(workers, endless(begun, ended), begun)
    assert await asyncio.to_thread(ended.wait, waits.LIMIT)
    await waits.until(lambda: not workers.strays)


async def test_work_that_catches_what_ends_it_is_told_again(workers):
    begun, caught = threading.Event(), []

    def stubborn():
        begun.set()
        while len(caught) < 3:
            try:
                while True:
                    pass
            except BaseException as error:  # noqa: BLE001  # as careless code does
                caught.append(type(error).__name__)

    await given_up(workers, stubborn, begun)
    await waits.until(lambda: not workers.strays)
    assert caught == ["GivenUpError"] * 3


async def test_with_too_many_threads_that_do_not_end_no_work_is_begun(workers):
    held = threading.Event()

    for _ in range(2):
        begun = threading.Event()

        def hang(begun=begun):
            begun.set()
            held.wait()  # a call into C, which no exception ends

        await given_up(workers, hang, begun)
    assert workers.strays == 2
    with pytest.raises(CrowdedError, match="2 earlier evaluations"):
        await run(workers, int)
    held.set()
    await waits.until(lambda: not workers.strays)
    assert await run(workers, int) == 0


async def test_no_more_work_than_allowed_runs_at_once(workers):
    running, most, lock = set(), [], threading.Lock()

    def work():
        with lock:
            running.add(threading.get_ident())
            most.append(len(running))
        threading.Event().wait(0.001)
        with lock:
            running.discard(threading.get_ident())

    await asyncio.gather(*(run(workers, work) for _ in range(12)))
    assert max(most) <= 2


async def test_giving_up_at_any_moment_leaves_nothing_behind(workers):
    def work():
        for _ in range(300):
            pass

    before = threading.active_count()
    for steps in range(300):
        task = asyncio.create_task(run(workers, work))
        for _ in range(steps % 7):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, CrowdedError):
            await task
    await waits.until(lambda: not workers.strays)
    await waits.until(lambda: threading.active_count() <= before)
    assert await run(workers, lambda: 1) == 1
