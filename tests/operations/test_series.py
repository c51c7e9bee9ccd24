"""Every series is explained where the platform engineer looks, and named nowhere else under another name."""

from __future__ import annotations

import re

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from muster.webhook import configs
from muster.webhook.metrics import Metrics
from muster.webhook.server.services import Service
from tests.operations import pages, series

PAGES = {
    "docs/operate.md": series.exposed(),
    "docs/sessions.md": series.of_sessions(),
    "docs/sharing.md": series.of_devices(),
}
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(pages.read("manifests/monitoring/alerts.yaml"))["groups"]
    for rule in group["rules"]
}
EXPOSED = series.exposed()
ALL = {name: labels for of_page in PAGES.values() for name, labels in of_page.items()}


def explained(page=None):
    named = PAGES if page is None else [page]
    return {row[0].strip("`"): row[1:] for each in named for row in pages.rows(pages.section(each, "Metrics"))}


async def test_a_running_service_exposes_what_was_found_in_the_code_and_nothing_else(tmp_path):
    config = {
        "server": {"host": "127.0.0.1", "port": 0, "readinessDelay": 0},
        "tls": {"selfSigned": True},
        "cluster": {"source": "live", "kubeconfig": str(tmp_path / "kubeconfig")},
        "controllers": {"enabled": True},
        "trainings": {"enabled": True},
        "audit": {"stdout": False, "file": {"path": str(tmp_path / "audit.log")}},
    }
    nowhere = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    (tmp_path / "kubeconfig").write_text(
        yaml.safe_dump(
            {
                "current-context": "nowhere",
                "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}],
                "clusters": [{"name": "nowhere", "cluster": nowhere}],
                "users": [{"name": "nobody", "user": {"token": "none"}}],
            }
        )
    )
    (tmp_path / "muster.yaml").write_text(yaml.safe_dump(config))
    service = Service(configs.load(tmp_path / "muster.yaml"))
    await service.start()
    try:
        families = list(text_string_to_metric_families(service.metrics.render().decode()))
    finally:
        await service.stop()
    found = {each.name + ("_total" if each.type == "counter" else "") for each in families if each.type != "unknown"}
    found = {name for name in found if not name.endswith("_created")}
    only_with_a_shared_secret = {"muster_certificates_leading"} & EXPOSED.keys()
    assert found == EXPOSED.keys() - only_with_a_shared_secret
    gauges = {each.name: {tuple(sample.labels) for sample in each.samples} for each in families if each.name in EXPOSED}
    leading = {name: labels for name, labels in gauges.items() if name.endswith("_leading")}
    assert leading == {name: {("lease",)} for name in ("muster_controller_leading", "muster_trainings_leading")}


@pytest.mark.parametrize("name", sorted(ALL))
def test_each_series_is_explained_with_its_labels_and_its_alerts(name):
    labels, meaning, alerts = explained()[name]
    assert re.findall(r"`(\w+)`", labels) == list(ALL[name])
    assert len(meaning.split()) >= 3
    for alert in re.findall(r"\w+", alerts):
        assert re.search(rf"\b{name}(_bucket)?\b", ALERTS[alert]["expr"]), alert


@pytest.mark.parametrize("page", list(PAGES))
def test_nothing_is_explained_that_does_not_exist(page):
    assert explained(page).keys() == PAGES[page].keys()


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_each_alert_is_named_with_every_series_that_it_looks_at(alert):
    looked_at = {name for name in ALL if re.search(rf"\b{name}(_bucket)?\b", ALERTS[alert]["expr"])}
    named = {name for name, (*_, alerts) in explained().items() if alert in re.findall(r"\w+", alerts)}
    assert looked_at == named


@pytest.mark.parametrize(
    "series_of_a_label",
    [
        'muster_refused_requests_total{reason="busy"}',
        'muster_refused_requests_total{reason="timeout"}',
        'muster_refused_requests_total{reason="unreadable"}',
        'muster_cluster_fetches_total{outcome="failed"}',
        'muster_config_reloads_total{outcome="refused"}',
        'muster_audit_problems_total{kind="dropped"}',
        'muster_audit_problems_total{kind="sink"}',
    ],
)
def test_counters_that_alerts_watch_begin_at_zero_since_a_first_value_is_no_increase(series_of_a_label):
    assert f"{series_of_a_label} 0.0" in Metrics().render().decode()
