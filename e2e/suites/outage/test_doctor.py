"""`muster doctor` finds what is broken, names it and says what to do; each test breaks one thing and mends it."""

from __future__ import annotations

import base64
import copy
import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from certs import authorities, pems
from e2e.suites.outage import outages
from e2e.suites.support import doctors
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
Spoil = Callable[[Callable[[list[dict[str, Any]]], None]], None]


@pytest.fixture
def spoil(kubectl: Kubectl) -> Iterator[Spoil]:
    """Change the entries of the mutating configuration; they are put back when the test has ended."""
    before = kubectl.get(MUTATING, "muster")
    assert before is not None
    kept = before["webhooks"]

    def change(edit: Callable[[list[dict[str, Any]]], None]) -> None:
        entries = copy.deepcopy(kept)
        edit(entries)
        _put(kubectl, entries)

    yield change
    _put(kubectl, kept)


def _put(kubectl: Kubectl, entries: list[dict[str, Any]]) -> None:
    operation = {"op": "replace", "path": "/webhooks", "value": entries}
    kubectl.patch(MUTATING, "muster", None, [operation], type="json").expect()


def _errors(kubectl: Kubectl, check: str) -> str:
    examined = doctors.examine(kubectl)
    assert examined.code == 1, examined.report
    return "\n".join(examined.said("error", check=check))


def test_a_ca_bundle_of_somebody_else_is_found_by_the_call_that_fails(kubectl: Kubectl, spoil: Spoil) -> None:
    stranger = authorities.create(datetime.datetime.now(datetime.UTC))
    bundle = base64.b64encode(pems.certificate_pem(stranger.certificate)).decode()

    def distrust(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            entry["clientConfig"]["caBundle"] = bundle

    spoil(distrust)

    told = _errors(kubectl, "probe")

    assert "the API server cannot call create.trainjobs.muster.dev" in told
    assert "the certificate is of no CA in caBundle; install again" in told


def test_a_ca_bundle_that_is_none_is_named(kubectl: Kubectl, spoil: Spoil) -> None:
    spoil(lambda entries: entries[0]["clientConfig"].update(caBundle=base64.b64encode(b"hello").decode()))

    assert "mutating entry create.trainjobs.muster.dev: caBundle holds no PEM certificate" in _errors(
        kubectl, "ca-bundle"
    )


def test_a_missing_entry_is_named(kubectl: Kubectl, spoil: Spoil) -> None:
    spoil(lambda entries: entries.remove(next(each for each in entries if each["name"].startswith("create.jobsets"))))

    assert "mutating entry create.jobsets.muster.dev is missing" in _errors(kubectl, "webhooks")


def test_entries_that_leave_every_namespace_out_are_found(kubectl: Kubectl, spoil: Spoil) -> None:
    selector = {"matchLabels": {"muster": "wanted"}}
    spoil(lambda entries: entries[0].update(namespaceSelector=selector))

    assert "leaves out every namespace" in _errors(kubectl, "namespaces")


def test_a_dead_muster_is_found_by_the_call_that_fails(kubectl: Kubectl, muster: Installation) -> None:
    outages.die(muster)

    told = _errors(kubectl, "probe")

    assert "the API server cannot call create.trainjobs.muster.dev, so no job can be created" in told
    assert any(cause in told for cause in ("nothing listens at its address", "its Service has no ready replica")), told


def test_a_right_that_was_taken_away_is_named(kubectl: Kubectl) -> None:
    role = kubectl.get("clusterrole", "muster")
    assert role is not None
    kept = [rule for rule in role["rules"] if rule["resources"] != ["nodes"]]
    kubectl.patch("clusterrole", "muster", None, {"rules": kept}).expect()
    try:
        told = _errors(kubectl, "rights")
    finally:
        kubectl.patch("clusterrole", "muster", None, {"rules": role["rules"]}).expect()
    assert "system:serviceaccount:muster-system:muster may not list, watch nodes" in told


def test_a_configuration_that_muster_would_refuse_is_named(kubectl: Kubectl) -> None:
    configmap = kubectl.get("configmap", "muster", "muster-system")
    assert configmap is not None
    before = configmap["data"]["muster.yaml"]
    kubectl.patch("configmap", "muster", "muster-system", {"data": {"muster.yaml": f"{before}\nmod: warn\n"}}).expect()
    try:
        told = _errors(kubectl, "configuration")
    finally:
        kubectl.patch("configmap", "muster", "muster-system", {"data": {"muster.yaml": before}}).expect()
    assert "mod: is no key that Muster knows" in told


def test_all_is_well_again_afterwards(kubectl: Kubectl, installation: Installation) -> None:
    installation.wait_ready()
    examined = doctors.examine(kubectl)
    assert (examined.code, examined.said("error", "unknown")) == (0, [])
