"""The life of a release, in the order of these tests: installed, upgraded at work, uninstalled at work."""

from __future__ import annotations

import time

import pytest

from e2e.suites.support import doctors
from e2e.suites.support.helms import NAMESPACE
from e2e.suites.support.loads import Load
from e2e.suites.support.waits import until

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.thorough]


def test_after_an_installation_jobs_are_completed_and_the_doctor_finds_nothing(helm, kubectl, space, job, say):
    begun = time.monotonic()
    helm.install()
    until("a job to be admitted", lambda: space.apply(job, dry_run=True).ok, 30)
    seconds = time.monotonic() - begun

    stored = space.apply(job, dry_run=True, options=("-o", "json")).expect().json
    assert "muster.dev/applied" in stored["metadata"]["annotations"]
    examined = doctors.examine(kubectl)
    assert examined.said("error", "warning", "unknown") == []
    assert examined.code == 0
    say(f"installed and serving after {seconds:.0f} s")


def test_an_upgrade_starts_every_replica_anew_and_refuses_no_job(helm, kubectl, space, job, say):
    before = {pod["metadata"]["name"] for pod in kubectl.all("pods", NAMESPACE)}
    with Load(kubectl, space.name, job) as load:
        helm.upgrade({"config": {"server": {"inFlightLimit": 150}}})
        time.sleep(3)

    assert load.failures == {}
    running = {
        p["metadata"]["name"] for p in kubectl.all("pods", NAMESPACE) if not p["metadata"].get("deletionTimestamp")
    }
    assert len(running) == 2
    assert not running & before
    say(f"{load} during the upgrade, p99 {load.percentile(0.99):.3f} s")


def test_an_uninstallation_takes_muster_out_of_the_way_first_and_refuses_no_job(helm, kubectl, space, job, say):
    with Load(kubectl, space.name, job) as load:
        helm.uninstall()
        time.sleep(2)

    assert load.failures == {}
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration", "clusterrole", "clusterrolebinding"):
        assert kubectl.get(kind, "muster") is None
    assert kubectl.get("deployment", "muster", NAMESPACE) is None
    stored = space.apply(job, options=("-o", "json")).expect().json
    assert "muster.dev/applied" not in (stored["metadata"].get("annotations") or {})
    say(f"{load} during the uninstallation")
