"""Role `muster-trainings`: what the replica needs that keeps what guards report, and what is lost without it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.suites.rights import accounts, looks
from e2e.suites.rights.accounts import Account, Right
from e2e.suites.rights.conftest import Begin
from e2e.suites.support import documents, guards, thorough
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("rights to trainings")

FILES = ("rbac.yaml", "rbac-trainings.yaml")
ROLE = "muster-trainings"
JOBSETS, LEASES = "jobsets.jobset.x-k8s.io", "leases.coordination.k8s.io"
QUICK = ((JOBSETS, "patch"),)
"""The rights that `make test` takes away."""


@pytest.fixture(scope="module")
def muster(begin: Begin, lent: Account) -> Spare:
    """A Muster that keeps what guards report."""
    lease = {"namespace": lent.home.name, "duration": 2, "deadline": 1.5, "retry": 0.3}
    begun = begin(lent, {"trainings": {"enabled": True, "lease": lease}})
    begun.wait_ready()
    until("it to lead", lambda: leads(begun))
    return begun


@pytest.fixture
def space(space: Space, lent: Account) -> Iterator[Space]:
    """A namespace in which Muster may write, with a JobSet whose pod has not begun."""
    space.create(documents.jobset("job", framework=None, fake=False)).expect()
    until("its pod", space.pods)
    with lent.let_in(space):
        yield space


def rights(*pairs: tuple[str, str]) -> pytest.MarkDecorator:
    """Have a test run for each of these rights of the role."""
    quick = [(ROLE, *pair) for pair in pairs if pair in QUICK]
    every = [(ROLE, *pair) for pair in pairs]
    return pytest.mark.parametrize("right", thorough.but(*quick, of=every, called=accounts.called))


@rights((JOBSETS, "get"), (JOBSETS, "patch"))
def test_what_a_guard_reports_is_not_written_on_the_job(
    right: Right, account: Account, muster: Spare, space: Space
) -> None:
    account.take(right)
    guards.report(space, "job", size=1, expected=2)
    until("it to be forbidden", lambda: looks.is_told(muster, right, space.name))
    assert kept(space) == {}

    account.give_back()
    until("the report to be kept", lambda: kept(space).get("outcome") == "not-as-asked", 60)


@rights(("events", "create"))
def test_a_training_that_is_not_as_asked_is_kept_and_no_event_tells_it(
    right: Right, account: Account, muster: Spare, space: Space
) -> None:
    account.take(right)
    guards.report(space, "job", size=1, expected=2, verdict="size-differs")
    until("the report to be kept", lambda: kept(space).get("verdict") == "size-differs", 60)
    assert guards.told(space, "job") == []


@rights(("pods", "list"))
def test_what_guards_reported_before_is_not_known(
    right: Right, account: Account, muster: Spare, home: Space, space: Space
) -> None:
    account.take(right)
    begin_a_term(home)
    until("it to be forbidden", lambda: looks.is_told(muster, right))
    guards.report(space, "job", size=2, expected=2)
    assert kept(space) == {}

    account.give_back()
    until("the report to be kept", lambda: kept(space).get("outcome") == "as-asked", 60)


@rights(("pods", "watch"))
def test_reports_are_seen_by_listing_all_pods_again_and_again(
    right: Right, account: Account, muster: Spare, home: Space
) -> None:
    account.take(right)
    begin_a_term(home)
    until("it to be forbidden", lambda: looks.is_told(muster, right))
    assert not looks.is_mended(muster, right)

    account.give_back()
    until("the watch to stand", lambda: looks.is_sound(muster, right), 60)


@rights((LEASES, "create"), (LEASES, "get"), (LEASES, "update"))
def test_nobody_leads_without_a_lease(
    right: Right, account: Account, muster: Spare, home: Space, kubectl: Kubectl
) -> None:
    account.take(right)
    if right[2] == "create":
        kubectl.delete("lease", ROLE, home.name).expect()
    until("it to lead no more", lambda: not leads(muster))
    until("it to say so", lambda: looks.is_told(muster, right))

    account.give_back()
    until("it to lead again", lambda: leads(muster))


def leads(muster: Spare) -> bool:
    """Whether it holds the Lease."""
    return looks.leads(muster, "muster_trainings_leading")


def kept(space: Space) -> dict[str, object]:
    """Return what is kept of the training."""
    job = space.get("jobset", "job")
    found: dict[str, object] = json.loads(((job or {})["metadata"].get("annotations") or {}).get(guards.KEPT, "{}"))
    return found


def begin_a_term(home: Space) -> None:
    """Give the Lease to another holder for a second, so that Muster begins to lead again."""
    taken = {"spec": {"holderIdentity": "somebody else", "leaseDurationSeconds": 1}}
    home.patch("lease", ROLE, taken).expect()
