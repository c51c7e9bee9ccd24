"""An engine at a TCP port: who may ask it, which of several Gateways, and until when."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from muster.sessions.engines import network, process
from muster.sessions.engines.client import Engine, LostError, Remote

TOKEN = "0123456789abcdef" * 2
WAIT = 120
LARGEST = 1 << 12


class Port:
    """A service at a port of this machine."""

    def __init__(self, url):
        self.url, self.engines = url, []

    def engine(self, token=TOKEN, term=1):
        self.engines.append(Engine(Remote(self.url, token, term)))
        return self.engines[-1]

    async def status(self, path="/state", **headers):
        async with aiohttp.ClientSession() as session, session.get(self.url + path, headers=headers) as answer:
            return answer.status


@pytest.fixture
async def port(monkeypatch):
    assert process._LARGEST == 1 << 28
    monkeypatch.setattr(process, "_LARGEST", LARGEST)
    listening = socket.create_server(("127.0.0.1", 0))
    app, entrance = process.Service(None, None).app(), network.Entrance(TOKEN, reading=0.2)
    app.middlewares.append(entrance.watch)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    made = Port(f"http://127.0.0.1:{listening.getsockname()[1]}")
    yield made
    for each in made.engines:
        await each.close()
    await runner.cleanup()


async def test_whoever_has_the_token_is_answered(port):
    assert (await port.engine().state())["models"] == {}


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", "Bearer é"],
)
async def test_a_request_without_the_token_gets_401_whatever_it_asks(port, header):
    given = {} if header is None else {"Authorization": header}
    for path in ("/state", "/nothing", "/readyz/../state"):
        assert await port.status(path, **given) == 401


async def test_the_token_is_compared_in_constant_time(port, monkeypatch):
    compared = []
    monkeypatch.setattr(network.hmac, "compare_digest", lambda *both: compared.append(both) or False)
    assert await port.status(Authorization=f"Bearer {TOKEN}") == 401
    assert compared == [(TOKEN.encode(), TOKEN.encode())]


async def test_a_body_without_the_token_is_not_read(port):
    _, host, number = re.split("://|:", port.url)
    reader, writer = await asyncio.open_connection(host, int(number))
    writer.write(b"POST /sample HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
    async with asyncio.timeout(WAIT):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 401")
    writer.close()
    await writer.wait_closed()


async def test_a_body_that_does_not_come_gets_408(port):
    _, host, number = re.split("://|:", port.url)
    reader, writer = await asyncio.open_connection(host, int(number))
    head = f"POST /sample HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(WAIT):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408")
    writer.close()
    await writer.wait_closed()


async def test_a_body_beyond_the_limit_gets_413(port):
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        async with session.post(f"{port.url}/sample", data=bytes(LARGEST + 1)) as answer:
            assert answer.status == 413
        async with session.post(f"{port.url}/sample", data=bytes(LARGEST)) as answer:
            assert answer.status == 422  # this engine does not sample


async def test_a_gateway_that_has_been_followed_is_not_heard_any_more(port):
    first, second = port.engine(term=7), port.engine(term=8)
    await first.state()
    await second.state()
    with pytest.raises(LostError, match="a Gateway of term 8 has this engine, so one of term 7 has not"):
        await first.train("m", 1, "step", b"")
    await second.state()


@pytest.mark.parametrize("term", ["-1", "1.5", "x", "", "9" * 19, "²"])
async def test_a_term_that_is_no_number_is_refused(port, term):
    headers = {"Authorization": f"Bearer {TOKEN}", network.TERM: term}
    async with aiohttp.ClientSession() as session, session.get(f"{port.url}/state", headers=headers) as answer:
        assert answer.status == 400


async def test_the_wrong_token_is_an_engine_that_is_lost_and_not_a_request_that_failed(port):
    with pytest.raises(LostError, match="the token is missing or another"):
        await port.engine(token="x" * 32).state()


async def test_an_engine_that_was_closed_is_lost(port):
    engine = port.engine()
    await engine.close()
    with pytest.raises(LostError, match="is gone"):
        await engine.state()


async def test_whoever_waits_for_an_answer_is_told_when_the_engine_is_closed():
    """As it is when its pod is gone: nothing else ends a connection to a machine that has vanished."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        engine = Engine(Remote(f"http://127.0.0.1:{listening.getsockname()[1]}", TOKEN, 1))
        asked = asyncio.create_task(engine.state())
        async with asyncio.timeout(WAIT):
            came, _ = await asyncio.get_running_loop().sock_accept(listening)
            with came:
                await engine.close()
                with pytest.raises(LostError):
                    await asked


class Program:
    """`python -m muster.sessions.engines.process` at a port."""

    def __init__(self, folder, *more, token=TOKEN):
        file = folder / "token"
        file.write_text(token)
        command = [sys.executable, "-m", "muster.sessions.engines.process", "--base", str(folder), "--token", str(file)]
        engine = ["--sampler", "tests.sessions.bigram:Sampler", "--host", "127.0.0.1", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, *engine, *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )

    def port(self):
        return int(self.process.stdout.readline().rsplit(" ", 1)[1])

    def ended(self):
        out, error = self.process.communicate(timeout=WAIT)
        return self.process.returncode, out + error


async def test_a_program_at_a_port_answers_readiness_to_all_and_ends_with_143_when_it_is_told(tmp_path):
    program = Program(tmp_path)
    url = f"http://127.0.0.1:{await asyncio.to_thread(program.port)}"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}{network.READY}") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        async with session.get(f"{url}/state") as answer:
            assert answer.status == 401
    engine = Engine(Remote(url, TOKEN, 1))
    assert len((await engine.state())["instance"]) == 16
    await engine.close()
    program.process.send_signal(signal.SIGTERM)
    assert (await asyncio.to_thread(program.ended))[0] == 143


async def test_a_program_at_a_port_ends_with_0_when_nobody_with_the_token_asks(tmp_path):
    code, said = await asyncio.to_thread(Program(tmp_path, "--silence", "1").ended)
    assert code == 0
    assert re.fullmatch(r"engine at port \d+\n", said)


@pytest.mark.parametrize(
    ("token", "more", "told"),
    [
        ("short", (), "--token: .*token: has 5 characters: write at least 32 of chance into it"),
        ("é" * 40, (), "--token: .*token: cannot be read"),
        (TOKEN, ("--token", "/nowhere/token"), "--token: /nowhere/token: cannot be read"),
    ],
)
def test_a_port_without_a_good_token_is_refused_before_anything_is_loaded(tmp_path, token, more, told):
    code, said = Program(tmp_path, *more, token=token).ended()
    assert code == 2
    assert re.match(told, said.splitlines()[-1])
