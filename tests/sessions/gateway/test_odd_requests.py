"""Requests that no client sends: each is refused with a sentence, and none is a fault of the Gateway."""

from __future__ import annotations

import httpx
import pytest

ODD = {
    "nothing": "%20",
    "a NUL": "a%00b",
    "above": "..%2F..%2Fetc",
    "encoded twice": "a%252Fb",
    "a colon": "a%3Atrain%3A0",
    "no text": "%FF%FE",
    "a quote": "'%20OR%201=1%20--",
    "wide": "%F0%9F%98%80",
    "very long": "x" * 3000,
}
GETS = [
    "training_runs/{}",
    "training_runs/{}/checkpoints",
    "training_runs/{}/checkpoints/external_weights/{}/external_weights_urls",
    "training_runs/a/checkpoints/{}/b/external_weights_urls",
    "sessions/{}",
    "sessions/{}/trace_export",
    "samplers/{}",
    "download?token={}",
    "audit?day={}",
    "audit?event_type={}",
    "billing/usage/events?starting_on={}&ending_before=2026-11-24T00:00:00Z",
    "training_runs?limit={}",
    "sessions?access_scope={}",
]


@pytest.fixture(scope="module")
def http(shared):
    with httpx.Client(base_url=f"{shared.url}/api/v1/", headers={"X-API-Key": shared.key}, timeout=60) as made:
        yield made


def refused(answer):
    """Return whether a request was refused with one sentence, as the mistake of whoever sent it."""
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text)
    sentence = answer.json()["detail"]
    return bool(sentence) and len(sentence) < 600 and "Traceback" not in sentence


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("route", GETS)
def test_an_odd_name_is_refused(http, route, odd):
    assert refused(http.get(route.replace("{}", odd)))


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_name_changes_nothing(http, odd):
    for method, route, body in (
        ("PUT", f"sessions/{odd}/project", {"project_id": "p"}),
        ("POST", f"sessions/{odd}/finish", {"reason": {"type": "success"}}),
        ("DELETE", f"training_runs/{odd}/checkpoints/weights/{odd}", None),
        ("POST", f"training_runs/a/checkpoints/weights/{odd}/publish", None),
        ("PUT", f"training_runs/{odd}/checkpoints/external_weights/{odd}/ttl", {"ttl_seconds": 7200}),
    ):
        assert refused(http.request(method, route, json=body))


def test_storage_of_an_odd_project_is_none(http):
    for odd in ODD.values():
        if len(odd) < 1000:
            assert http.get(f"billing/usage/checkpoints/current?project_id={odd}").json()["data"] == []
            assert http.get(f"training_runs?project_id={odd}").json()["training_runs"] == []


BODIES = {
    "copy_weights": {"source_path": "tinker://a/weights/b", "destination_project_id": "p"},
    "create_custom_loss": None,
    "retrieve_futures": {"target": {"sampling_session_id": "a"}},
    "save_weights_external": {"model_id": "a", "path": "b", "seq_id": 1},
    "sessions/search": {},
    "create_session": {},
}


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'"x"', b"null", b'{"a": 1e999}'], ids=str)
@pytest.mark.parametrize(
    "route", [route for route, body in BODIES.items() if body is not None] + ["create_custom_loss"]
)
def test_a_body_that_is_not_what_the_route_takes_is_refused(http, route, content):
    assert refused(http.post(route, content=content))


ODD_VALUES = [None, 3, -1, 2**70, 1.5, [], {}, "", "a\0b", "../..", "x" * 10_000, ["x"] * 200_000, {"x": {"x": {}}}]


@pytest.mark.parametrize(
    ("route", "field"),
    [
        *(("copy_weights", name) for name in ("source_path", "session_id", "model_seq_id", "ttl_seconds")),
        *(("retrieve_futures", name) for name in ("target", "prev_cursor", "timeout", "retrieved_request_ids")),
        *(("save_weights_external", name) for name in ("path", "seq_id", "model_id", "age_encryption_recipients")),
    ],
)
def test_a_value_of_another_kind_is_refused(http, route, field):
    for value in ODD_VALUES:
        assert refused(http.post(route, json={**BODIES[route], field: value}))


@pytest.mark.parametrize(
    "field", ["display_name", "user_metadata", "project_ids", "owner", "statuses", "limit", "cursor"]
)
def test_an_odd_search_finds_nothing_or_is_refused(http, field):
    for value in ODD_VALUES:
        answer = http.post("sessions/search", json={field: value})
        assert answer.status_code == 200 or refused(answer)


@pytest.mark.parametrize("route", [*BODIES, "sessions/a/project", "sessions/a/finish"])
def test_a_body_beyond_the_limit_is_refused(shared, http, route):
    def much():
        for _ in range(65):
            yield b" " * (1 << 20)

    method = "PUT" if route.endswith("project") else "POST"
    try:
        answer = http.request(method, route, content=much())
    except httpx.TransportError:
        return  # the connection was closed before all of it was sent
    assert refused(answer)


def test_a_session_that_would_fill_the_journal_is_refused(http):
    answer = http.post("create_session", json={"user_metadata": {"x": "y" * 100_000}})
    assert refused(answer)
    assert "user_metadata" in answer.json()["detail"]


@pytest.mark.parametrize("levels", [64, 65, 190, 400])
def test_metadata_that_nest_deep_are_refused_before_anything_writes_them(shared, http, levels):
    nested = {"x": [[]] * 3}
    text = (
        httpx.Request("POST", "http://a", json=nested).read().replace(b"[]", b"[" * (levels - 2) + b"]" * (levels - 2))
    )
    session = http.post("create_session", json={}).json()["session_id"]
    model = {"session_id": session, "model_seq_id": 0, "base_model": str(shared.base), "lora_config": LORA}
    bodies = {
        "create_session": b'{"user_metadata": %s}' % text,
        "create_model": httpx.Request("POST", "http://a", json=model).read()[:-1] + b',"user_metadata": %s}' % text,
    }
    for route, content in bodies.items():
        answer = http.post(route, content=content)
        assert answer.status_code == 200 if levels == 64 else refused(answer), route


@pytest.mark.parametrize("route", ["create_session", "optim_step", "retrieve_futures", "sessions/search", "asample"])
def test_a_body_of_very_many_members_is_refused_before_it_is_read(http, route):
    content = b'{"a" : 1' + b',"":1' * 100_000 + b"}"
    answer = http.post(route, content=content)
    assert refused(answer)
    assert "members" in answer.json()["detail"]


def test_what_every_search_reads_of_a_session_is_short(http):
    session = http.post("create_session", json={"display_name": "talkative"}).json()["session_id"]
    ended = {"reason": {"type": "errored"}, "detail": "x" * 1_000_000}
    assert http.post(f"sessions/{session}/finish", json=ended).status_code == 204
    found = http.post("sessions/search", json={"display_name": "talkative"}).json()["sessions"]
    assert [len(each["status"]["detail"]) for each in found] == [8192]
    assert refused(http.post("create_session", json={"project_id": "p" * 201}))


def test_a_search_that_would_compare_much_with_each_session_is_refused(http):
    statuses = [{"type": "active", "reasons": ["success"] * 1000}]
    assert refused(http.post("sessions/search", json={"statuses": statuses}))


LARGE = 2**70
LORA = {"rank": 4, "seed": 1}


@pytest.mark.parametrize(
    "body",
    [
        {"lora_config": {"rank": 4, "seed": LARGE}},
        {"lora_config": {"rank": 4, "seed": -LARGE}},
        {"lora_config": {"rank": 513}},
        {"lora_config": LORA, "user_metadata": {"x": LARGE}},
        {"lora_config": LORA, "user_metadata": {"x": [{"y": "z" * 70_000}]}},
    ],
    ids=["a seed", "a negative seed", "a rank", "a number in metadata", "metadata"],
)
def test_a_model_of_numbers_and_texts_that_cannot_be_kept_is_refused(shared, http, body):
    session = http.post("create_session", json={}).json()["session_id"]
    asked = {"session_id": session, "model_seq_id": 0, "base_model": str(shared.base), **body}
    assert refused(http.post("create_model", json=asked))
    assert http.get(f"sessions/{session}").json()["training_run_ids"] == []


def test_metadata_of_weights_that_would_fill_the_journal_are_refused(shared, hand):
    one = hand(shared)
    one.create()
    answer = one.http.post(
        "/api/v1/save_weights",
        json={"model_id": one.model, "seq_id": 1, "path": "a", "user_metadata": {"x": "y" * 70_000}},
    )
    assert refused(answer)


@pytest.mark.parametrize("key", [b"eyJ\xff", b"\xff", b"tml-\xff" + b"x" * 40], ids=str)
def test_a_key_that_is_no_text_is_nobodys(http, key):
    answer = http.get("sessions", headers={"X-API-Key": key})
    assert answer.status_code == 401
    assert refused(answer)


def test_an_idempotency_key_that_is_no_text_is_one_all_the_same(shared, hand):
    one = hand(shared)
    one.create()
    saved = one.post("save_weights", {"model_id": one.model, "seq_id": 1, "path": "a"})
    path = one.result(saved["request_id"])["path"]
    asked = {"source_path": path, "destination_project_id": "p"}
    headers = {"X-Idempotency-Key": b"\xff"}
    first, again = (one.send("copy_weights", 200, json=asked, headers=headers).json() for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    "route", ["create_session", "create_model", "optim_step", "session_heartbeat", "retrieve_future", "asample"]
)
def test_json_of_megabytes_is_refused_before_it_is_read(http, route):
    answer = http.post(route, content=b'{"x": [' + b"0," * (1 << 20) + b"0]}")
    assert answer.status_code == 413
    assert "send less in one request" in answer.json()["detail"]


def test_a_long_prompt_is_no_large_body(shared, hand):
    one = hand(shared)
    session = {"session_id": one.session, "sampling_session_seq_id": 0, "base_model": one.base}
    sampler = one.post("create_sampling_session", session)["sampling_session_id"]
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [2**31 - 1] * 90_000}]}
    asked = {"sampling_session_id": sampler, "seq_id": 0, "prompt": prompt, "sampling_params": {"max_tokens": 1}}
    one.post("asample", asked)
