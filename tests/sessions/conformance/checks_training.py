"""Checks of TrainingClient and SamplingClient."""

from __future__ import annotations

import base64
import io
import json
import logging

import httpx
import numpy as np
import pytest
from tinker.lib.public_interfaces.sampling_client import SamplingClient
from tinker.lib.queue_state_logger import QueueState
from tinker.types import AdamParams, ModelInput, SamplingParams

from tests.sessions.conformance.methods import shows
from tests.sessions.conformance.worlds import EXAMPLES, PROBE, learn, same, taken, thought, told
from tests.sessions.hand import datum

SIZE = 32


@shows("the loss and the logprobs, and weights that stay", "TrainingClient.forward")
def forward(world, call):
    client = world.fresh()
    output = call.on(client, [datum(each) for each in EXAMPLES], "cross_entropy")
    sums = sum(sum(each["logprobs"].data) for each in output.loss_fn_outputs)
    assert output.metrics["loss:sum"] == pytest.approx(-sums, abs=1e-5)
    assert client.optim_step(AdamParams()).result().metrics["grad_norm:mean"] == 0


@shows("the loss, and a gradient that the optimizer step takes", "TrainingClient.forward_backward")
def forward_backward(world, call):
    client = world.fresh()
    first = call.on(client, [datum(each) for each in EXAMPLES], "cross_entropy")
    assert client.optim_step(AdamParams(learning_rate=0.1)).result().metrics["grad_norm:mean"] > 0
    again = call.on(client, [datum(each) for each in EXAMPLES], "cross_entropy")
    assert again.metrics["loss:sum"] < first.metrics["loss:sum"]


@shows("the weights that the same loss by its name gives", "TrainingClient.forward_backward_custom")
def forward_backward_custom(world, call):
    custom, plain = world.fresh(), world.fresh()
    data = [datum(each) for each in EXAMPLES]
    output = call.on(custom, data, lambda _, logprobs: (-2 * sum(each.sum() for each in logprobs), {"own": 1.0}))
    plain.forward_backward([datum(each, 2.0) for each in EXAMPLES], "cross_entropy").result()
    for each in (custom, plain):
        each.optim_step(AdamParams(learning_rate=0.1)).result()
    assert output.metrics["own"] == 1.0
    assert same(thought(custom), thought(plain))


@shows("its metrics, and the weights after a step of the given rate", "TrainingClient.optim_step")
def optim_step(world, call):
    still, moved = world.fresh(), world.fresh()
    before = thought(still)
    for client, rate in ((still, 0.0), (moved, 0.1)):
        client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy").result()
        assert call.on(client, AdamParams(learning_rate=rate)).metrics["steps:sum"] == 1
    assert thought(still) == before
    assert thought(moved) != before


@shows("a path under which the weights are found with their metadata and expiry", "TrainingClient.save_state")
def save_state(world, call):
    client = world.fresh()
    learn(client)
    path = call.on(client, "kept", ttl_seconds=7200, user_metadata={"step": "1"}).path
    found = world.checkpoint(path)
    assert (path, found.checkpoint_type) == (f"tinker://{client.model_id}/weights/kept", "training")
    assert found.user_metadata == {"step": "1"}
    assert 7100 < (found.expires_at - found.time).total_seconds() < 7300
    again = world.service.create_training_client_from_state(path).result()
    assert thought(again) == thought(client)


@shows("the weights of a state, with a new optimizer", "TrainingClient.load_state")
def load_state(world, call):
    client, target = world.fresh(), world.fresh(seed=4)
    learn(client)
    call.on(target, client.save_state("kept").result().path)
    assert thought(target) == thought(client)
    assert learn(target)[1].metrics["steps:sum"] == 1


@shows("the weights of a state with its optimizer, bit by bit", "TrainingClient.load_state_with_optimizer")
def load_state_with_optimizer(world, call):
    client, target = world.fresh(), world.fresh(seed=4)
    learn(client)
    call.on(target, client.save_state("kept").result().path)
    assert learn(target)[1].metrics["steps:sum"] == learn(client)[1].metrics["steps:sum"] == 2
    assert thought(target) == thought(client)


@shows("a path that a sampler samples from", "TrainingClient.save_weights_for_sampler")
def save_weights_for_sampler(world, call):
    client = world.fresh()
    learn(client)
    path = call.on(client, "eval").path
    assert path == f"tinker://{client.model_id}/sampler_weights/eval"
    assert same(told(world.service.create_sampling_client(model_path=path).result()), thought(client))


@shows("a sampler with the weights of that moment", "TrainingClient.save_weights_and_get_sampling_client")
def save_weights_and_get_sampling_client(world, call):
    client = world.fresh()
    learn(client)
    before, sampler = thought(client), call.on(client)
    learn(client)
    assert same(told(sampler), before)
    following = call.on(client, kind="inflight")
    learn(client)
    client.save_weights_and_get_sampling_client(kind="inflight").result()
    assert same(told(following), thought(client))


@shows("files that are the weights, in the clear and encrypted with age", "TrainingClient.save_weights_external")
def save_weights_external(world, call):
    import pyrage  # noqa: PLC0415  # the environment of sessions has it

    client, identity = world.fresh(), pyrage.x25519.Identity.generate()
    learn(client)
    path = call.on(client, "out").path
    assert (path, world.checkpoint(path).checkpoint_type) == (
        f"tinker://{client.model_id}/external_weights/out",
        "external",
    )
    (plain,) = fetched(world, path).items()
    locked = call.on(client, "locked", age_encryption_recipients=[str(identity.to_public())]).path
    ((name, data),) = fetched(world, locked).items()
    assert (name, pyrage.decrypt(data, [identity])) == (f"{plain[0]}.age", plain[1])
    assert same(table_logprobs(plain[1]), thought(client))


def fetched(world, path):
    """Return the files of external weights, fetched as anybody would who has the links."""
    urls = world.rest.get_external_weights_urls(path).result().urls
    return {name: httpx.get(url, timeout=60).raise_for_status().content for name, url in urls.items()}


def table_logprobs(data):
    """Return what a file of weights thinks of the probe, by the formula."""
    with np.load(io.BytesIO(data)) as held:
        table = held["table"]
    rows = table[PROBE[:-1]]
    return (rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True)))[np.arange(len(rows)), PROBE[1:]]


@shows("a sampler of named weights", "TrainingClient.create_sampling_client")
def create_sampling_client(world, call):
    client = world.fresh()
    learn(client)
    assert same(told(call.on(client, client.save_weights_for_sampler("eval").result().path)), thought(client))


@shows("the id, the rank and the base of the model", "TrainingClient.get_info")
def get_info(world, call):
    info = call()
    assert (info.model_id, info.is_lora, info.lora_rank) == (world.model.model_id, True, 4)
    assert (info.model_data.model_name, info.model_data.tokenizer_id) == (world.base, world.base)


@shows(
    "a tokenizer of the base, which the client reads from its folder",
    "TrainingClient.get_tokenizer",
    "SamplingClient.get_tokenizer",
    twins=False,
)
def get_tokenizer(world, call):
    tokenizer = call()
    assert tokenizer.decode(tokenizer.encode("abc 123")) == "abc 123"


@shows(
    "a link with the id; what it opens is the maker's page, which knows nothing of this Gateway",
    "TrainingClient.get_console_url",
    twins=False,
    local=True,
)
def training_console_url(world, call):
    assert call().endswith(f"/training_runs/{world.model.model_id}")


@shows("as many sequences as asked for, each with its logprobs; the same again for a seed", "SamplingClient.sample")
def sample(world, call):
    asked = (ModelInput.from_ints([1, 2]), 3, SamplingParams(max_tokens=6, seed=5))
    first, again = call(*asked), call(*asked)
    assert [len(each.tokens) for each in first.sequences] == [6, 6, 6]
    assert [each.tokens for each in first.sequences] == [each.tokens for each in again.sequences]
    assert {each.stop_reason for each in first.sequences} == {"length"}
    whole = [1, 2, *first.sequences[0].tokens]
    by_prompt = world.sampler.compute_logprobs(ModelInput.from_ints(whole)).result()
    assert same(first.sequences[0].logprobs, by_prompt[2:])


@shows("those of the trainer, and none for the first token", "SamplingClient.compute_logprobs")
def compute_logprobs(world, call):
    found = call(ModelInput.from_ints(PROBE))
    assert found[0] is None
    assert same(found[1:], thought(world.model))
    assert call(ModelInput.from_ints(PROBE), prompt_logprobs_last_n=3) == [None] * 5 + found[-3:]


@shows("the name of the base", "SamplingClient.get_base_model")
def get_base_model(world, call):
    assert call() == world.base


@shows("a sampler of the base, of named weights, and of a session that exists", "SamplingClient.create", twins=False)
def create(world, call):
    client = world.fresh()
    path = client.save_weights_for_sampler("eval").result().path
    named = call.on(SamplingClient, client.holder, model_path=path)
    joined = call.on(SamplingClient, client.holder, sampling_session_id=named._sampling_session_id)
    base = call.on(SamplingClient, client.holder, base_model=world.base)
    assert same(told(named), thought(client))
    assert told(joined) == told(named) != told(base)


@shows(
    "a text without a key, from which a client of the same sampler is made",
    "SamplingClient.get_sampler_handle",
    twins=False,
)
def get_sampler_handle(world, call):
    handle = call()
    held = json.loads(base64.urlsafe_b64decode(handle))
    assert held["sampling_session_id"] == world.sampler._sampling_session_id
    assert world.gateway.key not in json.dumps(held)


@shows(
    "a client with numbers of its own that samples from the same weights",
    "SamplingClient.from_sampler_handle",
    twins=False,
)
def from_sampler_handle(world, call):
    handle = world.sampler.get_sampler_handle()
    first, second = (call.on(SamplingClient, handle, api_key=world.gateway.key) for _ in range(2))
    assert told(first) == told(second) == told(world.sampler)


@shows(
    "a warning that tells the user what he waits for", "SamplingClient.on_queue_state_change", twins=False, local=True
)
def on_queue_state_change(world, call):
    # A client of its own, for each says it once a minute, and another check may have waited for the sampler.
    heard, sampler = _Heard(), world.service.create_sampling_client(base_model=world.base).result()
    logger = logging.getLogger("tinker.lib.public_interfaces.sampling_client")
    logger.addHandler(heard)
    try:
        call.on(sampler, QueueState.PAUSED_CAPACITY, "the sampler is starting")
    finally:
        logger.removeHandler(heard)
    assert "the sampler is starting" in heard.buffer[0].getMessage()


class _Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.buffer = []

    def emit(self, record):
        self.buffer.append(record)


@shows(
    "one whose events the Gateway accepts, and drops",
    "TrainingClient.get_telemetry",
    "SamplingClient.get_telemetry",
    twins=False,
)
def get_telemetry(world, call):
    service = world.telling()
    client = (
        service.create_lora_training_client(world.base, rank=4).result()
        if call.kind == "TrainingClient"
        else service.create_sampling_client(base_model=world.base).result()
    )
    assert taken(call.on(client))
    service.close("success").result()
