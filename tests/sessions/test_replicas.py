"""Several Gateways on one journal in PostgreSQL, of which one has the engines."""

from __future__ import annotations

import itertools
import signal
import time

import httpx
import pytest
import tinker
from tinker import types

from muster.sessions.journal import leases
from muster.sessions.journal.places import journal_at
from muster.sessions.journal.store import LostLeaseError
from tests.sessions.gateways import Gateway
from tests.sessions.hand import datum
from tests.sessions.test_ends_of_processes import trained
from tests.sessions.test_order import EXAMPLES, PROBE


class Anywhere:
    """Sends a request to one Gateway after the other until one answers it, as a load balancer with retries does."""

    def __init__(self, gateways, key):
        self._clients = [httpx.Client(base_url=each.url, headers={"X-API-Key": key}, timeout=60) for each in gateways]
        self._turn = itertools.cycle(range(len(gateways)))

    def post(self, path, **options):
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            try:
                answer = self._clients[next(self._turn)].post(path, **options)
            except httpx.TransportError:
                continue
            if answer.status_code < 500:
                return answer
            assert answer.status_code == 503, answer.text
            time.sleep(0.02)
        raise AssertionError(f"nobody answers {path}")

    def close(self):
        for each in self._clients:
            each.close()


@pytest.fixture
def pair(tmp_path, place):
    """Two Gateways: the first has the engines, because it came first."""
    with Gateway(tmp_path, place("postgresql")) as first:
        first.engine("trainer")
        with first.beside("two") as second:
            yield first, second


@pytest.fixture
def anywhere(hand):
    def make(*gateways):
        one = hand(gateways[-1])
        one.http.close()
        one.http = Anywhere(gateways, gateways[0].key)
        return one

    return make


def test_what_one_accepts_another_executes_and_either_answers(pair, hand):
    first, second = pair
    one, other = hand(first), hand(second)
    assert trained(other) == trained(one)
    with pytest.raises(AssertionError):
        second.engine("trainer", within=0.1)


@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.thorough), 3])
def test_one_that_is_killed_is_followed_by_the_other_with_the_same_weights(pair, hand, anywhere, at):
    first, second = pair
    undisturbed = trained(hand(first))

    def disturb(number):
        if number == at:
            first.kill()

    assert trained(anywhere(first, second), disturb) == undisturbed
    second.engine("trainer")


@pytest.mark.thorough
def test_one_that_was_paused_past_its_lease_keeps_nothing_of_what_it_lost(pair, hand, anywhere):
    first, second = pair
    undisturbed = trained(hand(first))

    def disturb(number):
        if number == 1:
            first.process.send_signal(signal.SIGSTOP)
        if number == 3:
            second.engine("trainer")
            first.process.send_signal(signal.SIGCONT)

    one = anywhere(second)
    assert trained(one, disturb) == undisturbed
    first.without("trainer")
    assert hand(first).create()["type"] == "create_model"


@pytest.fixture(params=[pytest.param(-60, marks=pytest.mark.thorough), 60])
def skewed(tmp_path, place, request):
    """Two Gateways of which the second has a clock that is a minute ahead, or behind."""
    with Gateway(tmp_path, place("postgresql")) as first:
        first.engine("trainer")
        with first.beside("two", ahead=request.param) as second:
            yield first, second


def test_clocks_that_differ_by_a_minute_change_no_answer_and_end_nothing(skewed, hand, anywhere):
    first, second = skewed
    undisturbed = trained(hand(first))

    def disturb(number):
        if number == 3:
            first.kill()  # what it accepted by its clock is executed by that of the other

    one = anywhere(first, second)
    assert trained(one, disturb) == undisturbed
    second.engine("trainer")
    heard = hand(second).http.post("/api/v1/session_heartbeat", json={"session_id": one.session})
    assert heard.status_code == 200


def test_a_token_of_one_opens_the_other_though_their_clocks_differ_by_a_minute(skewed):
    for one, other in (skewed, skewed[::-1]):
        token = httpx.post(f"{one.url}/api/v1/auth/token", json={}, headers={"X-API-Key": one.key}, timeout=60)
        asked = httpx.get(f"{other.url}/api/v1/sessions", headers={"X-API-Key": token.json()["jwt"]}, timeout=60)
        assert asked.status_code == 200, asked.text


def test_a_server_that_ends_in_the_middle_loses_nothing_and_doubles_nothing(pair, hand, anywhere, database):
    undisturbed = trained(hand(pair[0]))

    def disturb(number):
        if number in {1, 4}:
            database.stop()
            database.start()

    assert trained(anywhere(*pair), disturb) == undisturbed


@pytest.mark.thorough
def test_a_server_that_is_away_for_longer_than_the_lease_loses_nothing_and_doubles_nothing(
    pair, hand, anywhere, database
):
    undisturbed = trained(hand(pair[0]))

    def disturb(number):
        if number == 2:
            database.stop()
            time.sleep(float(Gateway.LEASE) + 1)  # whoever has it afterwards, the weights are the same
            database.start()

    assert trained(anywhere(*pair), disturb) == undisturbed


def test_the_client_goes_through_an_outage_of_the_server(pair, database):
    with tinker.ServiceClient(base_url=pair[1].url, api_key=pair[0].key) as service:
        client = service.create_lora_training_client(base_model=str(pair[0].base), rank=4).result()
        stepped = []
        for _ in range(3):
            client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy")
            stepped.append(client.optim_step(types.AdamParams(learning_rate=0.1)))
            database.stop()
            database.start()
        assert [each.result().metrics["steps:sum"] for each in stepped] == [1, 2, 3]
        sampler = client.save_weights_and_get_sampling_client().result()
        thought = client.forward([datum(PROBE)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
        assert sampler.compute_logprobs(types.ModelInput.from_ints(PROBE)).result()[1:] == pytest.approx(thought)


def test_a_server_that_is_away_is_said_so_and_nothing_hangs(pair, hand, database):
    one = hand(pair[1])
    database.stop()
    answer = one.http.post("/api/v1/session_heartbeat", json={"session_id": one.session})
    assert (answer.status_code, "send this again" in answer.json()["detail"]) == (503, True)
    database.start()
    while (answer := one.http.post("/api/v1/session_heartbeat", json={"session_id": one.session})).status_code == 503:
        time.sleep(0.02)
    assert answer.status_code == 200


@pytest.mark.thorough  # a server that says nothing is given up after 15 s
def test_a_server_that_stands_still_is_given_up_and_found_again(pair, hand, anywhere, database):
    undisturbed = trained(hand(pair[0]))
    one = hand(pair[1])

    def disturb(number):
        if number == 2:
            database.pause()
            try:
                answer = one.http.post("/api/v1/session_heartbeat", json={"session_id": one.session})
            finally:
                database.go_on()
            assert answer.status_code == 503

    assert trained(anywhere(*pair), disturb) == undisturbed


def test_a_session_that_is_ended_at_one_is_ended_at_the_other(pair, hand):
    first, second = pair
    one = hand(second)
    one.create()
    one.post(f"sessions/{one.session}/finish", {"reason": {"type": "success"}}, expect=204)
    other = hand(first)
    other.session, other.model = one.session, one.model
    other.optim(1, expect=404)


def test_two_gateways_of_one_name_are_refused(pair):
    again = pair[0].beside("one")
    with pytest.raises(IndexError):
        again.start()
    again.process.stdout.close()
    assert again.process.wait() == 2
    assert "another Gateway runs here" in (pair[0].folder / "gateway-one.log").read_text()


async def test_who_lost_the_lease_changes_nothing(place):
    url = place("postgresql")
    one, two = journal_at(url, None), journal_at(url, None)
    await one.open()
    await two.open()
    try:
        held = await one.run(leases.take, "one", 0.0)
        fenced = leases.Fenced(one, "one", held.number)
        insert = "INSERT INTO keys (id, hash, tenant, created) VALUES (?, ?, 'a', 0)"
        await fenced.execute(insert, "k1", "h1")
        taken = await two.run(leases.take, "two", 60.0)
        assert taken.number == held.number + 1
        assert (await one.run(leases.take, "one", 60.0)).holder == "two"
        with pytest.raises(LostLeaseError):
            await fenced.execute(insert, "k2", "h2")
        assert [row["id"] for row in await two.rows("SELECT id FROM keys")] == ["k1"]
        await two.run(leases.give_up, "two")
        assert (await one.run(leases.take, "one", 60.0)).number == taken.number + 1
    finally:
        await one.close()
        await two.close()


def test_a_url_of_something_else_is_refused(tmp_path):
    with pytest.raises(ValueError, match="postgresql://"):
        journal_at("mysql://there", tmp_path)
