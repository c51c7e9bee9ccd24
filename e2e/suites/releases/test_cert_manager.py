"""The chart with certificates of cert-manager: its own controllers make them, its own injector fills the bundles."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.suites.releases import certmanagers
from e2e.suites.support import doctors
from e2e.suites.support.helms import NAMESPACE, Helm
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.loads import Load
from e2e.suites.support.shared import Shared
from e2e.suites.support.waits import until

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.thorough]

_VALUES = {"tls": {"mode": "certManager"}}
_AUTHORITY, _LEAF = "muster-authority", "muster-tls"  # Certificates and their Secrets
_ARRIVED = 150  # seconds for the kubelet to bring a changed Secret into a pod, and for Muster to look


@pytest.fixture(scope="module")
def issuing(
    kubectl: Kubectl, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[certmanagers.CertManager]:
    """cert-manager, and Muster with certificates of it."""
    with certmanagers.running(kubectl, NAMESPACE, tmp_path_factory.mktemp("cert-manager") / "log") as made:
        helm.install(_VALUES)
        yield made
        helm.uninstall()
        helm.remove_namespace()  # with the Secrets, which cert-manager leaves


@pytest.fixture
def replicas(kubectl: Kubectl) -> Shared:
    """What Muster runs as."""
    return Shared(kubectl)


def _bundles(replicas: Shared) -> set[str]:
    return {bundle for each in replicas.bundles().values() for bundle in each}


def _served(replicas: Shared) -> set[str]:
    """Return what the replicas serve.

    It is compared with the Secret of that moment: cert-manager may issue twice, when its cache has not seen the first.
    """
    return {replicas.served(pod) for pod in replicas.pods()}


def test_muster_serves_what_cert_manager_made_and_the_injector_has_filled_the_bundles(
    issuing, kubectl, replicas, space, job
):
    until("a job to be admitted", lambda: space.apply(job, dry_run=True).ok, 60)

    stored = space.apply(job, dry_run=True, options=("-o", "json")).expect().json
    assert "muster.dev/applied" in stored["metadata"]["annotations"]
    until("the injector to have filled every bundle", lambda: _bundles(replicas) == {issuing.authority(_LEAF)})
    until("every pod to serve it", lambda: _served(replicas) == {issuing.fingerprint(_LEAF)}, _ARRIVED)
    assert doctors.examine(kubectl).said("error", "warning", "unknown") == []


def test_a_renewed_certificate_is_served_by_the_same_pods_and_refuses_no_job(
    issuing, kubectl, replicas, space, job, say
):
    pods, authority = replicas.pods(), issuing.authority(_LEAF)
    with Load(kubectl, space.name, job) as load:
        before, begun = issuing.fingerprint(_LEAF), time.monotonic()
        issuing.renew(_LEAF)
        until("every pod to serve it", lambda: _served(replicas) == {issuing.fingerprint(_LEAF)} != {before}, _ARRIVED)
        seconds = time.monotonic() - begun

    assert load.failures == {}
    assert replicas.pods() == pods
    assert issuing.authority(_LEAF) == authority
    say(f"{load}, the new certificate is served by {len(pods)} pods after {seconds:.0f} s")


def test_a_new_authority_is_trusted_beside_the_old_one_and_refuses_no_job(issuing, kubectl, replicas, space, job, say):
    authority = issuing.authority(_LEAF)
    with Load(kubectl, space.name, job) as load:
        issuing.renew(_AUTHORITY)
        before = issuing.fingerprint(_LEAF)
        issuing.renew(_LEAF)
        until("every pod to serve it", lambda: _served(replicas) == {issuing.fingerprint(_LEAF)} != {before}, _ARRIVED)

    assert load.failures == {}
    assert issuing.authority(_LEAF) != authority
    assert len(replicas.trusted()) >= 2
    say(f"{load} over a change of cert-manager's authority")


def test_an_installation_changes_over_to_certificates_of_its_own_and_refuses_no_job(
    issuing, helm, kubectl, replicas, space, job, say
):
    theirs = replicas.trusted()
    with Load(kubectl, space.name, job) as load:
        helm.upgrade()
        until("authorities of Muster's own", replicas.authorities, 30)
        time.sleep(5)

    assert load.failures == {}
    # cert-manager's authority stays for an hour, because older pods may still serve leaves that it signed.
    assert set(replicas.trusted()) == {*replicas.authorities(), *theirs}
    say(f"{load} while both replicas were replaced by such as share certificates")


def test_it_changes_back_and_refuses_no_job(issuing, helm, kubectl, replicas, space, job, say):
    with Load(kubectl, space.name, job) as load:
        helm.upgrade(_VALUES)
        time.sleep(3)

    assert load.failures == {}
    until("every pod to serve it", lambda: _served(replicas) == {issuing.fingerprint(_LEAF)}, _ARRIVED)
    say(f"{load} while both replicas were replaced by such as serve cert-manager's")
