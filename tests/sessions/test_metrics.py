"""What Prometheus finds: counts and seconds of a real run, in labels that no tenant chooses."""

from __future__ import annotations

import os
import re
import signal

import httpx
import pytest
import tinker
from prometheus_client.parser import text_string_to_metric_families
from tinker import types

from muster.sessions.metrics import ABSENCES, KINDS, Metrics
from tests.sessions.gateways import ROOT, Gateway
from tests.sessions.hand import datum


class Scraped(Gateway):
    """A Gateway with metrics."""

    ENGINES = (*Gateway.ENGINES, "--metrics", "0")

    def start(self):
        super().start()
        self.metrics = self.process.stdout.readline().split()[-1]

    def scrape(self):
        """Return the values of all series by name and labels."""
        return _values(httpx.get(self.metrics, timeout=60).raise_for_status().text)


def _values(text):
    families = text_string_to_metric_families(text)
    return {
        (each.name.removeprefix("muster_sessions_"), *(value for _, value in sorted(each.labels.items()))): each.value
        for family in families
        for each in family.samples
    }


@pytest.fixture
def scraped(tmp_path):
    with Scraped(tmp_path) as made:
        yield made


def test_a_run_is_counted_by_kind_and_a_failure_by_its_category(scraped):
    with tinker.ServiceClient(base_url=scraped.url, api_key=scraped.key) as service:
        client = service.create_lora_training_client(base_model=str(scraped.base), rank=4, seed=3).result()
        client.forward_backward([datum([1, 2, 3]), datum([4, 5, 6, 7])], "cross_entropy").result()
        client.optim_step(types.AdamParams(learning_rate=0.1)).result()
        sampler = client.save_weights_and_get_sampling_client().result()
        prompt, params = types.ModelInput.from_ints([1, 2, 3]), types.SamplingParams(max_tokens=8)
        sampler.sample(prompt, 2, params).result()
        with pytest.raises(tinker.TinkerError):
            client.forward_backward([datum([1, 2, 3])], "dro").result()
        found = scraped.scrape()
    assert found["open_sessions",] == 1
    assert found["tokens_total", "training"] == 5
    assert found["tokens_total", "sampling_prefill"] == 3
    assert found["tokens_total", "sampling_sample"] == 16
    assert found["failures_total", "user", "forward_backward"] == 1
    assert sum(value for key, value in found.items() if key[0] == "failures_total") == 1
    for kind in ("create_model", "forward_backward", "optim_step", "sample", "save_weights_for_sampler"):
        assert found["request_seconds_count", kind, "waiting"] == 1
        assert found["request_seconds_count", kind, "executing"] == 1
        assert found["requests_waiting", kind] == 0
    assert found["engine_up", "trainer"] == found["engine_up", "sampler"] == 1
    assert found["engine_busy_seconds_total", "trainer"] > 0
    assert found["engine_busy_seconds_total", "sampler"] > 0


def test_an_engine_that_ends_is_counted_and_so_is_what_waits_for_it(scraped, hand):
    one = hand(scraped)
    one.create()
    trainer = scraped.engine("trainer")
    os.kill(trainer, signal.SIGSTOP)
    waits = one.step(1, [datum([1, 2, 3])])
    found = scraped.scrape()
    assert found["requests_waiting", "forward_backward"] == 1
    assert found["engine_restarts_total", "trainer"] == 0
    os.kill(trainer, signal.SIGKILL)
    one.result(waits)
    found = scraped.scrape()
    assert found["requests_waiting", "forward_backward"] == 0
    assert found["engine_restarts_total", "trainer"] == 1
    assert found["engine_waits", "trainer", "starting"] == 0
    assert found["engine_restarts_total", "sampler"] == 0


def test_for_what_an_engine_waits_is_one_of_a_few_words():
    metrics = Metrics()
    metrics.looked({}, {"trainer": False, "sampler": True}, {"trainer": "seat", "sampler": ""}, 0)
    found = _values(metrics.render().decode())
    waits = {key[1:] for key, value in found.items() if key[0] == "engine_waits" and value}
    assert waits == {("trainer", "seat")}
    assert sum(key[0] == "engine_waits" for key in found) == 2 * len(ABSENCES)
    metrics.looked({}, {"trainer": True}, {"trainer": ""}, 0)
    assert _values(metrics.render().decode())["engine_waits", "trainer", "seat"] == 0


def test_metrics_are_at_their_own_address_only(scraped):
    headers = {"X-API-Key": scraped.key}
    assert httpx.get(f"{scraped.url}/metrics", headers=headers, timeout=60).status_code == 404
    elsewhere = scraped.metrics.replace("/metrics", "/api/v1/get_server_capabilities")
    assert httpx.get(elsewhere, headers=headers, timeout=60).status_code == 404


def test_a_name_that_nobody_foresaw_makes_no_series_of_its_own():
    metrics = Metrics()
    before = len(_values(metrics.render().decode()))
    for number in range(9):
        metrics.failed(f"kind-{number}", "server")
        metrics.looked({f"kind-{number}": 2, "sample": 1}, {}, {}, 0)
    found = _values(metrics.render().decode())
    assert found["failures_total", "server", "other"] == 9
    assert found["requests_waiting", "other"] == 2
    assert found["requests_waiting", "sample"] == 1
    assert len(found) - before == 1 + len(KINDS) + 1


def test_each_series_has_a_row_on_the_page_with_its_labels():
    page = (ROOT / "docs" / "sessions.md").read_text()
    rows = dict(re.findall(r"^\| `(muster_sessions_\w+)` \|([^|]*)\|", page, re.MULTILINE))
    metrics = Metrics()
    metrics.ended("sample", 1, 1)
    metrics.looked({}, {"trainer": True}, {"trainer": "seat"}, 0)
    series = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        name = family.name + ("_total" if family.type == "counter" else "")
        series[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows.items()} == series


def test_an_engine_is_busy_as_long_as_any_request_is_with_it():
    now = [0.0]
    metrics = Metrics(lambda: now[0])

    def busy():
        return _values(metrics.render().decode())["engine_busy_seconds_total", "trainer"]

    with metrics.busy("trainer"):
        now[0] = 2
        with metrics.busy("trainer"):
            now[0] = 3
            assert busy() == 3
        now[0] = 5
    now[0] = 9
    assert busy() == 5
