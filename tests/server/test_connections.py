"""Connections that do nothing, send slowly or never read leave those that work alone."""

from __future__ import annotations

import asyncio
import resource
import socket

import orjson
import pytest

from muster.front import connections
from muster.front.connections import Connections, Limits, State
from tests.server.conftest import TRAINJOB, review
from tests.support import waits

HEAD = b"POST /mutate/trainjobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


# --- the table -------------------------------------------------------------------------------------------------------


class Table:
    """A table of connections whose closing is written down."""

    def __init__(self, **limits):
        self.closed, self.why = [], []
        self.table = Connections(Limits(**limits), self.why.append)
        self._pair = socket.socketpair()

    def open(self, name, *states):
        connection = self.table.open(self._pair[0], lambda: self.closed.append(name))
        for state in states:
            connection.enter(state)
        return connection

    def close(self):
        for each in self._pair:
            each.close()

    def fill(self):
        """Let the other side take nothing."""
        self._pair[0].setblocking(False)
        self._pair[0].send(b"x" * 1000)

    def drain(self):
        self._pair[1].recv(100_000)


@pytest.fixture
def made():
    tables = []

    def make(**limits):
        tables.append(Table(**limits))
        return tables[-1]

    yield make
    for each in tables:
        each.close()


def test_a_new_connection_closes_the_oldest_of_the_largest_sort(made):
    table = made(connections=16)
    for number in range(6):
        table.open(f"kept-{number}", State.ARRIVING, State.BUSY, State.KEPT)
    for number in range(10):
        table.open(f"fresh-{number}")
    for number in range(6):
        table.open(f"new-{number}", State.SENDING, State.ARRIVING)
    assert table.closed == ["fresh-0", "fresh-1", "fresh-2", "fresh-3", "fresh-4", "kept-0"]
    assert len(table.table) == 16
    assert table.why == ["crowded"] * 6


def test_connections_that_do_nothing_cannot_push_out_the_one_that_is_used(made):
    table = made(connections=16)
    good = table.open("good", State.BUSY, State.KEPT)
    for number in range(500):
        table.open(f"idle-{number}", *((State.BUSY, State.KEPT) if number % 2 else ()))
        good.enter(State.SENDING)
        good.enter(State.BUSY)
        good.enter(State.KEPT)
    assert "good" not in table.closed


def test_a_connection_in_its_handshake_is_not_pushed_out_by_kept_ones(made):
    table = made(connections=16)
    for number in range(16):
        table.open(f"kept-{number}", State.BUSY, State.KEPT)
    for number in range(4):
        table.open(f"new-{number}")
    assert table.closed == [f"kept-{number}" for number in range(4)]


def test_a_connection_whose_answer_is_being_made_is_left_alone(made):
    table = made(connections=16)
    for number in range(20):
        table.open(f"busy-{number}", State.BUSY)
    assert table.closed == []


def test_who_makes_no_request_or_none_to_its_end_is_closed_and_who_has_made_one_is_not(made):
    table = made(slow=2 * connections.LOOK)
    table.open("fresh")
    table.open("kept", State.BUSY, State.KEPT)
    slow = table.open("sending")
    slow.heard()
    for _ in range(2):
        table.table.look()
        slow.heard()
    assert table.closed == []
    table.table.look()
    assert table.closed == ["sending"]
    for _ in range(2):
        table.table.look()
    assert table.closed == ["sending", "fresh"]
    assert table.why == ["slow", "slow"]


def test_who_does_not_take_what_was_sent_is_closed(made):
    table = made(slow=2 * connections.LOOK)
    table.open("deaf", State.BUSY, State.KEPT)
    table.fill()
    for _ in range(2):
        table.table.look()
    assert table.closed == []
    table.table.look()
    assert table.closed == ["deaf"]


def test_who_takes_it_late_is_not_closed(made):
    table = made(slow=2 * connections.LOOK)
    table.open("late", State.BUSY, State.KEPT)
    for _ in range(5):
        table.fill()
        table.table.look()
        table.drain()
        table.table.look()
    assert table.closed == []


def test_who_takes_each_answer_is_not_closed_for_the_next_one(made, monkeypatch):
    """A busy machine looks when it has just sent something, each time."""
    taken = [0]
    monkeypatch.setattr(connections, "_taken", lambda _: taken[0])
    monkeypatch.setattr(connections, "_unsent", lambda _: 1000)
    table = made(slow=2 * connections.LOOK)
    table.open("busy", State.BUSY, State.KEPT)
    for _ in range(20):
        table.table.look()
        taken[0] += 1000
    assert table.closed == []
    for _ in range(3):
        taken[0] += 10  # a drop at a time
        table.table.look()
    assert table.closed == ["busy"]


async def test_what_a_client_has_taken_is_counted(streams):
    accepted = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *both: accepted.set_result(both), "127.0.0.1", 0)
    async with server:
        reader, _ = await opened(streams, server.sockets[0].getsockname()[1])
        _, writer = await accepted
        sock = writer.get_extra_info("socket")
        before = connections._taken(sock)
        assert before >= 0
        writer.write(b"x" * 5000)
        assert await reader.readexactly(5000)
        await waits.until(lambda: connections._taken(sock) == before + 5000)
        writer.close()


def test_a_closed_connection_is_forgotten_whatever_comes_after(made):
    table = made()
    connection = table.open("a")
    connection.gone()
    connection.enter(State.KEPT)
    connection.gone()
    assert len(table.table) == 0


def test_there_are_never_more_connections_than_the_process_may_have_descriptors(monkeypatch, made):
    allowed = []
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _which: (256, 400))
    monkeypatch.setattr(connections.resource, "setrlimit", lambda _which, limits: allowed.append(limits))
    assert made(connections=1000).table.limit == 400 - 128
    assert allowed == [(400, 400)]
    assert made(connections=100).table.limit == 100
    assert allowed == [(400, 400)]


# --- on loopback -----------------------------------------------------------------------------------------------------


async def opened(stack, port, first=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stack.append(writer)
    writer.write(first)
    return reader, writer


@pytest.fixture
async def streams():
    found = []
    yield found
    for writer in found:
        writer.transport.abort()
    await asyncio.sleep(0)


@pytest.fixture
def many_descriptors():
    """Let this process have both ends of all connections open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if before[1] == resource.RLIM_INFINITY else min(8192, before[1])
    if wanted < 4096:
        pytest.skip(f"this process may open {wanted} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, before[0]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
async def test_two_thousand_idle_connections_half_sent_bodies_and_deaf_clients_keep_no_review_from_its_answer(
    serve, streams
):
    webhook = await serve(limits=(200, 60), connection_limits=Limits(connections=1000))
    for _ in range(100):
        await asyncio.gather(*(opened(streams, webhook.port) for _ in range(20)))
    for _ in range(10):
        await asyncio.gather(*(opened(streams, webhook.port, HEAD % 1000 + b"{") for _ in range(20)))
    body = orjson.dumps(review())
    for _ in range(50):
        await opened(streams, webhook.port, (HEAD % len(body) + body) * 20)
    answers = await asyncio.gather(*(webhook.admit(uid=f"u{number}") for number in range(50)))
    assert [answer["uid"] for answer in answers] == [f"u{number}" for number in range(50)]
    assert all("patch" in answer for answer in answers)
    assert len(webhook.listener.connections) <= 1000


async def test_a_connection_without_a_request_is_closed_within_seconds(serve, streams, monkeypatch):
    monkeypatch.setattr("muster.front.acceptors.LOOK", 0.002)
    webhook = await serve()
    reader, _ = await opened(streams, webhook.port)
    assert await reader.read() == b""
    reader, _ = await opened(streams, webhook.port, b"POST /mutate/trainjobs HTTP/1.1\r\nHost:")
    assert await reader.read() == b""
    assert b'muster_connections_closed_total{reason="slow"} 2.0' in webhook.metrics.render()


async def test_a_request_that_is_no_review_makes_room_when_there_are_too_many(serve, streams):
    asked, held = [], asyncio.Event()

    async def wait(_request):
        asked.append(1)
        await held.wait()

    webhook = await serve(connection_limits=Limits(connections=16), further={"/readyz": wait})
    for number in range(40):
        await opened(streams, webhook.port, b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
        await waits.until(lambda number=number: len(asked) == number + 1)
    assert len(webhook.listener.connections) <= 16
    assert (await webhook.admit())["allowed"]
    held.set()


async def test_a_connection_that_has_made_a_good_request_is_kept(serve, monkeypatch):
    monkeypatch.setattr("muster.front.acceptors.LOOK", 0.002)
    webhook = await serve()
    await webhook.admit()
    looks = webhook.listener.connections
    for _ in range(100):
        looks.look()
    await webhook.admit()
    assert looks.counts()["kept"] == 1
    assert b'muster_connections_closed_total{reason="slow"} 0.0' in webhook.metrics.render()


async def test_half_sent_bodies_lose_their_memory_to_those_that_arrive(serve, streams):
    webhook = await serve(body_limit=200_000, connection_limits=Limits(bodies=300_000), limits=(200, 60))
    halves = []
    for number in range(4):
        halves.append((await opened(streams, webhook.port, HEAD % 200_000 + b" " * 99_000))[0])
        expected = min(99_000 * (number + 1), 297_000)
        await waits.until(lambda expected=expected: webhook.listener.bodies.held >= expected - 2000)
    first = await asyncio.wait_for(halves[0].read(12), waits.LIMIT)
    assert first == b"HTTP/1.1 429"
    metadata = TRAINJOB["metadata"] | {"annotations": {"notes": "x" * 100_000}}
    assert (await webhook.admit(document=TRAINJOB | {"metadata": metadata}))["allowed"]
    assert webhook.listener.bodies.held <= 300_000


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_arrives(serve, streams):
    webhook = await serve(body_limit=100_000, limits=(200, 60))
    reader, _ = await opened(streams, webhook.port, HEAD % 10**12)
    assert await asyncio.wait_for(reader.read(12), waits.LIMIT) == b"HTTP/1.1 413"


async def test_what_is_refused_holds_no_memory(serve):
    webhook = await serve(body_limit=100_000)
    assert (await webhook.post("/mutate/trainjobs", b" " * 200_000))[0] == 413
    assert (await webhook.post("/mutate/trainjobs", b"{"))[0] == 400
    assert (await webhook.admit())["allowed"]
    assert webhook.listener.bodies.held == 0


async def test_a_client_that_vanishes_amid_its_body_is_no_error(serve, caplog):
    webhook = await serve(limits=(200, 60))
    streams = []
    await opened(streams, webhook.port, HEAD % 1000 + b"{")
    await waits.until(lambda: webhook.listener.connections.counts()["arriving"])
    streams[0].transport.abort()
    await waits.until(lambda: not len(webhook.listener.connections))
    assert caplog.records == []


async def test_what_is_no_http_is_answered_and_not_logged(serve, streams, caplog):
    webhook = await serve()
    for garbage in (
        b"\x00\xff" * 100 + b"\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET " + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n",
    ):
        reader, _ = await opened(streams, webhook.port, garbage)
        assert (await asyncio.wait_for(reader.read(), waits.LIMIT)).startswith(b"HTTP/1.")
    assert caplog.records == []


async def test_a_defect_of_a_handler_is_logged_and_answered(serve, monkeypatch, caplog):
    webhook = await serve()
    monkeypatch.setattr("muster.webhook.server.handlers.Admission.admit", None)
    assert (await webhook.post("/mutate/trainjobs", review()))[0] == 500
    assert [record.message for record in caplog.records] == ["a request failed"]
    monkeypatch.undo()
    assert (await webhook.admit())["allowed"]


async def test_a_listener_that_is_closed_leaves_nothing_running(serve):
    webhook = await serve()
    assert "look at connections" in {task.get_name() for task in asyncio.all_tasks()}
    await webhook.listener.close()
    assert "look at connections" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_look_that_fails_is_not_the_last_one(serve, monkeypatch, caplog):
    looked, found = asyncio.Event(), []

    def look(_self):
        found.append(1)
        if len(found) > 2:
            looked.set()
        raise ValueError("oh")

    monkeypatch.setattr("muster.front.acceptors.LOOK", 0.002)
    monkeypatch.setattr(Connections, "look", look)
    await serve()
    await asyncio.wait_for(looked.wait(), waits.LIMIT)
    assert {record.message for record in caplog.records} == {"a look at the connections failed"}
