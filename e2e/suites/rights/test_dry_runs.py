"""`checks.dryRun`: what the API server refuses of pods and Jobs is told at `kubectl apply`; rights that it needs."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.pods import trainings
from e2e.suites.rights import accounts
from e2e.suites.rights.accounts import Account, Right
from e2e.suites.rights.conftest import Begin
from e2e.suites.support import documents
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until
from muster.webhook.cluster import dry_runs
from tests.corpus import cases

pytestmark = pytest.mark.xdist_group("installation")

FILES = ("rbac.yaml", "rbac-dry-runs.yaml")
FILE = REPOSITORY / "manifests" / "overlays" / "production" / "rbac-dry-runs.yaml"
ACCOUNT = "--as=system:serviceaccount:muster-system:muster"
ROLE = "muster-dry-runs"
ENFORCE = "pod-security.kubernetes.io/enforce"
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small"},
    "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]},
}
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}


@pytest.fixture(scope="module")
def asking(installation: Installation, kubectl: Kubectl) -> Iterator[Installation]:
    """The installed Muster, with the dry runs on, their rights and their policy."""
    shipped = list(yaml.safe_load_all(FILE.read_text()))
    kubectl.apply(*shipped).expect()
    try:
        with installation.configure({"checks": {"dryRun": True}}):
            yield installation
    finally:
        for each in reversed(shipped):
            kubectl.delete(each["kind"].lower(), each["metadata"]["name"])


@pytest.fixture(scope="module")
def muster(begin: Begin, lent: Account) -> Spare:
    """A Muster of an account with the shipped rights."""
    begun = begin(lent, {"checks": {"dryRun": True}})
    begun.wait_ready()
    return begun


@pytest.fixture
def space(space: Space, lent: Account) -> Iterator[Space]:
    """A namespace in which Muster may make dry runs, with a runtime."""
    space.apply(documents.training_runtime("rt", command=["torchrun", "train.py"])).expect()
    trainings.known(space, documents.trainjob("known", "rt")).expect()
    with lent.let_in(space):
        until("Muster to be let in", lambda: lent.may((ROLE, "pods", "create"), space))
        yield space


def restricted(space: Space) -> None:
    """Let the namespace take no pod but a restricted one."""
    space.kubectl.run("label", "namespace", space.name, f"{ENFORCE}=restricted").expect()


def wrong(**pod: Any) -> dict[str, Any]:
    """Return a JobSet whose pods have these members."""
    jobset = copy.deepcopy(documents.jobset("mine", "torch", command=["torchrun", "train.py"]))
    for each in jobset["spec"]["replicatedJobs"]:
        each["template"]["spec"]["template"]["spec"] |= pod
    return jobset


def test_pod_security_speaks_at_kubectl_apply(asking: Installation, space: Space) -> None:
    restricted(space)
    outcome = space.apply(wrong())
    assert outcome.refused_with('violates PodSecurity "restricted:latest"', "(muster core/dry-run)")
    assert space.all(JOBSETS) == []


def test_it_speaks_of_the_pods_of_a_trainjob_too(asking: Installation, space: Space) -> None:
    restricted(space)
    outcome = space.apply(documents.trainjob("mine", "rt"))
    assert outcome.refused_with('violates PodSecurity "restricted:latest"', "spec.runtimeRef.name")
    assert space.all(TRAINJOBS) == []


def test_a_limit_range_speaks_at_kubectl_apply(asking: Installation, space: Space) -> None:
    space.apply(LIMITS).expect()
    jobset = wrong()
    (container,) = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"memory": "2Gi"}}
    assert space.apply(jobset).refused_with("maximum memory usage per Container is 1Gi")


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"dnsPolicy": "None"}, "dnsConfig"),
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "tolerations[0]"),
    ],
)
def test_the_validation_of_a_pod_speaks_at_kubectl_apply(
    asking: Installation, space: Space, pod: Mapping[str, Any], words: str
) -> None:
    assert space.apply(wrong(**pod)).refused_with(words, "(muster core/dry-run)")


def test_the_validation_of_a_job_speaks_at_kubectl_apply(asking: Installation, space: Space) -> None:
    jobset = wrong()
    jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = -1
    assert space.apply(jobset).refused_with("spec.backoffLimit", "(muster core/dry-run)")


def test_a_quota_that_is_used_up_is_a_warning(asking: Installation, space: Space) -> None:
    space.apply(QUOTA).expect()
    outcome = until("the quota to be known", lambda: told(space), 20)
    assert "exceeded quota: few" in outcome


def told(space: Space) -> str:
    """Return the warnings about a right job, "" while there are none."""
    outcome = space.apply(wrong(), dry_run=True).expect()
    return outcome.err if "exceeded quota" in outcome.err else ""


def test_a_right_job_is_let_in(asking: Installation, space: Space) -> None:
    space.apply(documents.trainjob("other", "rt"), wrong()).expect()


@pytest.mark.parametrize("right", [(ROLE, "pods", "create"), (ROLE, "jobs.batch", "create")], ids=accounts.called)
def test_without_the_right_a_job_is_let_in(right: Right, account: Account, muster: Spare, space: Space) -> None:
    restricted(space)
    account.take(right)
    refused = not muster.ask(wrong(), space.name, "validate").allowed
    assert refused is (right[1] != "pods")
    assert outcomes(muster)["forbidden"] >= 1
    account.give_back()


def outcomes(muster: Spare) -> dict[str, float]:
    """Return how many dry runs had which outcome."""
    return {labels["outcome"]: value for name, labels, value in muster.samples() if name == "muster_dry_runs_total"}


def test_with_the_shipped_rights_it_asks_and_stores_nothing(muster: Spare, lent: Account, space: Space) -> None:
    restricted(space)
    until("the API server to be asked", lambda: not muster.ask(wrong(), space.name, "validate").allowed, 60)
    assert space.all("pods,jobs.batch") == []


def test_its_account_creates_dry_runs_alone(asking: Installation, space: Space) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine"}, "spec": documents.pod_spec(CONTAINER)}
    until("the policy to be in force", lambda: not space.create(pod, dry_run=False, options=(ACCOUNT,)).ok)
    assert "Muster creates Jobs and pods as dry runs alone" in space.create(pod, options=(ACCOUNT,)).err
    space.create(pod, dry_run=True, options=(ACCOUNT,)).expect()
    space.create(pod).expect()


def test_every_case_of_the_corpus_that_only_an_api_server_refuses_is_refused(space: Space) -> None:
    asked = {f"c{number}-": name for number, name in enumerate(cases.refused_by_dry_runs())}
    every = [
        {**question.document, "metadata": {**question.document["metadata"], "generateName": called}}
        for called, name in asked.items()
        for jobset in cases.outcome(name).jobsets
        for question in dry_runs.questions(jobset, space.name)
    ]
    outcome = space.create(*every, dry_run=True, options=("--validate=false",))
    made = Counter(line.partition("/")[2].partition("-")[0] + "-" for line in outcome.out.splitlines())
    sent = Counter(each["metadata"]["generateName"] for each in every)
    assert [name for called, name in asked.items() if made[called] >= sent[called]] == []


CONTAINER = {"name": "main", "image": "example.org/main:1", "command": ["sleep", "1"]}
