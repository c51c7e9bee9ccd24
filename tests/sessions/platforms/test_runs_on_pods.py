"""A Gateway whose engines are pods, asked as a client asks it: what it promises of processes it keeps with pods."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from types import SimpleNamespace

import pytest
from aiohttp import web

from muster.front.listeners import Front
from muster.kube.authentication import of_account
from muster.sessions.gateway import app
from muster.sessions.gateway.connections import LIMITS
from muster.sessions.gateway.state import MANAGER
from muster.sessions.platforms.manifests import Settings, Volume
from muster.sessions.runs import tenants
from muster.sessions.runs.config import Config, OnPods
from tests.sessions.hand import Hand
from tests.sessions.platforms.cluster import Cluster
from tests.sessions.test_ends_of_processes import trained

pytestmark = pytest.mark.filterwarnings("ignore::aiohttp.web_exceptions.NotAppKeyWarning")


class Gateway:
    """One in this loop, at a port."""

    def __init__(self, folder, cluster, **changed):
        root, self.base = folder / "root", folder / "base"
        self.base.mkdir()
        given = {"profile": "seat", **changed}
        settings = Settings("gateway", "team-a", "gateways", "engine", Volume("state"), root, self.base, **given)
        engines = {"trainer": "tests.sessions.bigram:Trainer", "sampler": "tests.sessions.bigram:Sampler"}
        pods = OnPods(settings, of_account(cluster.url, folder))
        root.mkdir()
        self.app = app.app(Config(root, self.base, str(self.base), 512, pods=pods, **engines))
        self._runner = web.AppRunner(self.app)

    async def __aenter__(self):
        await self._runner.setup()
        self._front = Front(self._runner.server, 60.0, LIMITS)
        port = await self._front.open("127.0.0.1", 0, None)
        journal = self.app[MANAGER].context.journal
        key = await tenants.create(journal, "team-a", time.time(), tenants.checked(",".join(tenants.SCOPES)), None)
        return SimpleNamespace(url=f"http://127.0.0.1:{port}", key=key.secret, base=self.base)

    async def __aexit__(self, *_):
        await self._front.close()
        await self._runner.cleanup()


async def test_a_run_whose_pods_are_lost_comes_to_what_it_comes_to_undisturbed(tmp_path):
    loop = asyncio.get_running_loop()

    def hurt(cluster, number):
        """In the middle of a step: a process dies, a pod is evicted, all is deleted by hand."""
        if number == 1:
            cluster.pod("trainer").process.send_signal(signal.SIGKILL)
        elif number == 2:
            asyncio.run_coroutine_threadsafe(cluster.remove(cluster.pod("trainer").name), loop).result(60)
        elif number == 4:
            asyncio.run_coroutine_threadsafe(cluster.deleted("jobsets", "muster-gateway"), loop).result(60)

    async with Cluster(tmp_path) as cluster, Gateway(tmp_path, cluster) as gateway:
        quiet = await asyncio.to_thread(lambda: trained(Hand(gateway)))
        disturbed = await asyncio.to_thread(lambda: trained(Hand(gateway), lambda number: hurt(cluster, number)))
    assert disturbed == quiet
    assert (cluster.objects, cluster.pods) == ({}, {})


def told(one, word):
    """Ask for a model, and return the request with the reason for which it waits, as soon as that has a word."""
    asked = {"session_id": one.session, "model_seq_id": 0, "base_model": one.base, "lora_config": {"rank": 4}}
    id_ = one.post("create_model", asked)["request_id"]
    while word not in (answer := one.poll(id_).json())["queue_state_reason"]:
        assert answer["queue_state"] == "paused_capacity"
    return id_, answer["queue_state_reason"]


def made(one, id_):
    while (answer := one.poll(id_).json()).get("type") == "try_again":
        pass
    return answer


async def test_who_waits_for_a_seat_is_told_its_place_and_who_has_the_seats_and_goes_on_when_there_is_one(tmp_path):
    seats = {f"uid-{each}": {"pod": f"muster-a-{each}", "job": "muster-a", "since": "2026"} for each in "12"}
    annotations = {"muster.dev/seats": json.dumps(seats)}
    claim = {"metadata": {"name": "muster-seat-0", "uid": "uid-claim", "annotations": annotations}}

    async with Cluster(tmp_path) as cluster:
        cluster.full = frozenset({"seat"})
        cluster.objects["resourceclaims", "muster-seat-0"] = claim
        async with Gateway(tmp_path, cluster) as gateway:
            one = await asyncio.to_thread(Hand, gateway)
            id_, reason = await asyncio.to_thread(told, one, "claim")
            await cluster.free("seat")
            answer = await asyncio.to_thread(made, one, id_)
    assert reason == (
        "the trainer waits for a seat on claim muster-seat-0, place 1 of 1 in its line; "
        "its seats are taken by muster-a (2)"
    )
    assert "error" not in answer


async def test_a_client_that_finds_all_profiles_full_is_told_which_and_trains_where_seats_come_first(tmp_path):
    async with Cluster(tmp_path) as cluster:
        cluster.full = frozenset({"seat", "spare"})
        async with Gateway(tmp_path, cluster, spill=("spare",)) as gateway:
            one = await asyncio.to_thread(Hand, gateway)
            id_, reason = await asyncio.to_thread(told, one, "profiles")
            await cluster.free("spare")
            answer = await asyncio.to_thread(made, one, id_)
            claims = [pod.document["spec"]["resourceClaims"][0]["resourceClaimName"] for pod in cluster.pods.values()]
            await asyncio.to_thread(lambda: trained(Hand(gateway)))
    assert reason.endswith("; profiles without enough free seats: seat, spare")
    assert "error" not in answer
    assert claims == ["muster-spare-0"] * 2
    assert (cluster.objects, cluster.pods) == ({}, {})
