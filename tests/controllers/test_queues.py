from __future__ import annotations

import asyncio
import random

import pytest

from muster.kube import transports
from muster.webhook.controllers import queues


@pytest.fixture
async def queue():
    made = queues.WorkQueue(random.Random(1), base=0.01)  # noqa: S311 - the same in every run
    yield made
    made.close()


async def test_a_key_waits_once_however_often_it_is_added(queue):
    for _ in range(5):
        queue.add("a")
    assert len(queue) == 1
    assert await queue.take() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_what_happens_during_the_work_makes_it_come_again(queue):
    queue.add("a")
    await queue.take()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 1
    queue.done("a")
    assert await asyncio.wait_for(queue.take(), 1) == "a"


async def test_a_failed_key_comes_again_after_pauses_that_grow(queue):
    pauses = []
    for _ in range(6):
        queue.add("a")
        await queue.take()
        pauses.append(queue.failed("a"))
        queue.close()
    assert max(pauses) > 2 * pauses[0]
    assert all(pause <= 0.01 * 2**number for number, pause in enumerate(pauses))


async def test_success_forgets_the_failures(queue):
    for _ in range(8):
        queue.add("a")
        await queue.take()
        queue.failed("a")
        queue.close()
    queue.add("a")
    await queue.take()
    queue.done("a")
    queue.add("a")
    await queue.take()
    assert queue.failed("a") <= 0.01


async def test_a_loop_that_is_stopped_has_nothing_in_store():
    tried = asyncio.Event()

    async def work(_key):
        tried.set()
        raise transports.UnreachableError("not yet")

    loop = queues.Loop("test", work, random.Random(1))  # noqa: S311 - the same in every run
    task = asyncio.create_task(loop.run())
    loop.queue.add_after("later", 3600)
    loop.queue.add("now")
    await asyncio.wait_for(tried.wait(), 30)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(loop.queue) == 0


async def test_the_sooner_of_two_wishes_counts(queue):
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 60)
    assert await asyncio.wait_for(queue.take(), 1) == "a"


async def test_one_key_is_worked_on_by_one_worker_at_a_time_and_failures_are_tried_again():
    at_work, most, done = set(), 0, []

    async def work(key):
        nonlocal most
        assert key not in at_work
        at_work.add(key)
        most = max(most, len(at_work))
        await asyncio.sleep(0.001)
        at_work.discard(key)
        done.append(key)
        if done.count(key) == 1:
            raise transports.UnreachableError("not yet")
        if done.count(key) == 2:
            raise KeyError("a defect")

    loop = queues.Loop("test", work, random.Random(1))  # noqa: S311 - the same in every run
    task = asyncio.create_task(loop.run())
    for key in range(8):
        loop.queue.add(key)
    async with asyncio.timeout(5):
        while not all(done.count(key) >= 3 for key in range(8)):
            loop.queue.add(0)
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 1 < most <= 4
