"""One poll for all samples of a client: which of them have ended, in their order."""

from __future__ import annotations

import httpx
import pytest
import tinker
from tinker.types import ModelInput, SamplingParams

PROMPT = ModelInput.from_ints([1, 2])


@pytest.fixture(scope="module")
def http(shared):
    with httpx.Client(base_url=f"{shared.url}/api/v1/", headers={"X-API-Key": shared.key}, timeout=60) as made:
        yield made


@pytest.fixture
def sampler(shared):
    """A client of a Gateway that has its clients ask for all of their samples at once."""
    with tinker.ServiceClient(base_url=shared.url, api_key=shared.key) as service:
        service.create_lora_training_client(str(shared.base), rank=4).result()
        holder = service._session_holder
        holder._client_config = holder._client_config.model_copy(update={"sample_use_retrieve_futures": True})
        yield service.create_sampling_client(base_model=str(shared.base)).result()


def polled(http, sampler, cursor=0, timeout=0.0, clone=0):
    target = {"sampling_session_id": sampler._sampling_session_id, "cloned_sampler_id": clone}
    answer = http.post("retrieve_futures", json={"target": target, "prev_cursor": cursor, "timeout": timeout})
    return answer.raise_for_status().json()


def test_a_client_gets_all_its_samples_by_one_poll(sampler):
    asked = [sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4, seed=seed)) for seed in range(40)]
    tokens = [each.result().sequences[0].tokens for each in asked]
    again = [sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4, seed=seed)) for seed in range(40)]
    assert tokens == [each.result().sequences[0].tokens for each in again]


def test_a_sample_that_fails_reaches_its_caller_and_others_go_on(sampler):
    bad = sampler.sample(ModelInput.from_ints([]), 1, SamplingParams(max_tokens=4))
    good = sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4))
    with pytest.raises(tinker.RequestFailedError, match="prompt: is empty"):
        bad.result()
    assert len(good.result().sequences[0].tokens) == 4


def test_each_end_is_told_once_after_its_cursor(http, sampler):
    for seed in range(3):
        sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4, seed=seed)).result()
    first = polled(http, sampler)
    ids = [each["request_id"] for each in first["completions"]]
    assert len(set(ids)) == 3
    assert {each["state"] for each in first["completions"]} == {"finished"}
    assert all(each["response_payload_uncompressed_size"] > 0 for each in first["completions"])
    assert polled(http, sampler, first["cursor"]) == {"completions": [], "cursor": first["cursor"]}
    sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4)).result()
    following = polled(http, sampler, first["cursor"])
    assert len(following["completions"]) == 1
    assert following["completions"][0]["request_id"] not in ids


def test_a_poll_that_waits_is_answered_by_the_next_end(http, sampler):
    before = polled(http, sampler)["cursor"]
    pending = sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4))
    assert len(polled(http, sampler, before, timeout=60)["completions"]) == 1
    pending.result()


def test_a_clone_is_told_of_its_own(http, sampler):
    sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4)).result()
    assert polled(http, sampler, clone=1)["completions"] == []


def test_a_cursor_of_a_journal_that_was_lost_begins_anew(http, sampler):
    sampler.sample(PROMPT, 1, SamplingParams(max_tokens=4)).result()
    assert len(polled(http, sampler, cursor=1000)["completions"]) == 1
