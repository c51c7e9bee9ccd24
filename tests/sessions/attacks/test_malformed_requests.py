"""Nothing that a client of a Gateway does writes a traceback, and no request hidden in another one is answered."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from tests.sessions.gateways import Gateway
from tests.support import cuts, waits

AT_ONCE = 16


class Metered(Gateway):
    """A Gateway with a port of metrics."""

    ENGINES = (*Gateway.ENGINES, "--metrics", "0")

    def start(self):
        super().start()
        self.metrics = int(self.process.stdout.readline().split()[-1].rpartition(":")[2].partition("/")[0])

    def written(self):
        return (self.folder / f"gateway-{self.replica}.log").read_text()

    def sockets(self):
        folder = Path(f"/proc/{self.process.pid}/fd")
        return sum(1 for each in folder.iterdir() if each.is_symlink() and str(each.readlink()).startswith("socket"))


@pytest.fixture(scope="module")
def metered(tmp_path_factory):
    with Metered(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture(params=["create_session", "without a key", "forward_backward", "no path", "metrics"])
def attacked(request, metered):
    """A port, a path of it and further lines of the head."""
    key = f"X-API-Key: {metered.key}\r\n"
    route = "create_session" if request.param == "without a key" else request.param.replace(" ", "_")
    if request.param == "metrics":
        return metered.metrics, "/metrics", ""
    return metered.port, f"/api/v1/{route}", "" if request.param == "without a key" else key


async def at_once(made):
    """Await several at the same time; return what they return."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(each):
        async with places:
            return await each

    return await asyncio.gather(*map(one, made))


@pytest.mark.parametrize("each", [5, pytest.param(1, marks=pytest.mark.thorough)], ids=["some points", "every point"])
async def test_a_request_that_is_cut_anywhere_in_any_way_is_not_logged(metered, hand, attacked, each):
    port, path, more = attacked
    log, sockets = metered.written(), metered.sockets()
    ways = itertools.product(cuts.points(path, more), cuts.ENDS)
    await at_once(cuts.cut(port, sent, end) for sent, end in itertools.islice(ways, 0, None, each))
    await waits.until(lambda: metered.sockets() <= sockets)
    assert hand(metered).session
    assert metered.written() == log


async def test_what_is_hidden_behind_a_request_whose_end_is_in_doubt_is_not_answered_and_nothing_is_logged(
    metered, hand, attacked
):
    port, path, more = attacked
    log, sent = metered.written(), list(cuts.ambiguous(path, more))
    answers = await at_once(cuts.answered(port, each) for each in sent)
    assert [(each, found) for each, found in zip(sent, answers, strict=True) if found != [400]] == []
    assert hand(metered).session
    assert metered.written() == log


ODD = {
    "empty": "",
    "a blank": " ",
    "blanks": "  \t\n",
    "a slash": "/",
    "the folder above": "..",
    "this folder": ".",
    "another run": "../../weights/a",
    "a NUL": "a\0b",
    "10 kB": "a" * 10_000,
    "a line": "a\nb",
    "a path of weights": "tinker://a/weights/b",
    "no text of ASCII": "\u202ea",
}
ROUTES = ["save_weights", "save_weights_for_sampler", "save_weights_external"]


@pytest.mark.parametrize("route", ROUTES)
def test_weights_of_an_odd_name_are_refused_in_a_sentence_and_not_logged(metered, hand, route):
    log, one = metered.written(), hand(metered)
    one.create()
    for seq, (kind, name) in enumerate(ODD.items(), 1):
        told = one.result(one.post(route, {"model_id": one.model, "seq_id": seq, "path": name})["request_id"])
        assert "is not a name of weights" in told.get("error", ""), (kind, told)
        assert len(told["error"]) < 400
    assert one.http.get(f"/api/v1/training_runs/{one.model}/checkpoints").json()["checkpoints"] == []
    assert metered.written() == log


def test_weights_without_a_name_are_refused_in_a_sentence_where_no_sampling_session_asks_for_them(metered, hand):
    log, one = metered.written(), hand(metered)
    one.create()
    told = one.result(one.post("save_weights", {"model_id": one.model, "seq_id": 1})["request_id"])
    assert "is not a name of weights" in told.get("error", ""), told
    assert metered.written() == log
