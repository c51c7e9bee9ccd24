"""Authors take turns, and whoever has most gives way."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import orjson
import pytest

from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader
from muster.webhook.metrics import Metrics
from muster.webhook.server import handlers
from muster.webhook.server.resolvers import Resolver
from muster.webhook.server.turns import BusyError, Place, Places, Turns
from tests.server.conftest import RUNTIME, Records, review
from tests.support import waits

ANN, BOB, CAT = ("team-a", "ann"), ("team-b", "bob"), ("team-a", "cat")


class Held:
    """What has a turn or a place until it is let go."""

    def __init__(self, of, author, begun):
        self._of, self._author, self._begun = of, author, begun
        self.free = asyncio.Event()
        self.task = asyncio.create_task(self._hold())

    async def _hold(self):
        async with contextlib.AsyncExitStack() as stack:
            held = self._of(self._author)
            stack.enter_context(held) if isinstance(held, Place) else await stack.enter_async_context(held)
            self._begun.append(self._author)
            await self.free.wait()


async def test_authors_take_turns_however_many_of_one_wait():
    turns, begun = Turns(1), []
    held = [Held(turns.turn, ANN, begun)]
    await waits.turns()
    held += [Held(turns.turn, author, begun) for author in [ANN] * 3 + [BOB] * 2 + [CAT]]
    await waits.turns()
    for each in held:
        each.free.set()
    await asyncio.gather(*(each.task for each in held))
    assert begun == [ANN, ANN, BOB, CAT, BOB, ANN, ANN]


async def test_namespaces_take_turns_however_many_users_of_one_wait():
    turns, begun = Turns(1), []
    accounts = [("team-a", f"account-{number}") for number in range(4)]
    held = [Held(turns.turn, author, begun) for author in (*accounts, accounts[1], BOB)]
    await waits.turns()
    for each in held:
        each.free.set()
    await asyncio.gather(*(each.task for each in held))
    assert begun == [accounts[0], accounts[1], BOB, accounts[2], accounts[3], accounts[1]]


async def test_one_namespace_never_has_all_of_it():
    turns, begun = Turns(3), []
    held = [Held(turns.turn, author, begun) for author in [ANN, *[CAT] * 2, *[ANN] * 3]]
    await waits.turns()
    assert begun == [ANN, CAT]
    other = Held(turns.turn, BOB, begun)
    await waits.turns()
    assert begun == [ANN, CAT, BOB]
    for each in (*held, other):
        each.free.set()
    await asyncio.gather(*(each.task for each in (*held, other)))
    assert begun == [ANN, CAT, BOB, CAT, ANN, ANN, ANN]


async def test_blocks_that_wait_for_nothing_take_turns():
    turns, begun = Turns(1), []

    async def begin(author):
        async with turns.turn(author):
            begun.append(author)

    async def come_later():
        await asyncio.sleep(0)
        await begin(BOB)

    await asyncio.gather(*(begin(ANN) for _ in range(5)), come_later())
    assert begun == [ANN, ANN, ANN, BOB, ANN, ANN]


async def test_a_small_review_waits_for_few_of_another_author_who_has_the_places():
    metrics, answers = Metrics(), []
    admission = handlers.Admission(
        Policy, Resolver(InMemoryReader(RUNTIME), None, metrics), Records(), metrics, (4, 60)
    )

    async def send(author):
        namespace, user = author
        sent = review(namespace=namespace, userInfo={"username": user})
        answer = await admission.admit(orjson.dumps(sent), "mutate", "TrainJob")
        answers.append((author, answer.status))

    flood = [asyncio.create_task(send(ANN)) for _ in range(6)]
    await asyncio.sleep(0)
    await asyncio.gather(*flood, send(BOB))
    assert [author for author, status in answers if status == 200] == [ANN, ANN, ANN, BOB, ANN]
    assert [author for author, status in answers if status == 429] == [ANN, ANN]


@pytest.mark.parametrize("after", [0, 1, 2], ids=["before its turn", "as it begins", "in its turn"])
async def test_whatever_is_given_up_leaves_its_turn_to_the_next(after):
    turns, begun = Turns(1), []
    first = Held(turns.turn, ANN, begun)
    await waits.turns()
    second, third = Held(turns.turn, BOB, begun), Held(turns.turn, CAT, begun)
    await waits.turns()
    if after:
        first.free.set()
    for _ in range(after * 2 - 1):
        await asyncio.sleep(0)
    second.task.cancel()
    for each in (first, second, third):
        each.free.set()
    await asyncio.gather(*(each.task for each in (first, second, third)), return_exceptions=True)
    assert (begun[0], begun[-1], second.task.cancelled()) == (ANN, CAT, True)


async def test_the_newest_of_whoever_has_most_gives_way():
    places, begun = Places(3), []
    held = [Held(partial(Place, places), ANN, begun) for _ in range(3)]
    await waits.turns()
    other = Held(partial(Place, places), BOB, begun)
    with pytest.raises(BusyError):
        await held[2].task
    assert (places.taken, begun) == (3, [ANN, ANN, ANN, BOB])
    for each in (*held, other):
        each.free.set()
    await asyncio.gather(held[0].task, held[1].task, other.task)
    assert not places.taken


async def test_nobody_gives_way_to_whoever_would_have_as_many():
    places, begun = Places(3), []
    held = [Held(partial(Place, places), author, begun) for author in (ANN, ANN, BOB)]
    await waits.turns()
    for author in (ANN, BOB):
        with pytest.raises(BusyError):
            await Held(partial(Place, places), author, begun).task
    for each in held:
        each.free.set()
    await asyncio.gather(*(each.task for each in held))


async def test_the_namespace_with_most_gives_way_and_in_it_the_user_with_most():
    places, begun = Places(4), []
    dan = ("team-a", "dan")
    held = [Held(partial(Place, places), author, begun) for author in (CAT, ANN, ANN, dan)]
    await waits.turns()
    held.append(Held(partial(Place, places), BOB, begun))
    with pytest.raises(BusyError):
        await held[2].task
    held.append(Held(partial(Place, places), BOB, begun))
    with pytest.raises(BusyError):
        await held[0].task
    with pytest.raises(BusyError):
        await Held(partial(Place, places), ("team-a", "eve"), begun).task
    for each in held:
        each.free.set()
    await asyncio.gather(*(each.task for each in held), return_exceptions=True)
    assert (places.taken, places.held) == (0, {})


async def test_whoever_is_cancelled_as_a_place_is_given_up_is_cancelled():
    places, begun = Places(2), []
    held = [Held(partial(Place, places), ANN, begun) for _ in range(2)]
    await waits.turns()
    other = Held(partial(Place, places), BOB, begun)
    await asyncio.sleep(0)
    held[1].task.cancel()
    await asyncio.gather(held[1].task, return_exceptions=True)
    assert held[1].task.cancelled()
    for each in (held[0], other):
        each.free.set()
    await asyncio.gather(held[0].task, other.task)
    assert not places.taken
