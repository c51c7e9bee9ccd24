"""What becomes of prompts around a sampler: weights that have no place yet, callers who have gone, faults."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import numpy as np
import pytest

from muster.sessions.engines.desk import CROWD, Desk
from muster.sessions.seam import BrokenError, Refused, Sampled, Sampling
from muster.sessions.tenancy import Share


class Scripted:
    """A sampler that answers when a test says so, and keeps what it was told."""

    slots = 2

    def __init__(self):
        self.loaded, self.begun, self.abandoned, self.told = set(), {}, [], []
        self.ready, self.fault = set(), None

    def load(self, weights, _folder):
        if "torn" in weights:
            raise Refused("weights: torn")
        self.loaded.add(weights)
        self.told.append(f"load {weights}")
        assert len(self.loaded) <= self.slots

    def unload(self, weights):
        assert weights not in {request.weights for request in self.begun.values()}
        self.loaded.remove(weights)

    def sample(self, requests):
        raise NotImplementedError

    def begin(self, ticket, request):
        assert request.weights is None or request.weights in self.loaded
        if request.count == 99:
            raise Refused("num_samples: 99")
        self.begun[ticket] = request
        self.told.append(f"begin {int(request.prompt[0])}")

    def advance(self):
        if self.fault is not None:
            fault, self.fault = self.fault, None
            self.begun.clear()
            raise fault
        done = [ticket for ticket, request in self.begun.items() if int(request.prompt[0]) in self.ready]
        return {ticket: Sampled(targets=self.begun.pop(ticket).prompt) for ticket in done}

    def abandon(self, ticket):
        self.abandoned.append(int(self.begun.pop(ticket).prompt[0]))


class Batches:
    """A sampler that answers batches only."""

    def __init__(self):
        self.sizes = []

    def load(self, weights, folder):
        pass

    def unload(self, weights):
        pass

    def sample(self, requests):
        self.sizes.append(len(requests))
        return [Refused("odd") if int(each.prompt[0]) % 2 else Sampled(targets=each.prompt) for each in requests]


class Thread:
    """A sampler at work on a thread, as in the process of an engine."""

    def __init__(self, sampler):
        self.sampler = sampler
        self._thread = ThreadPoolExecutor(1)
        self._desk = Desk(sampler, self._work)
        self.task = asyncio.create_task(self._desk.run())

    async def _work(self, work, *args):
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def ask(self, number, weights=None, gone=lambda: False, tenant="us", **rest):
        request = Sampling(weights, np.array([number]), **rest)
        return asyncio.create_task(self._desk.ask(Share(tenant), request, weights, gone))

    @asynccontextmanager
    async def held(self):
        """Have nothing begin inside the block."""
        held, gate = threading.Event(), threading.Event()
        self._thread.submit(lambda: (held.set(), gate.wait(60)))
        await asyncio.to_thread(held.wait, 60)
        yield
        gate.set()

    async def until(self, condition):
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110  # it comes true on the sampler's thread
                await asyncio.sleep(0.001)

    async def close(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self._thread.shutdown()


@pytest.fixture
async def desk():
    made = Thread(Scripted())
    yield made
    await made.close()


async def test_a_prompt_that_comes_while_another_runs_begins_at_once_and_may_end_first(desk):
    first = desk.ask(1)
    await desk.until(lambda: desk.sampler.begun)
    desk.sampler.ready = {2}
    assert (await desk.ask(2)).targets.tolist() == [2]
    assert not first.done()
    desk.sampler.ready = {1}
    assert (await first).targets.tolist() == [1]


async def test_weights_of_a_running_prompt_stay_and_others_wait_for_their_place(desk):
    running = [desk.ask(1, "a"), desk.ask(2, "b")]
    await desk.until(lambda: len(desk.sampler.begun) == 2)
    third = desk.ask(3, "c")
    fourth = desk.ask(4, "a")
    desk.sampler.ready = {2}
    await running[1]
    desk.sampler.ready = {3, 4}
    assert (await third).targets.tolist() == [3]
    assert (await fourth).targets.tolist() == [4]
    assert desk.sampler.loaded == {"a", "c"}
    assert desk.sampler.told == ["load a", "begin 1", "load b", "begin 2", "load c", "begin 3", "begin 4"]
    desk.sampler.ready = {1}
    await running[0]


async def test_the_weights_that_nobody_used_for_longest_go_first(desk):
    desk.sampler.ready = {1}
    for weights in ("a", "b", "a", "c"):
        await desk.ask(1, weights)
    assert desk.sampler.loaded == {"a", "c"}


async def test_what_cannot_begin_is_refused_alone(desk):
    desk.sampler.ready = {1, 2, 3}
    answers = await asyncio.gather(
        desk.ask(1), desk.ask(2, "torn"), desk.ask(3, count=99), desk.ask(2), return_exceptions=True
    )
    assert [str(each) if isinstance(each, Refused) else "answered" for each in answers] == [
        "answered",
        "weights: torn",
        "num_samples: 99",
        "answered",
    ]


async def test_a_prompt_that_nobody_waits_for_is_abandoned_and_one_that_waits_never_begins(desk):
    gone = set()
    first, second = desk.ask(1, "a", lambda: 1 in gone), desk.ask(2, "b")
    await desk.until(lambda: len(desk.sampler.begun) == 2)
    third, fourth = desk.ask(3, "c", lambda: 3 in gone), desk.ask(4, "b")
    gone |= {1, 3}
    for each in (first, third):
        with pytest.raises(Refused, match="nobody waits"):
            await each
    desk.sampler.ready = {2, 4}
    await asyncio.gather(second, fourth)
    assert desk.sampler.abandoned == [1]
    assert "begin 3" not in desk.sampler.told


async def test_a_prompt_begins_before_all_that_another_tenant_has_waiting(desk):
    async with desk.held():
        flood = [desk.ask(number, tenant="flood") for number in range(2, 42)]
        ours = desk.ask(1)
        await asyncio.sleep(0)
    desk.sampler.ready = set(range(42))
    await asyncio.gather(ours, *flood)
    assert "begin 1" in desk.sampler.told[:2]


async def test_beside_others_a_tenant_has_as_many_sequences_as_his_part(desk):
    ours = desk.ask(1)
    await desk.until(lambda: desk.sampler.begun)
    flood = [desk.ask(number, tenant="flood", count=8) for number in range(2, 22)]
    await desk.until(lambda: sum(each.count == 8 for each in desk.sampler.begun.values()) == CROWD // 8)
    second = desk.ask(50)
    await desk.until(lambda: "begin 50" in desk.sampler.told)
    assert sum(each.count == 8 for each in desk.sampler.begun.values()) == CROWD // 8
    desk.sampler.ready = set(range(100))
    await asyncio.gather(ours, second, *flood)


async def test_a_prompt_of_more_sequences_than_a_part_runs_by_itself(desk):
    ours = desk.ask(1)
    await desk.until(lambda: desk.sampler.begun)
    large = [desk.ask(number, tenant="flood", count=CROWD + 1) for number in (2, 3)]
    await desk.until(lambda: "begin 2" in desk.sampler.told)
    desk.sampler.ready = {2, 3}
    await asyncio.gather(*large)
    desk.sampler.ready = {1}
    await ours


async def test_beside_others_a_tenant_leaves_places_for_their_weights(desk):
    ours = desk.ask(1, "a")
    await desk.until(lambda: desk.sampler.begun)
    first = desk.ask(2, "b", tenant="flood")
    await desk.until(lambda: "begin 2" in desk.sampler.told)
    second = desk.ask(3, "c", tenant="flood")
    desk.sampler.ready = {1}
    await ours
    desk.sampler.ready = {4}
    await desk.ask(4, "d")  # the place that is free is not the flood's
    assert "begin 3" not in desk.sampler.told
    desk.sampler.ready = {2, 3}
    await asyncio.gather(first, second)


async def test_a_fault_is_told_to_all_that_ran_and_the_next_is_answered(desk):
    first = [desk.ask(1), desk.ask(2)]
    await desk.until(lambda: len(desk.sampler.begun) == 2)
    desk.sampler.fault = ZeroDivisionError("at a token")
    assert [type(each) for each in await asyncio.gather(*first, return_exceptions=True)] == [ZeroDivisionError] * 2
    desk.sampler.ready = {3}
    assert (await desk.ask(3)).targets.tolist() == [3]


async def test_a_sampler_that_is_broken_ends_the_work(desk):
    desk.ask(1)
    await desk.until(lambda: desk.sampler.begun)
    desk.sampler.fault = BrokenError("gone")
    with pytest.raises(BrokenError, match="gone"):
        await desk.task


async def test_a_sampler_of_batches_gets_what_waits_in_batches_of_64():
    desk = Thread(Batches())
    answers = await asyncio.gather(*(desk.ask(number) for number in range(130)), return_exceptions=True)
    assert [isinstance(each, Refused) for each in answers] == [bool(number % 2) for number in range(130)]
    assert max(desk.sampler.sizes) == 64
    assert sum(desk.sampler.sizes) == 130
    await desk.close()
