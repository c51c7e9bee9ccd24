"""Nothing that a client does at a port writes a traceback, and no request that is hidden in another one is answered."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.fuzz.wire import runs, targets
from tests.support import cuts, waits

PORTS = {
    "admission": ("webhook", "/mutate/trainjobs"),
    "metrics": ("webhook", "/metrics"),
    "no path": ("webhook", "/nothing"),
    "pages": ("pages", "/"),
}
AT_ONCE = 16


@pytest.fixture(params=PORTS)
async def attacked(request, tmp_path):
    """A program with its port, and a path of it."""
    kind, path = PORTS[request.param]
    async with getattr(targets, kind)(tmp_path) as target:
        assert await cuts.answered(target.port, GOOD, target.context) == [200]
        yield target, path


GOOD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def at_once(made):
    """Await several at the same time; return what they return."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(each):
        async with places:
            return await each

    return await asyncio.gather(*map(one, made))


async def written(target, before):
    """Return what the program wrote to its log, once nothing of a client is open there."""
    await waits.until(lambda: target.opened()["socket"] <= before["socket"])
    assert await cuts.answered(target.port, GOOD, target.context) == [200]
    return [line for line in target.logged() if b'"level":"info"' not in line.replace(b" ", b"") or b"Trace" in line]


@pytest.mark.parametrize("each", [5, pytest.param(1, marks=pytest.mark.thorough)], ids=["some points", "every point"])
async def test_a_request_that_is_cut_anywhere_in_any_way_is_not_logged(attacked, each):
    target, path = attacked
    before, ways = target.opened(), itertools.product(cuts.points(path), cuts.ENDS)
    await at_once(
        cuts.cut(target.port, sent, end, target.context) for sent, end in itertools.islice(ways, 0, None, each)
    )
    assert await written(target, before) == []


async def test_what_is_hidden_behind_a_request_whose_end_is_in_doubt_is_not_answered_and_nothing_is_logged(attacked):
    target, path = attacked
    before, sent = target.opened(), list(cuts.ambiguous(path))
    answers = await at_once(cuts.answered(target.port, each, target.context) for each in sent)
    wrong = [(each, found) for each, found in zip(sent, answers, strict=True) if found != [400]]
    assert wrong == []
    assert await written(target, before) == []


@pytest.mark.thorough
@pytest.mark.parametrize("kind", runs.KINDS)
async def test_a_thousand_drawn_attacks_on_a_port_are_answered_in_a_sentence_and_not_logged(kind):
    report = await runs.run(kind, "attacks", 0, 1000)
    assert not report.faults, "\n".join(report.faults.values())
