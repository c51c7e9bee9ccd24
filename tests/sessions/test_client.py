"""What the public client does with a Gateway, method by method."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tinker
from tinker import types

from tests.sessions.hand import datum

EXAMPLES = [[1, 2, 3], [2, 3, 4, 5], [7, 8, 1]]
PROBE = [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.fixture(scope="module")
def service(shared):
    with tinker.ServiceClient(base_url=shared.url, api_key=shared.key) as made:
        yield made


@pytest.fixture(scope="module")
def rest(shared):
    return tinker.RestClient(base_url=shared.url, api_key=shared.key)


@pytest.fixture
def client(service, shared):
    return service.create_lora_training_client(base_model=str(shared.base), rank=4, seed=3).result()


def learn(client, rate=0.1):
    passed = client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy")
    stepped = client.optim_step(types.AdamParams(learning_rate=rate))
    return passed.result(), stepped.result()


def thought(client):
    """Return what a model thinks of the probe, which tells its weights."""
    return client.forward([datum(PROBE)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data


def test_the_client_says_what_the_server_can(rest, shared):
    (model,) = rest.get_server_capabilities().result().supported_models
    assert (model.model_name, model.max_context_length, model.trainable) == (str(shared.base), 512, True)


def test_a_step_lowers_the_loss_and_answers_its_metrics(client):
    first, stepped = learn(client)
    again, _ = learn(client)
    assert again.metrics["loss:sum"] < first.metrics["loss:sum"]
    assert stepped.metrics["grad_norm:mean"] > 0
    assert [len(each["logprobs"].data) for each in first.loss_fn_outputs] == [2, 3, 2]


def test_get_info_tells_what_the_model_is(client, shared):
    info = client.get_info()
    assert (info.model_id, info.is_lora, info.lora_rank, info.model_data.tokenizer_id) == (
        client.model_id,
        True,
        4,
        str(shared.base),
    )


def test_a_custom_loss_gives_the_gradient_of_its_closed_form(service, shared):
    def doubled(data, logprobs):
        return -2 * sum(each.sum() for each in logprobs), {"own": 1.0}

    custom, plain = (service.create_lora_training_client(str(shared.base), rank=4, seed=3).result() for _ in range(2))
    told = custom.forward_backward_custom([datum(each) for each in EXAMPLES], doubled).result()
    plain.forward_backward([datum(each, 2.0) for each in EXAMPLES], "cross_entropy").result()
    for each in (custom, plain):
        each.optim_step(types.AdamParams(learning_rate=0.1)).result()
    assert told.metrics["own"] == 1.0
    np.testing.assert_allclose(thought(custom), thought(plain), atol=1e-6)


def test_a_state_with_its_optimizer_goes_on_bit_by_bit(service, client):
    learn(client)
    path = client.save_state("first").result().path
    assert path == f"tinker://{client.model_id}/weights/first"
    other = service.create_training_client_from_state_with_optimizer(path).result()
    assert thought(other) == thought(client)
    learn(client)
    learn(other)
    assert thought(other) == thought(client)


def test_a_state_without_its_optimizer_begins_a_new_one(service, client):
    learn(client)
    path = client.save_state("first").result().path
    other = service.create_training_client_from_state(path).result()
    assert learn(other)[1].metrics["steps:sum"] == 1


def test_a_state_of_another_rank_is_not_loaded_into_a_model(service, shared, client):
    other = service.create_lora_training_client(str(shared.base), rank=8).result()
    path = other.save_state("eight").result().path
    with pytest.warns(FutureWarning, match="DEPRECATED"):
        loading = client.load_state(path)
    with pytest.raises(tinker.RequestFailedError, match="rank 8 and not 4") as raised:
        loading.result()
    assert raised.value.category == "user"
    assert service.create_training_client_from_state(path).result().get_info().lora_rank == 8


def test_a_name_is_taken_once_unless_it_is_overwritten(client):
    client.save_state("best").result()
    with pytest.raises(tinker.RequestFailedError, match="pass overwrite=True"):
        client.save_state("best").result()
    learn(client)
    assert client.save_state("best", overwrite=True).result().path.endswith("/best")


def test_a_sampler_has_the_weights_it_was_made_with_and_a_new_one_the_new(client):
    learn(client, 1.0)
    old = client.save_weights_and_get_sampling_client().result()
    before = old.compute_logprobs(types.ModelInput.from_ints(PROBE)).result()
    np.testing.assert_allclose(before[1:], thought(client), atol=1e-6)
    learn(client, 1.0)
    new = client.save_weights_and_get_sampling_client().result()
    np.testing.assert_allclose(
        new.compute_logprobs(types.ModelInput.from_ints(PROBE)).result()[1:], thought(client), atol=1e-6
    )
    assert old.compute_logprobs(types.ModelInput.from_ints(PROBE)).result() == before


def test_named_weights_are_sampled_from_by_their_path(service, client):
    learn(client)
    path = client.save_weights_for_sampler("eval").result().path
    sampler = service.create_sampling_client(model_path=path).result()
    np.testing.assert_allclose(
        sampler.compute_logprobs(types.ModelInput.from_ints(PROBE)).result()[1:], thought(client), atol=1e-6
    )


def test_the_base_is_sampled_from_by_its_name_and_a_seed_repeats(service, shared):
    sampler = service.create_sampling_client(base_model=str(shared.base)).result()
    params = types.SamplingParams(max_tokens=6, seed=11)
    first, again, other = (
        sampler.sample(types.ModelInput.from_ints([1, 2]), 3, each).result()
        for each in (params, params, types.SamplingParams(max_tokens=6, seed=12))
    )
    tokens = [[list(each.tokens) for each in got.sequences] for got in (first, again, other)]
    assert tokens[0] == tokens[1] != tokens[2]
    assert len({each.sequence_id for each in first.sequences}) == 3


def test_many_chunks_are_one_batch(service, shared):
    whole, chunked = (service.create_lora_training_client(str(shared.base), rank=4, seed=3).result() for _ in range(2))
    data = [datum(EXAMPLES[number % 3]) for number in range(1500)]  # the client sends 1024 at a time
    sums = [each.forward_backward(data, "cross_entropy").result().metrics["loss:sum"] for each in (whole,)]
    for part in range(0, 1500, 100):
        chunked.forward_backward(data[part : part + 100], "cross_entropy").result()
    for each in (whole, chunked):
        each.optim_step(types.AdamParams(learning_rate=1e-3)).result()
    assert sums[0] > 0
    np.testing.assert_allclose(thought(whole), thought(chunked), atol=1e-6)


def test_an_unknown_loss_reaches_the_user_as_his_own_mistake(client):
    with pytest.raises(tinker.RequestFailedError, match="this engine does cross_entropy only") as raised:
        client.forward_backward([datum([1, 2])], "ppo").result()
    assert raised.value.category == "user"
    assert learn(client)[0].metrics["loss:sum"] > 0


def test_checkpoints_are_listed_published_given_a_ttl_and_deleted(rest, client):
    path = client.save_state("kept", user_metadata={"why": "a test"}).result().path
    (found,) = rest.list_checkpoints(client.model_id).result().checkpoints
    assert (found.tinker_path, found.checkpoint_type, found.public) == (path, "training", False)
    assert found.user_metadata == {"why": "a test"}
    rest.publish_checkpoint_from_tinker_path(path).result()
    rest.set_checkpoint_ttl_from_tinker_path(path, 7200).result()
    (found,) = rest.list_checkpoints(client.model_id).result().checkpoints
    assert found.public
    assert 7000 < found.expires_at.timestamp() - time.time() < 7300
    assert rest.get_weights_info_by_tinker_path(path).result().lora_rank == 4
    rest.delete_checkpoint_from_tinker_path(path).result()
    assert rest.list_checkpoints(client.model_id).result().checkpoints == []


def test_runs_and_sessions_are_found(rest, client):
    run = rest.get_training_run(client.model_id).result()
    assert (run.training_run_id, run.lora_rank, run.corrupted) == (client.model_id, 4, False)
    assert client.model_id in {
        each.training_run_id for each in rest.list_training_runs(limit=500).result().training_runs
    }
    session = client.model_id.split(":")[0]
    assert client.model_id in rest.get_session(session).result().training_run_ids
    assert session in rest.list_sessions().result().sessions


def test_another_tenant_finds_nothing(shared, client):
    path = client.save_state("mine").result().path
    key = shared.run("keys", "create", "team-b").strip()
    with tinker.ServiceClient(base_url=shared.url, api_key=key) as other:
        rest = tinker.RestClient(base_url=shared.url, api_key=key)
        for ask in (
            lambda: rest.get_training_run(client.model_id).result(),
            lambda: rest.delete_checkpoint_from_tinker_path(path).result(),
        ):
            with pytest.raises(tinker.NotFoundError):
                ask()
        with pytest.raises((tinker.APIStatusError, tinker.RequestFailedError, ValueError), match="not yours"):
            other.create_sampling_client(model_path=path).result().compute_logprobs(
                types.ModelInput.from_ints([1, 2])
            ).result()


def test_a_key_that_nobody_has_is_refused(shared):
    with pytest.raises(tinker.AuthenticationError):
        tinker.RestClient(base_url=shared.url, api_key="tml-" + "x" * 40).get_server_capabilities().result()


def test_a_session_that_is_closed_takes_no_more_work(shared):
    service = tinker.ServiceClient(base_url=shared.url, api_key=shared.key)
    client = service.create_lora_training_client(base_model=str(shared.base), rank=4).result()
    session = client.model_id.split(":")[0]
    service.close("success")
    assert "client_finished" in next(line for line in shared.run("ls").splitlines() if line.startswith(session))
