"""A client that asks again at once, for ever, whatever `Retry-After` says, and what that costs others."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

from muster.sessions.gateway.rates import Refusals
from tests.sessions.gateways import Gateway

LIMITS = "[tenants.looping]\nrequests_per_second = 0.001\nburst = 2\n"
CONNECTIONS = 32


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "limits.toml").write_text(LIMITS)
    made = Gateway(folder)
    made.ENGINES = (*Gateway.ENGINES, "--limits", str(folder / "limits.toml"))
    with made:
        yield made


class Loops:
    """Requests of one tenant on many connections, each sent as soon as the one before was answered."""

    def __init__(self, gateway, tenant):
        self.answers, self._over = [], threading.Event()
        self._headers = {"X-API-Key": gateway.run("keys", "create", tenant).strip()}
        self._url = gateway.url
        self._threads = [threading.Thread(target=self._loop) for _ in range(CONNECTIONS)]

    def _loop(self):
        with httpx.Client(base_url=self._url, headers=self._headers, timeout=60) as http:
            while not self._over.is_set():
                answer = http.get("/api/v1/sessions")
                self.answers.append((answer.status_code, int(answer.headers.get("Retry-After", 0))))

    def __enter__(self):
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for each in self._threads:
            each.join()


def test_who_asks_again_at_once_is_answered_slowly_and_the_others_are_not(gateway):
    began = time.monotonic()
    headers = {"X-API-Key": gateway.key}
    with Loops(gateway, "looping") as loops, httpx.Client(base_url=gateway.url, headers=headers, timeout=60) as http:
        while len(loops.answers) < 100:  # as many as the first ones that are answered at once, and more
            assert http.get("/api/v1/sessions").status_code == 200
    refused = [retry for status, retry in loops.answers if status == 429]
    assert len(loops.answers) - len(refused) == 2
    assert min(refused) >= 1
    assert len(refused) <= 50 * (time.monotonic() - began + 1) + CONNECTIONS


def test_each_refusal_beyond_the_first_ones_waits_longer_and_all_is_forgotten_after_a_while():
    now = [100.0]
    refusals = Refusals(lambda: now[0])
    assert [refusals.wait("a") for _ in range(50)] == pytest.approx([0.0] * 50)
    assert [refusals.wait("a") for _ in range(3)] == pytest.approx([0.02, 0.04, 0.06])
    assert max(refusals.wait("a") for _ in range(2000)) == 5.0
    assert refusals.wait("b") == 0.0
    refusals.held["a"] = 4096
    assert refusals.wait("a") == 0.0
    now[0] += 7
    refusals.held["a"] = 0
    assert refusals.wait("a") == 0.0
