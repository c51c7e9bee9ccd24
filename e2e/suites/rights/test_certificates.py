"""Role `muster-certificates`: what replicas need to make, share and renew certificates, and to be trusted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.suites.rights import accounts, looks, trusts
from e2e.suites.rights.accounts import Account, Right
from e2e.suites.rights.conftest import Begin
from e2e.suites.rights.trusts import KINDS, Trust
from e2e.suites.support import thorough
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("rights to certificates")

FILES = ("rbac.yaml", "rbac-certificates.yaml")
ROLE = "muster-certificates"
LEASES = "leases.coordination.k8s.io"
MUTATING, VALIDATING = (f"{kind}.admissionregistration.k8s.io" for kind in KINDS)
LEADING = "muster_certificates_leading"


@pytest.fixture(scope="module")
def trust(kubectl: Kubectl, home: Space) -> Iterator[Trust]:
    """The configurations of the module's Muster."""
    made = Trust(kubectl, home.name)
    made.make()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def muster(begin: Begin, lent: Account, trust: Trust) -> Spare:
    """A Muster that leads, and is trusted."""
    begun = begin(lent, trusts.config(lent.home.name))
    begun.wait_ready()
    until("it to lead", lambda: looks.leads(begun, LEADING))
    return begun


@pytest.fixture
def newcomer(kubectl: Kubectl, space: Space) -> Iterator[Account]:
    """An account of a test's own, in whose namespace there is no Secret yet; nobody trusts its Muster."""
    own = Trust(kubectl, space.name)
    own.make()
    with accounts.made(kubectl, space, *FILES) as made:
        yield made
    own.remove()


QUICK = ((MUTATING, "patch"),)
"""The rights that `make test` takes away."""


def rights(*pairs: tuple[str, str]) -> pytest.MarkDecorator:
    """Have a test run for each of these rights of the role."""
    quick = [(ROLE, *pair) for pair in pairs if pair in QUICK]
    every = [(ROLE, *pair) for pair in pairs]
    return pytest.mark.parametrize("right", thorough.but(*quick, of=every, called=accounts.called))


@rights(("secrets", "create"), ("secrets", "get"), (MUTATING, "get"), (VALIDATING, "get"))
def test_no_replica_becomes_ready(right: Right, newcomer: Account, begin_anew: Begin) -> None:
    newcomer.take(right)
    muster = begin_anew(newcomer, trusts.config(newcomer.home.name))
    until("it to be forbidden", lambda: looks.is_told(muster, right))
    assert muster.problem()
    assert muster.is_alive()

    newcomer.give_back()
    muster.wait_ready()


@rights(("secrets", "update"))
def test_no_authority_follows_another(right: Right, newcomer: Account, begin_anew: Begin, kubectl: Kubectl) -> None:
    name = newcomer.home.name
    kubectl.create(trusts.overdue(name)).expect()
    newcomer.take(right)
    muster = begin_anew(newcomer, trusts.config(name))
    until("it to be forbidden", lambda: looks.is_told(muster, right))
    assert trusts.authorities(kubectl, name) == 1

    newcomer.give_back()
    until("a successor to be made", lambda: trusts.authorities(kubectl, name) == 2)


@rights((MUTATING, "patch"), (VALIDATING, "patch"))
def test_a_bundle_that_was_spoilt_stays_so(right: Right, account: Account, muster: Spare, trust: Trust) -> None:
    kind = right[1].partition(".")[0]
    account.take(right)
    trust.spoil(kind)
    until("it to be forbidden", lambda: looks.is_told(muster, right))
    assert not trust.is_whole(kind)

    account.give_back()
    until("the bundle to be repaired", lambda: trust.is_whole(kind))


@rights((LEASES, "create"), (LEASES, "get"), (LEASES, "update"))
def test_nobody_mends_a_bundle_without_a_lease(
    right: Right, account: Account, muster: Spare, trust: Trust, kubectl: Kubectl
) -> None:
    account.take(right)
    if right[2] == "create":
        kubectl.delete("lease", ROLE, account.home.name).expect()
    until("it to lead no more", lambda: not looks.leads(muster, LEADING))
    until("it to say so", lambda: looks.is_told(muster, right))
    for kind in KINDS:
        trust.spoil(kind)

    account.give_back()
    until("the bundles to be repaired", lambda: all(map(trust.is_whole, KINDS)))
