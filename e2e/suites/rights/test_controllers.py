"""Role `muster-controllers`: what the leader may do, and what is not done without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.suites.claims import jobs
from e2e.suites.rights import accounts, looks
from e2e.suites.rights.accounts import Account, Right
from e2e.suites.rights.conftest import Begin
from e2e.suites.support import devices, thorough
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("rights of the controllers")

FILES = ("rbac.yaml", "rbac-controllers.yaml")
ROLE = "muster-controllers"
CLAIMS, TEMPLATES = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"
LEASES = "leases.coordination.k8s.io"
CLASS = "e2e-rights"  # nobody has such devices, so no pod ever runs
PROFILES: dict[str, dict[str, Any]] = {
    CLAIMS: {"deviceClass": CLASS, "sharing": "shared", "claims": 1, "maxSessions": 1},
    TEMPLATES: {"deviceClass": CLASS},
}
NAMES = {CLAIMS: "e2e-seat", TEMPLATES: "e2e-own"}
CLAIM = "muster-e2e-seat-0"
JOB = "batch.kubernetes.io/job-name"


@pytest.fixture(scope="module")
def muster(begin: Begin, lent: Account) -> Spare:
    """A Muster that leads."""
    lease = {"namespace": lent.home.name, "duration": 2, "deadline": 1.5, "retry": 0.3}
    profiles = {NAMES[resource]: profile for resource, profile in PROFILES.items()}
    settings = {"enabled": True, "grace": 1, "resync": 1, "endedPods": 1, "lease": lease}
    begun = begin(lent, {"profiles": profiles, "controllers": settings})
    begun.wait_ready()
    until("it to lead", lambda: looks.leads(begun))
    return begun


@pytest.fixture
def space(space: Space, lent: Account) -> Iterator[Space]:
    """A namespace in which Muster may write."""
    with lent.let_in(space):
        yield space


@pytest.fixture
def seated(space: Space, muster: Spare) -> Space:
    """A namespace whose only seat is taken by pod `first`."""
    space.create(pod("first")).expect()
    until("a pod to get the seat", lambda: is_open(space, "first"))
    return space


QUICK = ((CLAIMS, "create"), ("pods", "patch"))
"""The rights that `make test` takes away."""


def rights(*pairs: tuple[str, str]) -> pytest.MarkDecorator:
    """Have a test run for each of these rights of the role."""
    quick = [(ROLE, *pair) for pair in pairs if pair in QUICK]
    every = [(ROLE, *pair) for pair in pairs]
    return pytest.mark.parametrize("right", thorough.but(*quick, of=every, called=accounts.called))


@rights((CLAIMS, "create"), (TEMPLATES, "create"))
def test_what_a_profile_needs_is_not_made(right: Right, account: Account, muster: Spare, space: Space) -> None:
    account.take(right)
    want(space, right[1])
    until("it to be forbidden", lambda: looks.is_told(muster, right, space.name))
    assert found(space, right[1]) == []

    account.give_back()
    until("it to be made", lambda: found(space, right[1]))


@rights((CLAIMS, "delete"), (TEMPLATES, "delete"))
def test_what_nobody_needs_any_more_stays(right: Right, account: Account, muster: Spare, space: Space) -> None:
    want(space, right[1])
    until("it to be made", lambda: found(space, right[1]))
    account.take(right)
    want(space, None)
    until("its deletion to be forbidden", lambda: looks.is_told(muster, right, space.name))
    assert len(found(space, right[1])) == 1

    account.give_back()
    until("it to be gone", lambda: found(space, right[1]) == [])


@rights((CLAIMS, "patch"))
def test_who_has_a_seat_is_not_written_down(right: Right, account: Account, muster: Spare, space: Space) -> None:
    account.take(right)
    space.create(pod("first")).expect()
    until("it to be forbidden", lambda: looks.is_told(muster, right, space.name))
    assert (seats(space), is_open(space, "first")) == ({}, False)

    account.give_back()
    until("the pod to be let in", lambda: is_open(space, "first"))


@rights(("pods", "patch"))
def test_a_pod_with_a_seat_keeps_its_gate(right: Right, account: Account, muster: Spare, space: Space) -> None:
    account.take(right)
    space.create(pod("first")).expect()
    until("it to be forbidden", lambda: looks.is_told(muster, right, space.name))
    assert (len(seats(space)), is_open(space, "first")) == (1, False)

    account.give_back()
    until("the pod to be let in", lambda: is_open(space, "first"))


@rights(("pods", "get"))
def test_the_seat_of_a_pod_that_is_gone_stays_taken(
    right: Right, account: Account, muster: Spare, seated: Space
) -> None:
    account.take(right)
    seated.create(pod("next")).expect()
    seated.delete("pod", "first", grace=0).expect()
    until("it to be forbidden", lambda: looks.is_told(muster, right, seated.name))
    assert not is_open(seated, "next")

    account.give_back()
    until("the next pod to be let in", lambda: is_open(seated, "next"))


@rights(("pods", "delete"))
def test_an_ended_pod_keeps_its_part_in_the_claim(right: Right, account: Account, muster: Spare, space: Space) -> None:
    account.take(right)
    space.create(pod("stays", gated=False), job("ends")).expect()
    (name,) = until("the Job's pod", lambda: [each["metadata"]["name"] for each in space.pods(f"{JOB}=ends")])
    space.patch("pod", name, {"status": {"phase": "Succeeded"}}, subresource="status").expect()
    until("it to be forbidden", lambda: looks.is_told(muster, right, space.name))
    assert space.get("pods", name) is not None

    account.give_back()
    until("the ended pod to be gone", lambda: space.get("pods", name) is None)


@rights(("events", "create"))
def test_nobody_says_why_a_pod_waits(right: Right, account: Account, muster: Spare, seated: Space) -> None:
    account.take(right)
    before = looks.refused(muster, right)
    seated.create(pod("next")).expect()
    until("an Event to be forbidden", lambda: looks.refused(muster, right) > before)
    assert said(seated, "next") == []

    account.give_back()
    seated.create(pod("third")).expect()
    until("an Event to say why it waits", lambda: "seat" in " ".join(said(seated, "third")))


@rights((LEASES, "create"), (LEASES, "get"), (LEASES, "update"))
def test_nobody_leads_without_a_lease(
    right: Right, account: Account, muster: Spare, home: Space, kubectl: Kubectl
) -> None:
    account.take(right)
    if right[2] == "create":
        kubectl.delete("lease", ROLE, home.name).expect()
    until("it to lead no more", lambda: not looks.leads(muster))
    until("it to say so", lambda: looks.is_told(muster, right))

    account.give_back()
    until("it to lead again", lambda: looks.leads(muster))


@rights(("jobsets.jobset.x-k8s.io", "list"), ("pods", "list"))
def test_nothing_is_written_before_everything_was_listed(
    right: Right, account: Account, muster: Spare, home: Space
) -> None:
    account.take(right)
    begin_a_term(home)
    until("it to be forbidden", lambda: looks.is_told(muster, right))
    assert not looks.leads(muster)

    account.give_back()
    until("it to lead", lambda: looks.leads(muster), 60)


@rights(("jobsets.jobset.x-k8s.io", "watch"), ("pods", "watch"))
def test_changes_are_seen_by_listing_all_again_and_again(
    right: Right, account: Account, muster: Spare, home: Space
) -> None:
    account.take(right)
    begin_a_term(home)
    until("it to be forbidden", lambda: looks.is_told(muster, right))
    until("it to lead nevertheless", lambda: looks.leads(muster))
    assert not looks.is_mended(muster, right)

    account.give_back()
    until("the watch to stand", lambda: looks.is_sound(muster, right), 60)


def want(space: Space, resource: str | None) -> None:
    """Have a namespace ask for the profile with these objects, None for no profile."""
    named = NAMES[resource] if resource else ""
    told = ("annotate", "--overwrite", "namespace", space.name, f"muster.dev/profiles={named}")
    space.kubectl.run(*told).expect()


def found(space: Space, resource: str) -> list[str]:
    """Return the names of a namespace's claims or templates."""
    return [each["metadata"]["name"] for each in space.all(resource.partition(".")[0])]


def pod(name: str, *, gated: bool = True) -> dict[str, Any]:
    """A pod as admission leaves it, or one that was let in."""
    gates: dict[str, Any] = {"schedulingGates": [{"name": jobs.GATE}]} if gated else {}
    made = devices.Devices(CLASS, CLASS, 0, "").pod(name, claim=CLAIM, **gates)
    return {**made, "metadata": {"name": name, "labels": {"muster.dev/profile": NAMES[CLAIMS]}}}


def job(name: str) -> dict[str, Any]:
    """A Job of one such pod that was let in."""
    made = pod(name, gated=False)
    template = {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def is_open(space: Space, name: str) -> bool:
    """Whether a pod has no gate any more."""
    there = space.get("pods", name)
    return there is not None and not there["spec"].get("schedulingGates")


def seats(space: Space) -> dict[str, Any]:
    """Return the seats that are written down."""
    claim = space.get("resourceclaims", CLAIM)
    held: dict[str, Any] = json.loads(claim["metadata"]["annotations"][jobs.SEATS]) if claim else {}
    return held


def said(space: Space, name: str) -> list[str]:
    """Return what Muster's Events say about a pod."""
    ours = (each for each in space.events() if (each.get("source") or {}).get("component") == "muster")
    return [str(each["message"]) for each in ours if each["involvedObject"]["name"] == name]


def begin_a_term(home: Space) -> None:
    """Give the Lease to another holder for a second, so that Muster begins to lead again."""
    taken = {"spec": {"holderIdentity": "somebody else", "leaseDurationSeconds": 1}}
    home.patch("lease", ROLE, taken).expect()
