"""The certificate of an installation: what is made, what is kept, what is trusted when."""

from __future__ import annotations

import base64

import pytest

from muster.certs import pems
from muster.webhook import installer
from muster.webhook.installer import installed_objects
from tests.installer import kubectls
from tests.manifests import bases


def test_every_entry_trusts_the_ca_of_the_secret():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl)
    authority = kubectl.objects["secret", "muster-tls"]["data"]["ca.crt"]
    entries = [entry for kind in bases.WEBHOOKS for entry in kubectl.objects[kind.lower(), "muster"]["webhooks"]]
    assert {entry["clientConfig"]["caBundle"] for entry in entries} == {authority}


def test_the_key_of_the_ca_is_kept_nowhere():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl)
    data = kubectl.objects["secret", "muster-tls"]["data"]
    assert set(data) == {"tls.crt", "tls.key", "ca.crt"}
    key = pems.private_key(base64.b64decode(data["tls.key"]), "tls.key")
    (authority,) = pems.certificates(base64.b64decode(data["ca.crt"]), "ca.crt")
    assert authority.public_key() != key.public_key()


def test_running_again_keeps_a_certificate_that_lasts():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl)
    before = kubectl.objects["secret", "muster-tls"]
    assert "certificate: kept" in kubectls.install(kubectl)
    assert kubectl.objects["secret", "muster-tls"] == before


@pytest.mark.parametrize(
    "secret",
    [
        kubectls.secret_of(300 * kubectls.DAY),
        kubectls.secret_of(kubectls.DAY, sans=("another.muster-system.svc",)),
        {**kubectls.secret_of(kubectls.DAY), "data": {}},
    ],
    ids=["old", "for another name", "without data"],
)
def test_a_certificate_of_ours_that_does_not_last_is_replaced(secret):
    kubectl = kubectls.FakeKubectl()
    kubectl.objects["secret", "muster-tls"] = secret
    assert "certificate: made, valid for a year" in kubectls.install(kubectl)
    assert installed_objects.kept(kubectl.objects["secret", "muster-tls"]) is not None


def test_a_certificate_of_somebody_elses_is_used_as_it_is_however_old():
    kubectl = kubectls.FakeKubectl()
    kubectl.objects["secret", "muster-tls"] = theirs = kubectls.foreign(kubectls.secret_of(300 * kubectls.DAY))
    kubectls.install(kubectl)
    assert kubectl.objects["secret", "muster-tls"] is theirs
    assert "Secret" not in kubectl.done
    assert pems.certificate_pem(*kubectls.trusted(kubectl)) == base64.b64decode(theirs["data"]["ca.crt"])


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (kubectls.secret_of(400 * kubectls.DAY), r"muster-tls/tls.crt: expired .* or delete the Secret"),
        (
            kubectls.secret_of(kubectls.DAY, sans=("another.svc",)),
            r"is issued for another.svc, not for muster.muster-system.svc",
        ),
        ({**kubectls.secret_of(kubectls.DAY), "data": {}}, r"tls.crt: is empty"),
    ],
    ids=["expired", "for another name", "without data"],
)
def test_one_of_somebody_elses_that_cannot_be_served_is_refused_and_left_alone(secret, message):
    kubectl = kubectls.FakeKubectl()
    kubectl.objects["secret", "muster-tls"] = kubectls.foreign(secret)
    with pytest.raises(installer.InstallError, match=message):
        kubectls.install(kubectl)
    assert kubectl.done == []


def test_a_new_ca_is_trusted_beside_the_old_one_before_its_leaf_can_be_served():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl)
    (old,) = kubectls.trusted(kubectl)
    del kubectl.objects["secret", "muster-tls"]
    kubectl.done.clear()
    kubectls.install(kubectl)
    assert kubectl.done.index("ValidatingWebhookConfiguration") < kubectl.done.index("Secret")
    new, kept = kubectls.trusted(kubectl)
    assert kept == old != new


def test_trusting_a_new_ca_changes_no_entry_otherwise():
    kubectl = kubectls.FakeKubectl(fails="rollout")
    entry = {"name": "of.an.older.version", "clientConfig": {"url": "https://127.0.0.1"}}
    kubectl.objects["mutatingwebhookconfiguration", "muster"] = {"webhooks": [entry]}
    with pytest.raises(installer.InstallError):
        kubectls.install(kubectl)
    (found,) = kubectl.objects["mutatingwebhookconfiguration", "muster"]["webhooks"]
    assert found["name"] == "of.an.older.version"
    assert len(kubectls.trusted(kubectl)) == 1
