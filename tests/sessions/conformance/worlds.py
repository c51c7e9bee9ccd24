"""What the methods of the client are called on: a Gateway, a client of each kind, and how a method is called."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import string
import warnings
from unittest.mock import patch

import numpy as np
import tinker
from tinker import types
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.sessions.hand import datum

EXAMPLES = [[1, 2, 3], [2, 3, 4, 5], [7, 8, 1]]
TOKENS = 7  # that a pass over the examples reads
PROBE = [1, 2, 3, 4, 5, 6, 7, 8]
PROJECT = "proj-level-a"


class World:
    """A Gateway with two tenants, and clients of it."""

    def __init__(self, gateway):
        self.gateway, self.base = gateway, str(gateway.base)
        self.service = tinker.ServiceClient(
            base_url=gateway.url,
            api_key=gateway.key,
            project_id=PROJECT,
            display_name="Level A",
            user_metadata={"why": "a test"},
        )
        self.rest = tinker.RestClient(base_url=gateway.url, api_key=gateway.key)
        self.admin = tinker.AdminClient(base_url=gateway.url, api_key=gateway.key)
        self.model = self.fresh()
        self.session = self.model.model_id.split(":")[0]
        self.sampler = self.model.save_weights_and_get_sampling_client().result()
        self.other_key = gateway.run("keys", "create", "team-b").strip()
        self.other = tinker.RestClient(base_url=gateway.url, api_key=self.other_key)
        self._names = 0

    def client(self, kind):
        """Return the client of a class."""
        clients = {
            "AdminClient": self.admin,
            "RestClient": self.rest,
            "SamplingClient": self.sampler,
            "ServiceClient": self.service,
            "TrainingClient": self.model,
        }
        return clients[kind]

    def fresh(self, seed=3):
        """Return a client of a new model."""
        return self.service.create_lora_training_client(self.base, rank=4, seed=seed).result()

    def name(self):
        """Return a name that no weights have."""
        self._names += 1
        return f"w{self._names}"

    def saved(self, client=None):
        """Return the path of a new state."""
        return (client or self.model).save_state(self.name()).result().path

    def checkpoint(self, path):
        """Return what the list of a run says of weights; None when it does not have them."""
        run = path.removeprefix("tinker://").split("/")[0]
        found = self.rest.list_checkpoints(run).result().checkpoints
        return next((each for each in found if each.tinker_path == path), None)

    def telling(self):
        """Return a service whose clients tell of themselves, which others do not in tests."""
        with patch.dict(os.environ, TINKER_TELEMETRY="1"):
            made = tinker.ServiceClient(base_url=self.gateway.url, api_key=self.other_key)
            made.create_sampling_client(base_model=self.base).result()
        return made

    def close(self):
        """End the session."""
        self.service.close("success").result()


class Call:
    """Calls a method as its users do: waits for what it promises, and expects a warning where it is deprecated."""

    def __init__(self, world, method):
        self._world = world
        self.kind, _, self.name = method.partition(".")

    def __call__(self, *args, **named):
        return self.on(self._world.client(self.kind), *args, **named)

    def on(self, client, *args, **named):
        """Call the method of a client, or of its class."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            answer = settled(getattr(client, self.name)(*args, **named))
        told = [each for each in told if each.category in {FutureWarning, tinker.ExperimentalWarning}]
        told = [each for each in told if "DEPRECATED" in str(each.message) or "experimental" in str(each.message)]
        assert bool(told) == hasattr(getattr(type(client), self.name, None), "__deprecated__")
        return answer


def tokenizer_in(folder):
    """Write a tokenizer of letters and digits as `AutoTokenizer` reads it."""
    vocabulary = {each: number for number, each in enumerate(["<unk>", " ", *string.digits, *string.ascii_lowercase])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def settled(value):
    """Return what a call came to, which promises it as a coroutine or as a future."""
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    return value.result() if hasattr(value, "result") else value


def learn(client, rate=0.1):
    passed = client.forward_backward([datum(each) for each in EXAMPLES], "cross_entropy")
    stepped = client.optim_step(types.AdamParams(learning_rate=rate))
    return passed.result(), stepped.result()


def thought(client):
    """Return what a model thinks of the probe, which tells its weights."""
    return client.forward([datum(PROBE)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data


def told(sampler):
    """Return what a sampler thinks of the probe."""
    return sampler.compute_logprobs(types.ModelInput.from_ints(PROBE)).result()[1:]


def same(one, other):
    np.testing.assert_allclose(one, other, atol=1e-6)
    return True


def taken(telemetry):
    """Send an event as a client does that tells of itself, and return whether the Gateway took it."""
    sent = telemetry._send_batch(telemetry._batch([telemetry._generic_event("a test", {"n": 1})]))
    loop = telemetry._tinker_provider.get_loop()
    return asyncio.run_coroutine_threadsafe(sent, loop).result().status == "accepted"
