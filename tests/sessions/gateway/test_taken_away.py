"""Weights that leave: copies, files by signed links, encryption; and what another tenant sees of it."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
import tinker
from tinker.types import SessionSearchRequest


@pytest.fixture(scope="module")
def service(shared):
    with tinker.ServiceClient(base_url=shared.url, api_key=shared.key, project_id="proj-a") as made:
        yield made


@pytest.fixture(scope="module")
def rest(shared):
    return tinker.RestClient(base_url=shared.url, api_key=shared.key)


@pytest.fixture(scope="module")
def model(service, shared):
    return service.create_lora_training_client(str(shared.base), rank=4).result()


@pytest.fixture
def other(service, shared):
    """A model whose numbers are taken by hand."""
    return service.create_lora_training_client(str(shared.base), rank=4).result()


@pytest.fixture(scope="module")
def http(shared):
    with httpx.Client(base_url=f"{shared.url}/api/v1/", headers={"X-API-Key": shared.key}, timeout=60) as made:
        yield made


@pytest.fixture
def stranger(shared, request):
    """Another tenant, for this test alone."""
    tenant = request.node.name.replace("_", "-")[-30:].strip("-")
    key = shared.run("keys", "create", tenant).strip()
    with httpx.Client(base_url=f"{shared.url}/api/v1/", headers={"X-API-Key": key}, timeout=60) as made:
        made.tenant = tenant
        yield made


def link(rest, path):
    return rest.get_external_weights_urls(path).result().urls["weights.npz"]


def test_a_copy_that_is_asked_for_again_is_the_same_copy(http, model):
    path = model.save_state("one").result().path
    body = {"source_path": path, "destination_project_id": "proj-b"}
    first, again = (http.post("copy_weights", json=body, headers={"X-Idempotency-Key": "k1"}).json() for _ in range(2))
    other = http.post("copy_weights", json=body, headers={"X-Idempotency-Key": "k2"}).json()
    assert first == again != other


def test_a_copy_into_a_session_has_the_id_that_its_caller_predicts(http, model):
    path, session = model.save_state("two").result().path, model.model_id.split(":")[0]
    body = {"source_path": path, "session_id": session, "model_seq_id": 50}
    assert http.post("copy_weights", json=body).json() == {"tinker_path": f"tinker://{session}:train:50/weights/two"}
    taken = http.post("copy_weights", json={**body, "model_seq_id": int(model.model_id.rsplit(":", 1)[1])})
    assert (taken.status_code, "another model_seq_id" in taken.json()["detail"]) == (409, True)


def test_a_run_that_holds_a_copy_cannot_be_trained(http, model):
    path = model.save_state("three").result().path
    copy = http.post("copy_weights", json={"source_path": path, "destination_project_id": "proj-b"}).json()
    run = copy["tinker_path"].removeprefix("tinker://").split("/")[0]
    step = http.post("optim_step", json={"model_id": run, "seq_id": 1, "adam_params": {}})
    assert step.status_code == 404
    assert http.post("get_info", json={"model_id": run}).json()["lora_rank"] == 4


def test_access_tokens_of_weights_are_refused(http, model):
    path = model.save_state("four").result().path
    body = {"source_path": path, "destination_project_id": "proj-b"}
    for answer in (
        http.post("copy_weights", json={**body, "weights_access_token": "secret"}),
        http.post("copy_weights", json=body, headers={"X-Tinker-Weights-Access-Token": "secret"}),
    ):
        assert (answer.status_code, "published" in answer.json()["detail"]) == (422, True)


def test_weights_to_take_away_cannot_be_loaded_or_copied(http, service, model):
    path = model.save_weights_external("five").result().path
    with pytest.raises(
        (tinker.APIStatusError, tinker.RequestFailedError), match="external weights are to be taken away"
    ):
        service.create_training_client_from_state(path).result()
    with pytest.raises(
        (tinker.APIStatusError, tinker.RequestFailedError), match="external weights are to be taken away"
    ):
        service.create_sampling_client(model_path=path).result()
    copied = http.post("copy_weights", json={"source_path": path, "destination_project_id": "proj-b"})
    assert copied.status_code == 422


def test_a_name_of_weights_to_take_away_is_taken_once(model):
    model.save_weights_external("six").result()
    with pytest.raises(tinker.RequestFailedError, match="delete them first"):
        model.save_weights_external("six").result()


@pytest.mark.parametrize(
    "recipient",
    [
        "",
        "age1",
        "age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t",
        "ssh-rsa",
        "/etc/passwd",
        "x" * 9000,
    ],
)
def test_a_recipient_that_is_none_is_refused_before_anything_is_saved(http, other, recipient):
    body = {"model_id": other.model_id, "path": "seven", "seq_id": 1, "age_encryption_recipients": [recipient]}
    answer = http.post("save_weights_external", json=body)
    told = answer.json()["detail"]
    assert (answer.status_code, told.startswith("age_encryption_recipients[0]: is neither")) == (422, True)


def test_eleven_recipients_are_refused(http, other):
    body = {"model_id": other.model_id, "path": "eight", "seq_id": 1, "age_encryption_recipients": ["age1"] * 11}
    assert "give 10 at most" in http.post("save_weights_external", json=body).json()["detail"]


def test_nothing_is_left_in_the_clear_of_weights_that_were_encrypted(shared, model):
    import pyrage  # noqa: PLC0415  # the environment of sessions has it

    public = str(pyrage.x25519.Identity.generate().to_public())
    path = model.save_weights_external("nine", age_encryption_recipients=[public]).result().path
    folders = [each for each in (shared.folder / "external_weights").rglob("*.age") if each.is_file()]
    assert [each.name for each in folders] == ["weights.npz.age"]
    assert [each.name for each in folders[0].parent.iterdir()] == ["weights.npz.age"]
    assert not list((shared.folder / "external_weights").rglob("*.plain"))
    assert path.endswith("/external_weights/nine")


def test_a_link_ends_with_its_file(http, rest, model):
    path = model.save_weights_external("ten").result().path
    url = link(rest, path)
    assert httpx.get(url, timeout=60).status_code == 200
    rest.delete_checkpoint_from_tinker_path(path).result()
    gone = httpx.get(url, timeout=60)
    assert (gone.status_code, gone.json()["detail"]) == (404, "what this link was for has been deleted")


def keyed(shared, path, *words):
    """Return a link that a further key of the tenant asked for, when it ends as was told, and the id of the key."""
    key = shared.run("keys", "create", "team-a", *words).strip()
    told = tinker.RestClient(base_url=shared.url, api_key=key).get_external_weights_urls(path).result()
    return told.urls["weights.npz"], told.expires, key[:12]


def fetched(url):
    return httpx.get(url, timeout=60).status_code


def test_a_link_ends_when_its_key_is_revoked(shared, http, model):
    url, _, id_ = keyed(shared, model.save_weights_external("revoked").result().path)
    session = model.model_id.split(":")[0]
    traced = http.get(f"sessions/{session}/trace_export").json()["url"]
    assert (fetched(url), fetched(traced)) == (200, 200)
    shared.run("keys", "revoke", id_)
    ended = httpx.get(url, timeout=60)
    assert (ended.status_code, "ask for a new one" in ended.json()["detail"]) == (403, True)
    assert fetched(traced) == 200  # which another key asked for


def test_a_link_ends_when_its_key_has_been_rotated_and_the_overlap_is_over(shared, model):
    url, _, id_ = keyed(shared, model.save_weights_external("rotated").result().path)
    shared.run("keys", "rotate", id_, "--overlap", "1d")
    assert fetched(url) == 200
    shared.run("keys", "rotate", id_, "--overlap", "0s")
    assert fetched(url) == 403


def test_a_link_ends_when_its_key_expires_and_says_so(shared, model):
    url, expires, id_ = keyed(shared, model.save_weights_external("expired").result().path, "--expires", "5m")
    assert 200 < expires.timestamp() - time.time() <= 300
    assert fetched(url) == 200
    with contextlib.closing(sqlite3.connect(shared.folder / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE keys SET expires = ? WHERE id = ?", (time.time(), id_))
    assert fetched(url) == 403


def test_a_link_lives_for_ten_minutes_unless_serve_was_told_otherwise(shared, model):
    url, expires, _ = keyed(shared, model.save_weights_external("lives").result().path)
    (token,) = parse_qs(urlsplit(url).query)["token"]
    told = jwt.decode(token, options={"verify_signature": False})
    assert told["exp"] - told["iat"] == 600
    assert 500 < expires.timestamp() - time.time() <= 600


def test_a_link_is_good_for_its_file_and_its_time_and_nothing_else(shared, rest, model):
    url = link(rest, model.save_weights_external("eleven").result().path)
    (token,) = parse_qs(urlsplit(url).query)["token"]
    key = (shared.folder / "signing.key").read_bytes()
    told = jwt.decode(token, key, algorithms=["HS256"], audience="muster-download")
    for changed in (
        jwt.encode({**told, "exp": int(time.time()) - 91}, key, "HS256"),
        jwt.encode({**told, "aud": "muster-api"}, key, "HS256"),
        jwt.encode(told, "x" * 64, "HS256"),
    ):
        assert httpx.get(f"{shared.url}/api/v1/download?token={changed}", timeout=60).status_code == 403
    for name in ("../../../journal.sqlite", "manifest.json", "/etc/passwd"):
        other = jwt.encode({**told, "file": name}, key, "HS256")
        assert httpx.get(f"{shared.url}/api/v1/download?token={other}", timeout=60).status_code == 404
    assert httpx.get(f"{shared.url}/api/v1/sessions", headers={"X-API-Key": token}, timeout=60).status_code == 401


def test_another_tenant_finds_nothing_of_it(http, stranger, rest, model):
    path = model.save_weights_external("twelve").result().path
    state, session = model.save_state("twelve").result().path, model.model_id.split(":")[0]
    sampler = model.save_weights_and_get_sampling_client().result()._sampling_session_id
    run = f"training_runs/{model.model_id}"
    asks = [
        ("GET", f"{run}/checkpoints/external_weights/twelve/external_weights_urls", None),
        ("GET", f"sessions/{session}/trace_export", None),
        ("PUT", f"sessions/{session}/project", {"project_id": "mine"}),
        ("POST", "copy_weights", {"source_path": state, "destination_project_id": "mine"}),
        ("POST", "copy_weights", {"source_path": path, "session_id": session, "model_seq_id": 9}),
        ("POST", "retrieve_futures", {"target": {"sampling_session_id": sampler}, "timeout": 0}),
        ("POST", "save_weights_external", {"model_id": model.model_id, "path": "x", "seq_id": 500}),
        ("POST", "join_sampling_session", {"sampling_session_id": sampler}),
        ("DELETE", f"{run}/checkpoints/external_weights/twelve", None),
    ]
    told = [(route, stranger.request(method, route, json=body)) for method, route, body in asks]
    assert {answer.status_code for _, answer in told} <= {404, 422}
    assert all("not yours" in answer.json()["detail"] for _, answer in told)
    assert stranger.get("audit").json() == {"entries": []}
    assert stranger.get("billing/usage/checkpoints/current").json()["data"] == []
    window = "starting_on=2026-01-01T00:00:00Z&ending_before=2026-01-02T00:00:00Z"
    assert stranger.get(f"billing/usage/events?{window}").json()["data"] == []
    for owner in ({"type": "accessible"}, {"type": "user", "owner_urns": ["tml:user:team-a"]}):
        asked = SessionSearchRequest(owner=owner).model_dump(mode="json", exclude_none=True)
        assert stranger.post("sessions/search", json=asked).json()["sessions"] == []
    assert rest.get_weights_info_by_tinker_path(state).result().lora_rank == 4


def test_the_owner_of_published_weights_is_told_who_reads_them(http, stranger, rest, model):
    path = model.save_state("thirteen").result().path
    rest.publish_checkpoint_from_tinker_path(path).result()
    copy = stranger.post("copy_weights", json={"source_path": path, "destination_project_id": "theirs"})
    assert copy.status_code == 200
    days = [datetime.now(UTC).date() - timedelta(days=before) for before in (1, 0)]
    told = [each for day in days for each in http.get(f"audit?event_type=checkpoints&day={day}").json()["entries"]]
    told = [each for each in told if each["tinker_path"] == path]
    assert [each["event"] for each in told] == ["checkpoint_saved", "checkpoint_published", "checkpoint_read"]
    assert (told[-1]["event_details"]["user"], told[-1]["purpose"]) == (f"tml:user:{stranger.tenant}", "copy")


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-11-01T00:00:00Z", "2026-11-16T00:00:00Z"),
        ("2026-11-02T00:00:00Z", "2026-11-01T00:00:00Z"),
        ("2026-11-02T00:30:00Z", "2026-11-02T02:00:00Z"),
        ("2026-11-02T00:00:00", "2026-11-02T02:00:00"),
        ("2999-11-02T00:00:00Z", "2999-11-02T02:00:00Z"),
        ("yesterday", "today"),
    ],
)
def test_a_time_that_cannot_be_accounted_is_refused(http, start, end):
    answer = http.get("billing/usage/events", params={"starting_on": start, "ending_before": end})
    assert (answer.status_code, bool(answer.json()["detail"])) == (422, True)
