"""Certificates change, get lost and are damaged while jobs come in; no job is refused because of it."""

from __future__ import annotations

import time

import pytest

from e2e.suites.support import stalls
from e2e.suites.support.loads import Load
from e2e.suites.support.shared import NAMESPACE
from e2e.suites.support.waits import until

LONG = 120  # seconds; an authority gets a successor after 38
OURS = ("failed calling webhook", '.muster.dev"')  # a controller that could not renew its Lease ends, its webhook too
YOUNG = 45  # seconds left of 60: what an API server may take to come back on a busy machine, and more


pytestmark = pytest.mark.xdist_group("installation")


def test_the_api_server_trusts_what_is_in_the_secret(shared, space, job):
    assert shared.authorities()
    until("the bundles to be the authorities", lambda: set(shared.authorities()) <= set(shared.trusted()), 30)
    space.apply(job, dry_run=True).expect()


@pytest.mark.thorough
def test_authority_and_leaf_change_several_times_and_no_job_is_refused(kubectl, shared, space, job, say):
    before = shared.authorities()[0]
    seen = {before}
    with Load(kubectl, space.name, job) as load:
        until("two further authorities", lambda: seen.update(shared.authorities()[:1]) or len(seen) > 2, LONG)
        until("the first, which has expired, not to be trusted any more", lambda: before not in shared.trusted())

    assert load.failures == {}
    slowest = load.percentile(0.99)
    say(f"{load} over {len(seen) - 1} changes of the authority, p99 {slowest:.3f} s")


def test_a_deleted_secret_comes_back_and_no_job_is_refused(kubectl, shared, space, job, say):
    with Load(kubectl, space.name, job) as load:
        for _ in range(3):
            known = shared.authorities()
            shared.lose()
            until("the Secret to be there again", shared.authorities, 20)
            assert set(shared.authorities()) & set(known), "the authorities are not those from before"
            time.sleep(2)

    assert load.failures == {}
    say(f"{load} while the Secret was deleted three times")


@pytest.mark.thorough
def test_a_spoilt_bundle_is_mended_within_seconds(kubectl, shared, space, job):
    good = shared.bundles()
    shared.trust({kind: ["" for _ in each] for kind, each in good.items()})

    until("the bundles to be repaired", lambda: set(shared.authorities()) & set(shared.trusted()), 15)
    until("jobs to be admitted", lambda: space.apply(job, dry_run=True).ok, 15)


def test_replicas_are_replaced_one_after_the_other_and_no_job_is_refused(kubectl, shared, several, space, job, say):
    with Load(kubectl, space.name, job) as load:
        shared.restart()
        time.sleep(3)

    assert load.failures == {}
    say(f"{load} while {several} replicas were replaced, p99 {load.percentile(0.99):.3f} s")


def test_when_the_leader_is_killed_another_leads_within_twenty_seconds(kubectl, shared, several, say):
    before = shared.wait_leader()
    pod = before.partition("_")[0]
    # It has a second of the eight that it takes to end in order; without any grace the kubelet gives it all of its own.
    kubectl.delete("pod", pod, NAMESPACE, grace=1).expect()
    begun = time.monotonic()

    shared.wait_leader(before)

    seconds = time.monotonic() - begun
    assert seconds - stalls.lost(begun) < 20
    say(f"another of {several} replicas leads after {seconds:.1f} s")
    shared.rolled_out()


@pytest.mark.thorough
def test_a_restarted_api_server_trusts_every_replica_from_its_first_call_on(
    kubectl, installation, shared, space, job, say
):
    shared.wait_young(YOUNG)
    with Load(kubectl, space.name, job) as load:
        begun = time.monotonic()
        installation.restart_api_server()
        away = time.monotonic() - begun
        time.sleep(5)

    # A request that the API server cannot answer while it is down does not count as a refusal.
    assert [answer for answer in load.failures if all(words in answer for words in OURS)] == []
    shared.wait_leader()
    say(f"{load} around the restart, which took {away:.1f} s")


@pytest.mark.thorough
def test_a_store_that_stands_still_costs_no_admission_afterwards(kubectl, shared, space, job, frozen_store, say):
    shared.wait_young(YOUNG)
    with Load(kubectl, space.name, job) as load:
        frozen_store(8)  # longer than the Lease
        until("jobs to be admitted again", lambda: space.apply(job, dry_run=True).ok, 60)
        time.sleep(5)

    assert [answer for answer in load.failures if all(words in answer for words in OURS)] == []
    shared.wait_leader()
    until("the bundles to be the authorities", lambda: set(shared.authorities()) <= set(shared.trusted()), 15)
    say(f"{load} around a store that stood still for 8 s")
