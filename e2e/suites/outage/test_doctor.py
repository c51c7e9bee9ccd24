"""`muster doctor` finds what is broken, names it and says what to do; each test breaks one thing and repairs it."""

from __future__ import annotations

import base64
import copy
import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.suites.outage import outages
from e2e.suites.support import doctors
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.waits import until
from muster.certs import authorities, pems

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


def _finds(kubectl: Kubectl, check: str, *words: str) -> str:
    """Ask the doctor until it has found what these words say; the API server itself learns of a change by a watch."""

    def told() -> str:
        examined = doctors.examine(kubectl)
        assert examined.code == 1, examined.report
        errors = "\n".join(examined.said("error", check=check))
        assert all(each in errors for each in words), errors
        return errors

    return until("the doctor to find what is broken", told)


def test_a_ca_bundle_of_somebody_else_is_found_by_the_call_that_fails(kubectl: Kubectl, spoil: Spoil) -> None:
    stranger = authorities.create(datetime.datetime.now(datetime.UTC))
    bundle = base64.b64encode(pems.certificate_pem(stranger.certificate)).decode()

    def distrust(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            entry["clientConfig"]["caBundle"] = bundle

    spoil(distrust)

    _finds(
        kubectl,
        "probe",
        "the API server cannot call create.trainjobs.muster.dev",
        "the certificate was not signed by a CA in caBundle; install again",
    )


@pytest.mark.thorough
def test_a_ca_bundle_that_is_none_is_named(kubectl: Kubectl, spoil: Spoil) -> None:
    spoil(lambda entries: entries[0]["clientConfig"].update(caBundle=base64.b64encode(b"hello").decode()))

    _finds(kubectl, "ca-bundle", "mutating entry create.trainjobs.muster.dev: caBundle holds no PEM certificate")


@pytest.mark.thorough
def test_a_missing_entry_is_named(kubectl: Kubectl, spoil: Spoil) -> None:
    spoil(lambda entries: entries.remove(next(each for each in entries if each["name"].startswith("create.jobsets"))))

    _finds(kubectl, "webhooks", "mutating entry create.jobsets.muster.dev is missing")


@pytest.mark.thorough
def test_entries_that_leave_every_namespace_out_are_found(kubectl: Kubectl, spoil: Spoil) -> None:
    selector = {"matchLabels": {"muster": "wanted"}}
    spoil(lambda entries: entries[0].update(namespaceSelector=selector))

    _finds(kubectl, "namespaces", "matches no namespace")


def test_a_dead_muster_is_found_by_the_call_that_fails(kubectl: Kubectl, muster: Installation) -> None:
    outages.die(muster)

    told = _finds(kubectl, "probe", "the API server cannot call create.trainjobs.muster.dev, so no job can be created")

    assert any(cause in told for cause in ("nothing listens at its address", "its Service has no ready replica")), told


@pytest.mark.thorough
def test_a_right_that_was_taken_away_is_named(kubectl: Kubectl) -> None:
    role = kubectl.get("clusterrole", "muster")
    assert role is not None
    kept = [rule for rule in role["rules"] if rule["resources"] != ["nodes"]]
    kubectl.patch("clusterrole", "muster", None, {"rules": kept}).expect()
    try:
        _finds(kubectl, "rights", "system:serviceaccount:muster-system:muster may not list, watch nodes")
    finally:
        kubectl.patch("clusterrole", "muster", None, {"rules": role["rules"]}).expect()


@pytest.mark.thorough
def test_a_configuration_that_muster_would_refuse_is_named(kubectl: Kubectl) -> None:
    configmap = kubectl.get("configmap", "muster", "muster-system")
    assert configmap is not None
    before = configmap["data"]["muster.yaml"]
    kubectl.patch("configmap", "muster", "muster-system", {"data": {"muster.yaml": f"{before}\nmod: warn\n"}}).expect()
    try:
        _finds(kubectl, "configuration", "mod: is not a key of the configuration")
    finally:
        kubectl.patch("configmap", "muster", "muster-system", {"data": {"muster.yaml": before}}).expect()


def test_all_is_well_again_afterwards(kubectl: Kubectl, installation: Installation) -> None:
    installation.wait_ready()

    def is_well() -> bool:
        examined = doctors.examine(kubectl)
        assert (examined.code, examined.said("error", "unknown")) == (0, []), examined.report
        return True

    until("the doctor to find nothing", is_well)
