"""`muster doctor` finds nothing wrong with the installation that all suites use, and says what it could not see."""

from __future__ import annotations

import json

import pytest

from e2e.suites.support import doctors, waits

SERVICE = "muster-system"


@pytest.fixture(scope="module")
def examined(kubectl):
    def look():
        examination = doctors.examine(kubectl)
        assert examination.said("error", "unknown") == []
        return examination

    return waits.until("the doctor to be answered in time", look)


@pytest.fixture
def as_viewer(kubectl, space, tmp_path):
    """Somebody who may do nothing but sign in."""
    kubectl.run("create", "serviceaccount", "viewer", "-n", space.name).expect()
    token = kubectl.run("create", "token", "viewer", "-n", space.name).expect().out.strip()
    config = kubectl.run("config", "view", "--raw", "--minify", "--flatten", "-o", "json").expect().json
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    return ("--kubeconfig", str(tmp_path / "kubeconfig"), "--probe-namespace", space.name)


def test_a_good_installation_has_no_error_and_leaves_nothing_unknown(examined):
    assert examined.said("error", "unknown") == []
    assert examined.code == 0


def test_every_entry_and_every_right_was_looked_at(examined):
    assert examined.said("ok", check="webhooks") == [
        "webhooks: all 8 entries of both webhook configurations are as in the manifests; None"
    ]
    (rights,) = examined.said("ok", check="rights")
    assert f"system:serviceaccount:{SERVICE}:muster has all" in rights


def test_the_probe_goes_through_muster_and_says_how_long_it_took(examined):
    refused, corrected = (each for each in examined.report["findings"] if each["check"] == "probe")
    assert "follows its refusals" in refused["what"]
    assert "is corrected" in corrected["what"]
    assert 0 < corrected["figures"]["minimumSeconds"] <= corrected["figures"]["medianSeconds"]


def test_the_probe_leaves_nothing_behind(kubectl, examined):
    assert [job["metadata"]["name"] for job in kubectl.all("trainjobs", "default")] == []


def test_replicas_behind_a_service_are_asked_one_by_one(kubectl, examined):
    if kubectl.get("deployment", "muster", SERVICE) is None:
        pytest.skip("Muster is a process here, called by URL")
    pods = {each["metadata"]["name"] for each in kubectl.all("pods", SERVICE, "app.kubernetes.io/name=muster")}
    told = examined.said("ok", check="replicas")
    assert {name for name in pods if any(name in line for line in told)} == pods
    assert examined.said("ok", check="service") == [f"service: Service {SERVICE}/muster has {_addresses(pods)}; None"]
    assert any("v2.3.0" in line for line in examined.said("ok", check="versions"))


def _addresses(pods):
    return f"{len(pods)} ready address{'es' if len(pods) > 1 else ''}"


def test_a_certificate_that_is_called_by_url_is_looked_at_itself(kubectl, examined):
    if kubectl.get("deployment", "muster", SERVICE) is not None:
        pytest.skip("Muster is behind a Service here, which cannot be reached from outside the cluster")
    (shown,) = examined.said("ok", check="certificate")
    assert "verifies against caBundle" in shown


def test_who_may_not_look_is_told_what_is_missing_and_gets_no_all_clear(kubectl, as_viewer):
    examined = doctors.examine(kubectl, *as_viewer)
    assert examined.code == 2
    assert examined.said("error") == []
    unknown = "\n".join(examined.said("unknown"))
    assert "webhooks: was not checked: you may not get mutatingwebhookconfigurations.admissionregistration" in unknown
    assert "rights: was not checked: you may not create subjectaccessreviews.authorization.k8s.io" in unknown
    assert f"probe: was not checked: you may not create trainjobs.trainer.kubeflow.org in {as_viewer[-1]}" in unknown
