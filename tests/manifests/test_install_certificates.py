"""The certificate of an installation: what is made, what is kept, what is trusted when."""

from __future__ import annotations

import base64

import pytest

from certs import expiries, materials, pems
from e2e import installs
from e2e.installs import credentials
from tests.manifests import bases, clusters


def test_every_entry_trusts_the_ca_of_the_secret():
    kubectl = clusters.FakeKubectl()
    clusters.install(kubectl)
    authority = kubectl.objects["secret", "muster-tls"]["data"]["ca.crt"]
    entries = [entry for kind in bases.WEBHOOKS for entry in kubectl.objects[kind.lower(), "muster"]["webhooks"]]
    assert {entry["clientConfig"]["caBundle"] for entry in entries} == {authority}


def test_the_key_of_the_ca_is_kept_nowhere():
    kubectl = clusters.FakeKubectl()
    clusters.install(kubectl)
    data = kubectl.objects["secret", "muster-tls"]["data"]
    assert set(data) == {"tls.crt", "tls.key", "ca.crt"}
    key = pems.private_key(base64.b64decode(data["tls.key"]), "tls.key")
    (authority,) = pems.certificates(base64.b64decode(data["ca.crt"]), "ca.crt")
    assert authority.public_key() != key.public_key()


def test_running_again_keeps_a_certificate_that_lasts():
    kubectl = clusters.FakeKubectl()
    clusters.install(kubectl)
    before = kubectl.objects["secret", "muster-tls"]
    assert "certificate: the one in the cluster stays" in clusters.install(kubectl)
    assert kubectl.objects["secret", "muster-tls"] == before


@pytest.mark.parametrize(
    "secret",
    [
        clusters.secret_of(300 * clusters.DAY),
        clusters.secret_of(clusters.DAY, sans=("another.muster-system.svc",)),
        {**clusters.secret_of(clusters.DAY), "data": {}},
    ],
    ids=["old", "for another name", "without data"],
)
def test_a_certificate_of_ours_that_does_not_last_is_replaced(secret):
    kubectl = clusters.FakeKubectl()
    kubectl.objects["secret", "muster-tls"] = secret
    assert "certificate: a new one, for a year" in clusters.install(kubectl)
    assert credentials.kept(kubectl.objects["secret", "muster-tls"]) is not None


def test_a_certificate_of_somebody_elses_is_used_as_it_is_however_old():
    kubectl = clusters.FakeKubectl()
    kubectl.objects["secret", "muster-tls"] = theirs = clusters.foreign(clusters.secret_of(300 * clusters.DAY))
    clusters.install(kubectl)
    assert kubectl.objects["secret", "muster-tls"] is theirs
    assert "Secret" not in kubectl.done
    assert pems.certificate_pem(*clusters.trusted(kubectl)) == base64.b64decode(theirs["data"]["ca.crt"])


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (clusters.secret_of(400 * clusters.DAY), r"muster-tls/tls.crt: expired .* or delete the Secret"),
        (
            clusters.secret_of(clusters.DAY, sans=("another.svc",)),
            r"is for another.svc, not for muster.muster-system.svc",
        ),
        ({**clusters.secret_of(clusters.DAY), "data": {}}, r"tls.crt: is empty"),
    ],
    ids=["expired", "for another name", "without data"],
)
def test_one_of_somebody_elses_that_cannot_be_served_is_refused_and_left_alone(secret, message):
    kubectl = clusters.FakeKubectl()
    kubectl.objects["secret", "muster-tls"] = clusters.foreign(secret)
    with pytest.raises(installs.InstallError, match=message):
        clusters.install(kubectl)
    assert kubectl.done == []


def test_a_new_ca_is_trusted_beside_the_old_one_before_its_leaf_can_be_served():
    kubectl = clusters.FakeKubectl()
    clusters.install(kubectl)
    (old,) = clusters.trusted(kubectl)
    del kubectl.objects["secret", "muster-tls"]
    kubectl.done.clear()
    clusters.install(kubectl)
    assert kubectl.done.index("ValidatingWebhookConfiguration") < kubectl.done.index("Secret")
    new, kept = clusters.trusted(kubectl)
    assert kept == old != new


def test_trusting_a_new_ca_changes_no_entry_otherwise():
    kubectl = clusters.FakeKubectl(fails="rollout")
    entry = {"name": "of.an.older.version", "clientConfig": {"url": "https://127.0.0.1"}}
    kubectl.objects["mutatingwebhookconfiguration", "muster"] = {"webhooks": [entry]}
    with pytest.raises(installs.InstallError):
        clusters.install(kubectl)
    (found,) = kubectl.objects["mutatingwebhookconfiguration", "muster"]["webhooks"]
    assert found["name"] == "of.an.older.version"
    assert len(clusters.trusted(kubectl)) == 1


def test_a_folder_keeps_its_certificate_and_covers_loopback(tmp_path):
    where = installs.certificate(tmp_path / "tls")
    first = where.contents()
    assert installs.certificate(tmp_path / "tls").contents() == first
    material = materials.read(where, ("127.0.0.1", "muster.muster-system.svc"), expiries.utc_now())
    assert 364 * 86400 < material.leaf.remaining(expiries.utc_now()) <= 365 * 86400
    assert where.key.stat().st_mode & 0o777 == 0o600


def test_a_folder_whose_certificate_lacks_a_name_gets_another(tmp_path):
    first = installs.certificate(tmp_path).contents()
    assert installs.certificate(tmp_path, ("10.1.2.3",)).contents() != first
