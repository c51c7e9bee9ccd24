"""Role `muster-anchors`: what a replica needs to note in the cluster where its audit log ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.suites.rights import accounts, looks
from e2e.suites.rights.accounts import Account, Right
from e2e.suites.rights.conftest import Begin
from e2e.suites.support import documents, metrics
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("rights to anchors")

FILES = ("rbac.yaml", "rbac-anchors.yaml")
ROLE = "muster-anchors"
NAME = "muster-audit-anchors"


@pytest.fixture(scope="module")
def muster(begin: Begin, lent: Account) -> Spare:
    """A Muster that notes its anchors every five seconds."""
    settings = {"interval": 5, "namespace": lent.home.name}
    begun = begin(lent, {"audit": {"anchors": "configmap", "anchorSettings": settings}})
    begun.wait_ready()
    return begun


@pytest.mark.parametrize("right", [(ROLE, "configmaps", "create"), (ROLE, "configmaps", "update")], ids=accounts.called)
def test_where_the_log_ends_is_not_noted_and_that_is_counted_and_told(
    right: Right, account: Account, muster: Spare, space: Space, kubectl: Kubectl
) -> None:
    home = account.home.name
    if right[2] == "update":
        leave_a_record(muster, space)
        until("the first anchor", lambda: newest(kubectl, home))
    else:
        kubectl.delete("configmap", NAME, home)
    known = newest(kubectl, home)
    account.take(right)
    failed = failures(muster)
    leave_a_record(muster, space)
    until("it to be forbidden", lambda: looks.is_told(muster, right))
    until("a failure to be counted", lambda: failures(muster) > failed)
    assert newest(kubectl, home) == known

    account.give_back()
    until("the end to be noted", lambda: newest(kubectl, home) > known, 60)


def leave_a_record(muster: Spare, space: Space) -> None:
    """Have a job decided, whatever the decision is."""
    muster.ask(documents.trainjob("any", "none"), space.name, "validate")


def newest(kubectl: Kubectl, namespace: str) -> int:
    """Return the highest number of a record that is noted, 0 when nothing is."""
    found: dict[str, Any] = kubectl.get("configmap", NAME, namespace) or {}
    chains = [json.loads(text) for text in (found.get("data") or {}).values()]
    return max((each["seq"] for chain in chains for each in chain["anchors"]), default=0)


def failures(muster: Spare) -> float:
    """Return how often it could not note its anchors."""
    return metrics.total(muster.samples(), "muster_audit_problems_total", kind="anchor")
