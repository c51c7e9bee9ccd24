"""What one tenant may have and ask for, with the client and by hand."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import httpx
import pytest
import tinker
from tinker import types

from muster.sessions.gateway.rates import Buckets
from muster.sessions.journal import entries
from muster.sessions.runs import quotas
from tests.sessions.gateways import Gateway
from tests.sessions.hand import PROTOBUF, datum

LIMITS = """
[default]
requests_per_second = 500

[tenants.team-a]
requests_per_second = 10
burst = 8

[tenants.slow]
requests_per_second = 0.001
burst = 4

[tenants.small]
open_sessions = 2
models = 1

[tenants.full]
checkpoint_bytes = 1

[tenants.polling]
polls = 2

[tenants.crowd]
waiting_requests = 2

[tenants.many]
kept_requests = 3

[tenants.heavy]
kept_bytes = 2000

[tenants.slowly]
arriving_bodies = 2

[tenants.bulky]
arriving_bytes = 100000

[tenants.recorded]
records = 3

[tenants.settled]
records = 7
"""


class Limited(Gateway):
    """A Gateway with limits."""

    def __init__(self, folder, journal=None):
        (folder / "limits.toml").write_text(LIMITS)
        self.ENGINES = (*Gateway.ENGINES, "--limits", str(folder / "limits.toml"))
        super().__init__(folder, journal)
        self.keys = {
            name: self.run("keys", "create", name).strip()
            for name in (
                *("slow", "small", "full", "polling", "crowd", "many", "heavy", "team-b"),
                *("slowly", "bulky", "recorded", "settled"),
            )
        }


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)])
def limited(tmp_path_factory, place, request):
    with Limited(tmp_path_factory.mktemp("limited"), place(request.param)) as made:
        yield made


def told(hand, route, body, status=422):
    return hand.post(route, body, status)["detail"]


def test_a_client_that_asks_too_fast_slows_down_and_all_of_it_comes_through(limited):
    began = time.monotonic()
    loop(limited)
    least = (6 + 24 - 8) / 10  # what a bucket of 8 with 10 a second lets through, no sooner
    assert time.monotonic() - began > least
    gc.collect()  # what the client leaves open is found while this test's own filters hold


def loop(limited):
    with tinker.ServiceClient(base_url=limited.url, api_key=limited.key) as service:
        training = service.create_lora_training_client(base_model=str(limited.base), rank=4).result()
        steps = [training.forward_backward([datum([1, 2, 3])], "cross_entropy") for _ in range(6)]
        assert [each.result().metrics["loss:sum"] for each in steps]
        training.optim_step(types.AdamParams(learning_rate=0.1)).result()
        sampling = training.save_weights_and_get_sampling_client().result()
        prompt, params = types.ModelInput.from_ints([1, 2]), types.SamplingParams(max_tokens=2)
        samples = [sampling.sample(prompt, 1, params) for _ in range(24)]
        assert all(each.result().sequences for each in samples)


def test_who_asked_too_fast_is_told_when_to_come_again_and_still_gets_his_results(limited, hand):
    slow = hand(limited, limited.keys["slow"])
    created = slow.create()["model_id"]
    step = slow.step(1, [datum([1, 2, 3])])
    slow.post("get_info", {"model_id": created})
    refused = slow.http.post("/api/v1/get_info", json={"model_id": created})
    assert (refused.status_code, refused.headers["Retry-After"].isdigit()) == (429, True)
    assert refused.json()["detail"].startswith("requests_per_second: you ask more than 0.001 times a second")
    assert slow.result(step).metrics["loss:sum"] > 0
    assert slow.post("session_heartbeat", {"session_id": slow.session})
    other = hand(limited, limited.keys["team-b"])
    other.create()
    assert all(other.step(seq, [datum([1, 2])]) for seq in range(1, 20))


def test_polls_that_wait_at_once_end_at_their_limit_and_results_are_still_answered(limited, hand):
    one, other = hand(limited, limited.keys["polling"]), hand(limited, limited.keys["team-b"])
    made = one.create()["model_id"]
    waits = one.step(2, [datum([1, 2, 3])])  # the number before it has not come
    with ThreadPoolExecutor(9) as threads:
        answers = as_completed([threads.submit(one.poll, waits) for _ in range(9)])
        refused = [next(answers).result() for _ in range(7)]
        assert [each.status_code for each in refused] == [429] * 7
        assert refused[0].json()["detail"] == "polls: 2 of your polls wait, as many as may; ask again later"
        assert one.result(f"{made}:0")["model_id"] == made
        assert other.create()["model_id"] == other.model
        one.step(1, [datum([1, 2, 3])])
        assert [each.result().status_code for each in answers] == [200, 200]
    assert one.result(waits).metrics["loss:sum"] > 0


@contextlib.contextmanager
def begun(gateway, key, sent):
    """Begin a request whose body does not come to its end."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as connection:
        head = f"POST /api/v1/create_session HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Length: 900000\r\n\r\n"
        connection.sendall(head.encode() + sent)
        yield connection


@pytest.mark.parametrize(
    ("tenant", "sent", "says"),
    [
        ("slowly", b"{", "arriving_bodies: 2 bodies of your requests are on their way, as many as may"),
        (
            "bulky",
            b"{" + b" " * 45_000,
            "arriving_bytes: 100000 bytes of your requests are on their way, as many as may",
        ),
    ],
)
def test_bodies_that_arrive_slowly_end_at_their_limit_and_hold_up_nobody_else(limited, hand, tenant, sent, says):
    key = limited.keys[tenant]
    with httpx.Client(base_url=limited.url, headers={"X-API-Key": key}, timeout=60) as http:
        large = {"user_metadata": {"x": "y" * 30_000}}
        with begun(limited, key, sent), begun(limited, key, sent):
            refused = sent_until(http, large, 429)
            assert refused.headers["Retry-After"] == "1"
            assert refused.json()["detail"].startswith(says)
            assert hand(limited, limited.keys["team-b"]).session
        assert sent_until(http, large, 200).json()["session_id"]


def sent_until(http, body, status):
    """Send a session until the Gateway has heard of what others began or ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = http.post("/api/v1/create_session", json=body)
        if answer.status_code == status:
            return answer
        if answer.status_code == 200:
            http.post(f"/api/v1/sessions/{answer.json()['session_id']}/finish", json={"reason": {"type": "success"}})
    raise AssertionError(answer.text)


def test_sessions_that_have_ended_count_among_the_records_that_are_kept(limited, hand):
    one = hand(limited, limited.keys["recorded"])
    session = {"tags": [], "user_metadata": None, "sdk_version": "0.38.0"}
    for number in range(2):
        sampler = {"session_id": one.session, "sampling_session_seq_id": number, "base_model": one.base}
        assert one.post("create_sampling_session", sampler)["sampling_session_id"]
    one.post(f"sessions/{one.session}/finish", {"reason": {"type": "success"}}, 204)
    assert told(one, "create_session", session).startswith(
        "records: you would have 4 sessions, models, sampling sessions and checkpoints, and 3 may be kept; delete"
    )


def test_what_adds_no_record_is_done_at_the_limit_and_what_adds_one_is_refused(limited, hand):
    one = hand(limited, limited.keys["settled"])
    one.create()
    path = saved(one, 1, "save_weights", path="a")["path"]
    sampler = {"session_id": one.session, "sampling_session_seq_id": 0, "base_model": one.base}
    one.post("create_sampling_session", sampler)
    copied = copy_of(one, path, "one")["tinker_path"]
    assert one.http.get("/api/v1/checkpoints").json()["cursor"]["total_count"] == 2, "seven records with the copy's"

    assert one.post("create_sampling_session", sampler)["sampling_session_id"]
    assert copy_of(one, path, "one")["tinker_path"] == copied
    assert one.create()["model_id"] == one.model
    assert saved(one, 2, "save_weights", path="a", overwrite=True)["path"] == path

    says = "records: you would have "
    assert copy_of(one, path, "another", 422)["detail"].startswith(f"{says}10 ")
    assert told(one, "create_sampling_session", {**sampler, "sampling_session_seq_id": 1}).startswith(f"{says}8 ")
    assert told(one, "create_session", {}).startswith(f"{says}8 ")
    assert saved(one, 3, "save_weights", path="b")["error"].startswith(f"{says}8 ")
    assert saved(one, 4, "save_weights_for_sampler", path="a")["error"].startswith(f"{says}8 ")
    assert saved(one, 5, "save_weights_for_sampler", sampling_session_seq_id=2)["error"].startswith(f"{says}8 ")
    assert one.result(one.optim(6))["metrics"] is not None


def saved(hand, seq, route, **asked):
    return hand.result(hand.post(route, {"model_id": hand.model, "seq_id": seq, **asked})["request_id"])


def copy_of(hand, path, key, status=200):
    asked = {"source_path": path, "destination_project_id": "p"}
    return hand.send("copy_weights", status, json=asked, headers={"X-Idempotency-Key": key}).json()


@pytest.mark.parametrize(("tenant", "limit"), [("many", "kept_requests"), ("heavy", "kept_bytes")])
def test_passes_without_a_step_of_the_optimizer_end_at_their_limit_and_go_on_after_one(limited, hand, tenant, limit):
    one, data = hand(limited, limited.keys[tenant]), [datum([1, 2, 3])] * 4
    one.create()
    answers = [one.result(sent_again(one, seq, data)) for seq in range(1, 9)]
    failed = [each for each in answers if isinstance(each, dict)]
    assert 0 < len(failed) < len(answers)
    assert failed[0]["category"] == "user"
    assert failed[0]["error"].startswith(f"{limit}: your requests would have ")
    assert "send less at once, or an optim_step for the passes before" in failed[0]["error"]
    taken = one.result(one.optim(9))
    assert taken["metrics"]["grad_norm:mean"] > 0
    assert one.result(sent_again(one, 10, data)).metrics["loss:sum"] > 0
    one.post("unload_model", {"model_id": one.model})


def sent_again(hand, seq, data):
    """Send a pass until it is accepted: the step before it is told before its snapshot is on disk."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        answer = hand.http.post("/api/v1/forward_backward", content=hand.written(seq, data), headers=PROTOBUF)
        if answer.status_code != 429:
            return answer.json()["request_id"]
        time.sleep(0.05)
    raise AssertionError(answer.text)


@pytest.mark.parametrize(
    ("tenant", "limit"), [("many", "kept_requests"), ("heavy", "kept_bytes"), ("crowd", "waiting_requests")]
)
def test_while_others_wait_a_pass_too_many_is_sent_again_later(limited, hand, tenant, limit):
    one, data = hand(limited, limited.keys[tenant]), [datum([1, 2, 3])] * 4
    one.create()
    accepted = []
    for seq in range(2, 12):  # the one before has not come
        body = one.written(seq, data)
        answer = one.http.post("/api/v1/forward_backward", content=body, headers=PROTOBUF)
        if answer.status_code == 429:
            break
        accepted.append(answer.json()["request_id"])
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert answer.json()["detail"].startswith(f"{limit}: ")
    assert accepted
    first = one.step(1, data)  # the others wait for it, so it is taken all the same
    assert all(one.result(each).metrics["loss:sum"] > 0 for each in (first, *accepted))
    one.post("unload_model", {"model_id": one.model})


def test_sessions_and_models_end_at_their_limits_until_others_end(limited, hand):
    first = hand(limited, limited.keys["small"])
    second = hand(limited, limited.keys["small"])
    session = {"tags": [], "user_metadata": None, "sdk_version": "0.38.0"}
    assert told(first, "create_session", session) == (
        "open_sessions: 2 of your sessions are open, and 2 may be; end one, or ask who runs this Gateway for more"
    )
    first.create()
    assert first.create()["model_id"] == first.model, "the same request again is no other model"
    body = {"session_id": second.session, "model_seq_id": 0, "base_model": second.base, "lora_config": {"rank": 4}}
    assert told(second, "create_model", body).startswith("models: 1 of your models are loaded, and 1 may be; unload")
    first.post("unload_model", {"model_id": first.model})
    assert second.create()["model_id"] == second.model
    first.post(f"sessions/{first.session}/finish", {"reason": {"type": "success"}}, 204)
    assert first.post("create_session", session)["session_id"]


def test_a_model_that_could_not_be_made_counts_for_nothing(tmp_path, hand, monkeypatch):
    (tmp_path / "limits.toml").write_text("[default]\nmodels = 1")
    choosy = ("--trainer", "tests.sessions.mortal:Choosy", "--limits", str(tmp_path / "limits.toml"))
    monkeypatch.setattr(Gateway, "ENGINES", (*choosy, *Gateway.ENGINES[2:]))
    with Gateway(tmp_path) as gateway:
        one, other = hand(gateway), hand(gateway)
        step = {"model_id": one.model, "seq_id": 1, "path": "a"}
        for _ in range(2):
            failed = one.create(seed=13)
            assert (failed["error"], failed["category"]) == ("lora_config.seed: 13: is not done here", "user")
            one.post("save_weights", step, 404)
        assert other.create()["model_id"] == other.model


def test_what_waits_for_a_model_that_cannot_be_made_is_told_so(tmp_path, hand, monkeypatch):
    monkeypatch.setattr(Gateway, "ENGINES", ("--trainer", "tests.sessions.mortal:Choosy", *Gateway.ENGINES[2:]))
    with Gateway(tmp_path) as gateway:
        trainer = gateway.engine("trainer")
        hand(gateway).create()
        os.kill(trainer, signal.SIGSTOP)
        one = hand(gateway)
        body = {"session_id": one.session, "model_seq_id": 0, "base_model": one.base, "lora_config": {"seed": 13}}
        made = one.post("create_model", body)["request_id"]
        step = one.step(1, [datum([1, 2, 3])])
        os.kill(trainer, signal.SIGCONT)
        assert "is not done here" in one.result(made)["error"]
        assert one.result(step)["error"] == entries.UNMADE


def test_bytes_of_checkpoints_end_at_their_limit_and_what_was_written_goes(limited, hand):
    full = hand(limited, limited.keys["full"])
    full.create()
    body = {"model_id": full.model, "path": "one", "seq_id": 1}
    answer = full.result(full.post("save_weights", body)["request_id"])
    assert answer["category"] == "user"
    assert answer["error"].startswith("checkpoint_bytes: your checkpoints have 0 bytes, this one has ")
    assert answer["error"].endswith("and 1 may be kept; delete some, or ask who runs this Gateway for more")
    assert not [each for each in (limited.folder / "weights").rglob(f"{full.session}*/*/*") if each.is_file()]
    assert full.http.get("/api/v1/checkpoints").json()["checkpoints"] == []
    output = full.result(full.step(2, [datum([1, 2, 3])]))
    assert output.metrics["loss:sum"] > 0, "the model goes on"


def test_a_copy_of_anothers_weights_counts_and_one_of_ones_own_does_not(limited, hand):
    owner = hand(limited, limited.keys["team-b"])
    owner.create()
    path = owner.result(owner.post("save_weights", {"model_id": owner.model, "path": "p", "seq_id": 1})["request_id"])
    run = path["path"].removeprefix("tinker://").partition("/")[0]
    owner.http.post(f"/api/v1/training_runs/{run}/checkpoints/weights/p/publish")
    body = {"source_path": path["path"], "destination_project_id": "mine"}
    assert owner.post("copy_weights", body)["tinker_path"]
    full = hand(limited, limited.keys["full"])
    assert told(full, "copy_weights", body).startswith("checkpoint_bytes: ")


def test_a_bucket_fills_in_the_time_that_it_says():
    now = [0.0]
    buckets, quota = Buckets(lambda: now[0]), quotas.Quota(requests_per_second=2, burst=2)
    assert [buckets.wait("a", quota) for _ in range(3)] == [0, 0, 0.5]
    assert buckets.wait("b", quota) == 0
    now[0] = 0.5
    assert [buckets.wait("a", quota) for _ in range(2)] == [0, 0.5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[default]\nmodel = 3", "default.model: Extra inputs are not permitted"),
        ("[tenants.a]\nmodels = 0", "tenants.a.models: Input should be greater than or equal to 1"),
        ("tenants = 3", "tenants: Input should be a valid dictionary"),
        ("[default", "is not TOML"),
    ],
)
def test_a_file_that_says_something_else_is_refused_in_one_sentence(tmp_path, text, says):
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"--limits: .*limits.toml: {says}"):
        quotas.read(path)


def test_what_a_tenant_has_of_his_own_leaves_the_rest_as_the_default_says(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text("[default]\nmodels = 7\n[tenants.a]\nopen_sessions = 3\n")
    read = quotas.read(path)
    assert (read.of("a").models, read.of("a").open_sessions, read.of("b").open_sessions) == (7, 3, 1000)
