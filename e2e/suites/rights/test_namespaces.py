"""`cluster.namespaces`: a Muster whose rights are Roles in some namespaces works there, and can do nothing elsewhere.

That the chart's Roles have the rules of the manifests is shown in `tests/packaging`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.suites.rights import accounts, looks, scenes
from e2e.suites.rights.accounts import Account
from e2e.suites.rights.conftest import Begin
from e2e.suites.rights.test_controllers import CLAIMS, NAMES, PROFILES, is_open, pod
from e2e.suites.support import documents, guards, spaces
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until
from muster.webhook.controllers import trainings

pytestmark = pytest.mark.xdist_group("rights in namespaces")

FILES = ("rbac.yaml", "rbac-controllers.yaml", "rbac-trainings.yaml")
READ = (
    "configmaps",
    "pods",
    "trainjobs.trainer.kubeflow.org",
    "trainingruntimes.trainer.kubeflow.org",
    "jobsets.jobset.x-k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
)


@pytest.fixture(scope="module")
def lent(kubectl: Kubectl, home: Space) -> Iterator[Account]:
    """An account that reads and writes in namespaces alone."""
    with accounts.made(kubectl, home, *FILES, narrow=True) as made:
        yield made


@pytest.fixture(scope="module")
def inside(kubectl: Kubectl, lent: Account) -> Iterator[Space]:
    """A namespace that the configuration names."""
    made = Space(spaces.named("inside"), kubectl).make()
    with lent.let_in(made):
        yield made
    made.remove()


@pytest.fixture(scope="module")
def muster(begin: Begin, lent: Account, inside: Space) -> Spare:
    """A Muster that leads in that namespace."""
    times = {"namespace": lent.home.name, "duration": 2, "deadline": 1.5, "retry": 0.3}
    config = {
        "cluster": {"namespaces": [inside.name]},
        "profiles": {NAMES[CLAIMS]: PROFILES[CLAIMS]},
        "controllers": {"enabled": True, "grace": 1, "resync": 1, "lease": times},
        "trainings": {"enabled": True, "lease": times},
    }
    begun = begin(lent, config)
    begun.wait_ready()
    until("it to lead", lambda: looks.leads(begun))
    return begun


def test_in_its_namespace_it_decides_by_what_is_there(muster: Spare, inside: Space) -> None:
    scene = scenes.made(inside)
    try:
        for resource in ("trainingruntimes.trainer.kubeflow.org", "configmaps", "clustertrainingruntimes"):
            answer = muster.ask(*scene.asks_for(resource))
            assert answer.allowed, answer
    finally:
        scene.remove()


def test_seats_are_given_in_its_namespace_and_nowhere_else(muster: Spare, inside: Space, space: Space) -> None:
    space.create(pod("outside")).expect()
    inside.create(pod("inside")).expect()
    until("a pod to get the seat", lambda: is_open(inside, "inside"))
    assert not is_open(space, "outside")
    assert space.all(CLAIMS) == []
    assert [each for each in muster.said() if "forbidden" in str(each)] == []


def test_reports_are_kept_in_its_namespace(muster: Spare, inside: Space) -> None:
    inside.create(documents.jobset("told", framework=None, fake=False)).expect()
    until("its pod", lambda: inside.pods("jobset.sigs.k8s.io/jobset-name=told"))
    guards.report(inside, "told", size=1, expected=2)
    until(
        "the report", lambda: trainings.ANNOTATION in (inside.jobset("told") or {})["metadata"].get("annotations", {})
    )


def test_its_token_reads_and_writes_nothing_of_other_namespaces(
    kubectl: Kubectl, lent: Account, inside: Space, space: Space
) -> None:
    user = f"--as=system:serviceaccount:{lent.home.name}:muster"

    def may(verb: str, resource: str, *where: str) -> bool:
        return kubectl.run("auth", "can-i", verb, resource, *where, user).ok

    for resource in READ:
        assert may("list", resource, "-n", inside.name), resource
        assert not may("list", resource, "-n", space.name), resource
        assert not may("list", resource, "--all-namespaces"), resource
    for verb, resource in (("patch", "pods"), ("delete", "pods"), ("patch", "jobsets.jobset.x-k8s.io")):
        assert may(verb, resource, "-n", inside.name)
        assert not may(verb, resource, "-n", space.name)
