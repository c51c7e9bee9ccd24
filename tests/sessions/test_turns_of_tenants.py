"""A tenant with many models has one turn where another with one model has one."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.sessions.gateways import Gateway
from tests.sessions.hand import datum

MODELS = 8


def waiting(gateway, count):
    """Wait until so many passes wait at the trainer."""
    place = httpx.HTTPTransport(uds=str(gateway.folder / "run" / "trainer.sock"))
    deadline = time.monotonic() + 60
    with httpx.Client(transport=place, base_url="http://engine") as http:
        while (found := http.get("/state").json()["waiting"]) != count:
            assert time.monotonic() < deadline, found
            time.sleep(0.02)


@pytest.fixture
def gateway(tmp_path, monkeypatch):
    monkeypatch.setattr(Gateway, "ENGINES", ("--trainer", "tests.sessions.held:Trainer", *Gateway.ENGINES[2:]))
    with Gateway(tmp_path) as made:
        yield made


def test_a_step_waits_for_one_step_of_another_tenant_however_many_models_he_has(gateway, hand):
    key = gateway.run("keys", "create", "flood").strip()
    flood, ours = [hand(gateway, key) for _ in range(MODELS)], hand(gateway)
    for each in (*flood, ours):
        each.create()
    passes = [(flood[0], flood[0].step(1, [datum([1, 2])]))]
    waiting(gateway, 0)  # it has begun
    passes += [(each, each.step(1, [datum([1, 2])])) for each in flood[1:]]
    waiting(gateway, MODELS - 1)
    passes.append((ours, ours.step(1, [datum([1, 2])])))
    waiting(gateway, MODELS)
    (gateway.base / "go").touch()
    for each, id_ in passes:
        each.result(id_)
    order = (gateway.base / "order").read_text().split()
    assert len(order) == MODELS + 1
    assert order.index(ours.model) <= 2
