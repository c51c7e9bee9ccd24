from __future__ import annotations

import sqlite3

import httpx
import pytest
import tinker

from muster.sessions.gateway.scopes import needed
from muster.sessions.journal.sqlite import SqliteJournal
from muster.sessions.runs import tenants

_DAY = 86400.0


@pytest.fixture
async def journal(tmp_path):
    made = SqliteJournal(tmp_path / "journal.sqlite")
    await made.open()
    yield made
    await made.close()


async def test_a_key_ends_when_it_expires(journal):
    key = await tenants.create(journal, "a", 0.0, expires=10.0)
    assert (await tenants.right_of(journal, key.secret, 9.0)).tenant == "a"
    assert await tenants.right_of(journal, key.secret, 10.0) is None
    assert await tenants.right_of_id(journal, key.id, 10.0) is None


async def test_a_key_that_is_rotated_ends_after_the_overlap_and_the_new_one_has_its_rights(journal):
    old = await tenants.create(journal, "a", 0.0, "train,read")
    new = await tenants.rotate(journal, old.id, 100.0, _DAY)
    assert (await tenants.right_of(journal, new.secret, 100.0)).scopes == {"train", "read"}
    assert await tenants.right_of(journal, old.secret, 100.0 + _DAY - 1) is not None
    assert await tenants.right_of(journal, old.secret, 100.0 + _DAY) is None
    assert await tenants.right_of(journal, new.secret, 100.0 + 9 * _DAY) is not None
    assert await tenants.rotate(journal, old.id, 100.0 + _DAY, _DAY) is None


async def test_rotation_lets_no_key_live_longer(journal):
    old = await tenants.create(journal, "a", 0.0, expires=10.0)
    await tenants.rotate(journal, old.id, 5.0, _DAY)
    assert await tenants.right_of(journal, old.secret, 10.0) is None


async def test_a_key_for_some_time_is_followed_by_one_that_lives_as_long(journal):
    old = await tenants.create(journal, "a", 0.0, expires=30 * _DAY)
    new = await tenants.rotate(journal, old.id, 20 * _DAY, _DAY)
    assert await tenants.right_of(journal, new.secret, 50 * _DAY - 1) is not None
    assert await tenants.right_of(journal, new.secret, 50 * _DAY) is None


async def test_the_journal_has_no_secret(journal, tmp_path):
    key = await tenants.create(journal, "a", 0.0)
    new = await tenants.rotate(journal, key.id, 1.0, _DAY)
    kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert not [each for each in (key, new) if each.secret.encode() in kept]


async def test_a_journal_of_an_earlier_version_keeps_its_keys(tmp_path):
    file = tmp_path / "journal.sqlite"
    earlier = sqlite3.connect(file)
    earlier.execute("CREATE TABLE keys (id TEXT PRIMARY KEY, hash TEXT, tenant TEXT, created REAL, revoked REAL)")
    earlier.execute("INSERT INTO keys VALUES ('k', 'h', 'a', 0, NULL)")
    earlier.commit()
    earlier.close()
    journal = SqliteJournal(file)
    await journal.open()
    assert (await tenants.right_of_id(journal, "k", 1.0)).scopes == set(tenants.SCOPES)
    await journal.close()


@pytest.mark.parametrize(
    ("method", "route", "scopes"),
    [
        ("POST", "create_session", set()),
        ("POST", "sessions/1/finish", set()),
        ("POST", "forward_backward", {"train"}),
        ("POST", "something_new", {"train"}),
        ("DELETE", "training_runs/a/checkpoints/weights/b", {"train"}),
        ("POST", "asample", {"sample"}),
        ("GET", "training_runs", {"read"}),
        ("GET", "audit", {"admin"}),
        ("GET", "billing/usage/events", {"admin"}),
    ],
)
def test_a_route_needs_a_scope(method, route, scopes):
    assert needed(method, f"/api/v1/{route}") == scopes


def test_a_scope_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="take some of train, sample, read, admin"):
        tenants.checked("train,everything")


def test_a_key_opens_only_what_its_scopes_say_and_the_client_is_told(shared):
    key = shared.run("keys", "create", "team-s", "--scopes", "sample,read").strip()
    with tinker.ServiceClient(base_url=shared.url, api_key=key) as service:
        sampler = service.create_sampling_client(base_model=str(shared.base)).result()
        assert sampler.compute_logprobs(tinker.ModelInput.from_ints([1, 2, 3])).result()[1] < 0
        with pytest.raises(tinker.PermissionDeniedError, match="has no scope train"):
            service.create_lora_training_client(base_model=str(shared.base), rank=4).result()
    answer = httpx.get(f"{shared.url}/api/v1/audit", headers={"X-API-Key": key})
    assert (answer.status_code, "no scope admin" in answer.json()["detail"]) == (403, True)
