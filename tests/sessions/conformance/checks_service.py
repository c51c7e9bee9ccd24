"""Checks of ServiceClient, RestClient and AdminClient."""

from __future__ import annotations

import os
import warnings
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from unittest.mock import patch

import httpx
import pytest
import tinker
from tinker.types import AdamParams, SessionSearchRequest, StorageBillingEvent

from tests.sessions.conformance.checks_training import fetched
from tests.sessions.conformance.methods import shows
from tests.sessions.conformance.worlds import EXAMPLES, PROJECT, TOKENS, learn, same, taken, thought, told
from tests.sessions.hand import datum


@shows("a model of the given rank, seed and base", "ServiceClient.create_lora_training_client")
def create_lora_training_client(world, call):
    one, same_seed, other = (call(world.base, rank=4, seed=seed, user_metadata={"n": "1"}) for seed in (8, 8, 9))
    assert one.get_info().lora_rank == 4
    assert thought(one) == thought(same_seed) != thought(other)
    assert world.rest.get_training_run(one.model_id).result().user_metadata == {"n": "1"}


@shows("a sampler of the base, and one of named weights", "ServiceClient.create_sampling_client")
def create_sampling_client(world, call):
    client = world.fresh()
    learn(client)
    path = client.save_weights_for_sampler("eval").result().path
    assert same(told(call(model_path=path)), thought(client))
    assert len(set(told(call(base_model=world.base)))) == 1  # the base of these engines finds all tokens equal


@shows("a model with the weights of a state and a new optimizer", "ServiceClient.create_training_client_from_state")
def create_training_client_from_state(world, call):
    client = world.fresh()
    learn(client)
    other = call(world.saved(client))
    assert thought(other) == thought(client)
    assert learn(other)[1].metrics["steps:sum"] == 1


@shows("a model that goes on from a state bit by bit", "ServiceClient.create_training_client_from_state_with_optimizer")
def create_training_client_from_state_with_optimizer(world, call):
    client = world.fresh()
    learn(client)
    other = call(world.saved(client))
    learn(client)
    assert learn(other)[1].metrics["steps:sum"] == 2
    assert thought(other) == thought(client)


@shows("a client of the same session for records", "ServiceClient.create_rest_client", twins=False)
def create_rest_client(world, call):
    assert world.session in call().list_sessions(limit=200).result().sessions


@shows("a loss that forward_backward_custom computes in the client", "ServiceClient.create_custom_loss", twins=False)
def create_custom_loss(world, call):
    def doubled(logprobs, weights):
        loss = -2 * (logprobs * weights).sum()
        return loss, {"custom/doubled:sum": loss}

    custom, plain = world.fresh(), world.fresh()
    handle = call(doubled, {"logprobs": 1, "weights": 1})
    output = custom.forward_backward_custom([datum(each) for each in EXAMPLES], handle).result()
    once = plain.forward_backward([datum(each, 2.0) for each in EXAMPLES], "cross_entropy").result()
    for each in (custom, plain):
        each.optim_step(AdamParams(learning_rate=0.1)).result()
    assert output.metrics["custom/doubled:sum"] == pytest.approx(once.metrics["loss:sum"], abs=1e-4)
    assert same(thought(custom), thought(plain))


@shows(
    "a path to the same weights in a run of the project",
    "ServiceClient.copy_weights",
    twins=False,
)
def service_copy_weights(world, call):
    client = world.fresh()
    learn(client)
    copy = call(world.saved(client), ttl_seconds=7200)
    assert is_copy_in(world, copy, client, PROJECT)
    assert world.checkpoint(copy).expires_at is not None


@shows("a path to the same weights in a run of another project", "RestClient.copy_weights")
def rest_copy_weights(world, call):
    client = world.fresh()
    learn(client)
    path = world.saved(client)
    copy = call(path, "proj-archive")
    assert is_copy_in(world, copy, client, "proj-archive")
    world.rest.delete_checkpoint_from_tinker_path(path).result()
    assert thought(world.service.create_training_client_from_state(copy).result()) == thought(client)


def is_copy_in(world, copy, client, project):
    run = copy.removeprefix("tinker://").split("/")[0]
    assert run != client.model_id
    found = world.rest.list_training_runs(limit=500, project_id=project).result().training_runs
    assert run in {each.training_run_id for each in found}
    again = world.service.create_training_client_from_state(copy).result()
    return thought(again) == thought(client)


@shows("a session that has ended, with the reason", "ServiceClient.close", twins=False)
def close(world, call):
    service = tinker.ServiceClient(base_url=world.gateway.url, api_key=world.gateway.key)
    client = service.create_lora_training_client(world.base, rank=4).result()
    call.on(service, "errored", "a test")
    (found,) = searched(world, session_id=client.model_id.split(":")[0]).sessions
    assert (found.status.type, found.status.reason.type, found.status.detail) == (
        "client_finished",
        "errored",
        "a test",
    )


@shows(
    "a link with the id; what it opens is the maker's page, which knows nothing of this Gateway",
    "ServiceClient.get_console_url",
    twins=False,
    local=True,
)
def service_console_url(world, call):
    assert call().endswith(f"/sessions/{world.session}")


@shows("the base and its context", "ServiceClient.get_server_capabilities")
@shows("the base and its context", "RestClient.get_server_capabilities", twins=False)
def get_server_capabilities(world, call):
    (model,) = call().supported_models
    assert (model.model_name, model.max_context_length) == (world.base, 512)
    assert (model.trainable, model.sampleable) == (True, True)


@shows("one whose events the Gateway accepts, and drops", "ServiceClient.get_telemetry", twins=False)
def service_telemetry(world, call):
    service = world.telling()
    assert taken(call.on(service))
    service.close("success").result()


@shows(
    "one whose events the Gateway accepts, and drops",
    "RestClient.get_telemetry",
    "AdminClient.get_telemetry",
    twins=False,
)
def rest_telemetry(world, call):
    key = world.gateway.run("keys", "create", "team-t").strip()
    with patch.dict(os.environ, TINKER_TELEMETRY="1"):
        client = getattr(tinker, call.kind)(base_url=world.gateway.url, api_key=key)
        telemetry = call.on(client)
    assert taken(telemetry)


def searched(world, **named):
    """Search sessions; the client warns that this may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tinker.ExperimentalWarning)
        return world.rest.search_sessions(SessionSearchRequest(**named)).result()


@shows("the runs, the samplers and the metadata of a session", "RestClient.get_session")
def get_session(world, call):
    found = call(world.session)
    assert world.model.model_id in found.training_run_ids
    assert world.sampler._sampling_session_id in found.sampler_ids
    assert (found.user_metadata, found.display_name) == ({"why": "a test"}, "Level A")


@shows("the ids of sessions, the newest first, page by page", "RestClient.list_sessions")
def list_sessions(world, call):
    everything = call(limit=200).sessions
    assert world.session in everything
    assert call(limit=1, offset=everything.index(world.session)).sessions == [world.session]


@shows("sessions by name, metadata, project, status and id, page by page", "RestClient.search_sessions", twins=False)
def search_sessions(world, call):
    def ids(**named):
        return [each.session_id for each in call(SessionSearchRequest(**named)).sessions]

    assert world.session in ids(display_name="LEVEL a", user_metadata={"why": "a test"}, project_ids=[PROJECT])
    assert world.session not in ids(user_metadata={"why": "another"})
    assert world.session not in ids(statuses=[{"type": "cancelled"}])
    assert ids(session_id=world.session, statuses=[{"type": "active"}]) == [world.session]
    about = {"tags": [], "user_metadata": None, "sdk_version": "0.38.0", "display_name": "pages"}
    for _ in range(3):
        httpx.post(
            f"{world.gateway.url}/api/v1/create_session", json=about, headers={"X-API-Key": world.gateway.key}
        ).raise_for_status()
    first = call(SessionSearchRequest(limit=1, display_name="pages"))
    second = call(SessionSearchRequest(limit=2, display_name="pages", cursor=first.next_cursor))
    assert [len(first.sessions), len(second.sessions), second.next_cursor] == [1, 2, None]
    assert [each.session_id for page in (first, second) for each in page.sessions] == ids(display_name="pages")


@shows("a session whose runs are listed under the project", "RestClient.assign_session_project")
def assign_session_project(world, call):
    with tinker.ServiceClient(base_url=world.gateway.url, api_key=world.gateway.key) as service:
        client = service.create_lora_training_client(world.base, rank=4).result()
        project = f"proj-{client.model_id[:8]}"
        call(client.model_id.split(":")[0], project)
        (found,) = world.rest.list_training_runs(project_id=project).result().training_runs
        assert found.training_run_id == client.model_id


@shows("a link, good without a key, to a trace with a span for each request", "RestClient.export_session_trace")
def export_session_trace(world, call):
    with tinker.ServiceClient(base_url=world.gateway.url, api_key=world.gateway.key) as service:
        client = service.create_lora_training_client(world.base, rank=4).result()
        learn(client)
        told(client.save_weights_and_get_sampling_client().result())
        url = call(client.model_id.split(":")[0])
    spans = httpx.get(url, timeout=60).raise_for_status().json()["traceEvents"]
    names = [each["name"] for each in spans if each["ph"] in {"X", "b"}]
    assert sorted(names) == sorted(
        ["create_model", "forward_backward", "optim_step", "save_weights_for_sampler", "sample"]
    )
    trained = [each for each in spans if each["ph"] == "X"]
    assert all(one["ts"] + one["dur"] <= two["ts"] for one, two in pairwise(trained))


@shows("who the key is of", "RestClient.whoami", twins=False)
def whoami(world, call):
    found = call()
    assert (found.user_urn, found.org_urn, found.email) == ("tml:user:team-a", "tml:organization:team-a", None)


@shows("the base and the path of a sampler", "RestClient.get_sampler")
def get_sampler(world, call):
    path = world.model.save_weights_for_sampler(world.name()).result().path
    sampler = world.service.create_sampling_client(model_path=path).result()
    found = call(sampler._sampling_session_id)
    assert (found.sampler_id, found.base_model, found.model_path) == (sampler._sampling_session_id, world.base, path)


@shows("a run with its base, rank and last checkpoints", "RestClient.get_training_run")
def get_training_run(world, call):
    client = world.fresh()
    path, other = world.saved(client), client.save_weights_for_sampler("eval").result().path
    found = call(client.model_id)
    assert (found.training_run_id, found.base_model, found.lora_rank) == (client.model_id, world.base, 4)
    assert (found.last_checkpoint.tinker_path, found.last_sampler_checkpoint.tinker_path) == (path, other)
    assert found.is_lora
    assert not found.corrupted


@shows("the run of weights", "RestClient.get_training_run_by_tinker_path")
def get_training_run_by_tinker_path(world, call):
    assert call(world.saved()).training_run_id == world.model.model_id


@shows("runs, the newest first, page by page, and those of a project", "RestClient.list_training_runs")
def list_training_runs(world, call):
    client = world.fresh()
    page = call(limit=1)
    assert [each.training_run_id for each in page.training_runs] == [client.model_id]
    assert page.cursor.total_count > 1
    assert call(limit=1, offset=1).training_runs[0].training_run_id != client.model_id
    assert client.model_id in {each.training_run_id for each in call(limit=500, project_id=PROJECT).training_runs}
    assert call(project_id="proj-of-nobody").training_runs == []


@shows("the checkpoints of a run with kind, size and time", "RestClient.list_checkpoints")
def list_checkpoints(world, call):
    client = world.fresh()
    paths = {"training": world.saved(client), "sampler": client.save_weights_for_sampler("eval").result().path}
    found = call(client.model_id).checkpoints
    assert {each.checkpoint_type: each.tinker_path for each in found} == paths
    assert all(each.size_bytes > 0 and each.time.tzinfo is not None for each in found)


@shows("all checkpoints of the caller, the newest first, page by page", "RestClient.list_user_checkpoints")
def list_user_checkpoints(world, call):
    older, newer = world.saved(), world.saved()
    assert [each.tinker_path for each in call(limit=2).checkpoints] == [newer, older]
    page = call(limit=1, offset=1)
    assert [each.tinker_path for each in page.checkpoints] == [older]
    assert (page.cursor.offset, page.cursor.limit) == (1, 1)


@shows("the base and the rank of weights", "RestClient.get_weights_info_by_tinker_path", twins=False)
def get_weights_info_by_tinker_path(world, call):
    found = call(world.saved())
    assert (found.base_model, found.is_lora, found.lora_rank) == (world.base, True, 4)


@shows("a list without the checkpoint", "RestClient.delete_checkpoint")
def delete_checkpoint(world, call):
    path = world.saved()
    call(world.model.model_id, path.split("/", 3)[3])
    assert world.checkpoint(path) is None


@shows("a list without the checkpoint", "RestClient.delete_checkpoint_from_tinker_path")
def delete_checkpoint_from_tinker_path(world, call):
    path, kept = world.saved(), world.saved()
    call(path)
    assert world.checkpoint(path) is None
    assert world.checkpoint(kept) is not None


@shows("weights that another tenant can read", "RestClient.publish_checkpoint_from_tinker_path")
def publish_checkpoint(world, call):
    path = world.saved()
    call(path)
    assert world.checkpoint(path).public
    assert world.other.get_weights_info_by_tinker_path(path).result().lora_rank == 4


@shows("weights that another tenant cannot read any more", "RestClient.unpublish_checkpoint_from_tinker_path")
def unpublish_checkpoint(world, call):
    path = world.saved()
    world.rest.publish_checkpoint_from_tinker_path(path).result()
    call(path)
    assert not world.checkpoint(path).public
    with pytest.raises(tinker.APIStatusError, match="not yours"):
        world.other.get_weights_info_by_tinker_path(path).result()


@shows("an expiry, and none again", "RestClient.set_checkpoint_ttl_from_tinker_path")
def set_checkpoint_ttl(world, call):
    path = world.saved()
    call(path, 7200)
    left = world.checkpoint(path).expires_at - datetime.now(UTC)
    assert timedelta(seconds=6000) < left < timedelta(seconds=7300)
    call(path, None)
    assert world.checkpoint(path).expires_at is None


@shows("a link for each file, good without a key until it expires", "RestClient.get_external_weights_urls")
def get_external_weights_urls(world, call):
    path = world.model.save_weights_external(world.name()).result().path
    found = call(path)
    assert timedelta(minutes=5) < found.expires - datetime.now(UTC) < timedelta(minutes=11)
    assert list(found.urls) == ["weights.npz"]
    got = httpx.get(found.urls["weights.npz"], timeout=60)
    assert (got.status_code, got.content) == (200, fetched(world, path)["weights.npz"])
    assert len(got.content) == world.checkpoint(path).size_bytes


@shows("an entry for what happened, of the day and the kind", "AdminClient.get_audit_log", "RestClient.get_audit_log")
def get_audit_log(world, call):
    before = datetime.now(UTC).date()
    path = world.saved()
    world.rest.delete_checkpoint_from_tinker_path(path).result()
    days = {before, datetime.now(UTC).date()}
    entries = [each for day in sorted(days) for each in call("checkpoints", day).entries]
    assert [each.event for each in entries if each.tinker_path == path] == ["checkpoint_saved", "checkpoint_deleted"]
    assert [each.timestamp for each in entries] == sorted(each.timestamp for each in entries)
    everything = {each.event for each in call().entries} | {each.event for each in call("all", before).entries}
    assert "session_created" in everything
    assert "session_created" not in {each.event for each in entries}


@shows(
    "the tokens and checkpoints by the hour, to the token",
    "AdminClient.get_billing_usage",
    "RestClient.get_billing_usage",
)
def get_billing_usage(world, call):
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    client = world.fresh()

    def used():
        found = call(start, start + timedelta(hours=3))
        assert found.sessions[world.session].user_metadata == {"why": "a test"}
        assert not any(isinstance(each.event_info, StorageBillingEvent) for each in found.data)
        mine = [each for each in found.data if each.session_id == world.session]
        assert {(each.base_model, each.project_id) for each in mine} == {(world.base, PROJECT)}
        amounts = {}
        for each in mine:
            amount = each.event_info.count if each.event_info.type == "checkpoint" else each.event_info.token_count
            amounts[each.event_info.type] = amounts.get(each.event_info.type, 0) + amount
        return amounts

    world.saved(client)
    told(world.sampler)
    learn(client)
    world.sampler.sample(*_asked(2)).result()
    before = used()
    learn(client)
    world.sampler.sample(*_asked(3)).result()
    world.saved(client)
    after = used()
    assert {kind: after[kind] - before[kind] for kind in after} == {
        "training": TOKENS,
        "sampling_prefill": 2,
        "sampling_sample": 3 * 4,
        "checkpoint": 1,
    }


def _asked(count):
    return tinker.types.ModelInput.from_ints([1, 2]), count, tinker.types.SamplingParams(max_tokens=4, seed=1)


@shows(
    "the number and bytes of checkpoints by project",
    "AdminClient.get_current_checkpoint_storage_usage",
    "RestClient.get_current_checkpoint_storage_usage",
)
def get_current_checkpoint_storage_usage(world, call):
    world.saved()

    def stored():
        (found,) = call(PROJECT).data
        assert found.org_user_urn == "tml:user:team-a"
        return found.checkpoint_count, found.size_bytes

    (count, size), path = stored(), world.saved()
    assert stored() == (count + 1, size + world.checkpoint(path).size_bytes)
    assert PROJECT in {each.project_id for each in call().data}
    assert call("proj-of-nobody").data == []
