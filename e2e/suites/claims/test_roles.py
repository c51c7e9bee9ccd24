"""Roles: trainers and samplers run on the nodes that the platform has for them, and nowhere else."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.suites.claims import jobs, pools
from e2e.suites.claims.conftest import pending
from e2e.suites.claims.pools import HOST, POOL, places, sampler, toleration, trainer
from e2e.suites.lifecycle import lives
from e2e.suites.lifecycle.lives import Life
from e2e.suites.lifecycle.scenes import Scene
from e2e.suites.pods import trainings
from e2e.suites.support import devices, documents, spaces, thorough
from e2e.suites.support.devices import end
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.thorough_on_nodes]

POOLS = {"trainer": ("e2e-trains-0", "e2e-trains-1"), "sampler": ("e2e-samples-0", "e2e-samples-1")}
OURS = {name for names in POOLS.values() for name in names}
ASKED = {jobs.PROFILE: "session"}
SEATED = {jobs.PROFILE: "seat"}
SESSIONS = 6  # of 16 GiB on two hosts of 48
SPEC = "spec.replicatedJobs[node].template.spec.template.spec"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
MANAGER = "team.example/placement"
PATCHED = f"spec.runtimePatches[{MANAGER}].trainingRuntimeSpec.template.{SPEC}"
QUEUES = {"key": "e2e.muster.dev/flavor", "operator": "Exists"}


def _requires(expression: dict[str, Any]) -> dict[str, Any]:
    """Members of a pod's spec: a required node affinity."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


@pytest.fixture(scope="module", autouse=True)
def pooled(kubectl: Kubectl) -> Iterator[None]:
    """The nodes of both roles, with devices."""
    if not kubectl.all("nodes", selector="type=kwok"):
        pytest.skip("this cluster has no KWOK (no node with the label type=kwok), which the nodes of the roles need")
    try:
        kubectl.apply(devices.device_class(pools.DRIVER, f"device.driver == '{pools.DRIVER}'")).expect()
        with (
            pools.nodes(kubectl, "trainer", *POOLS["trainer"]),
            pools.nodes(kubectl, "sampler", *POOLS["sampler"]),
        ):
            yield
    finally:
        kubectl.delete("deviceclass", pools.DRIVER).expect()


@pytest.fixture(scope="module", autouse=True)
def configured(installation: Installation, pooled: None) -> Iterator[None]:
    """Muster, with both roles and the profiles."""
    with installation.configure(pools.configuration()):
        yield


@pytest.fixture(autouse=True)
def emptied(kubectl: Kubectl, configured: None) -> None:
    """The nodes, when the pods of earlier tests are gone."""
    until("the pods of earlier tests to be gone", lambda: not pools.occupied(kubectl, *OURS), 60)


@pytest.fixture
def both(kubectl: Kubectl, emptied: None) -> Iterator[tuple[str, ...]]:
    """Two nodes that either role may use, of new names: KWOK would take up the Lease of an old node of theirs."""
    named = secrets.token_hex(2)
    with pools.nodes(kubectl, "both", f"e2e-both-{named}-0", f"e2e-both-{named}-1") as names:
        yield names


@pytest.fixture
def other(both: tuple[str, ...], kubectl: Kubectl) -> Iterator[Space]:
    """A second namespace."""
    made = Space(spaces.named("other"), kubectl).make()
    yield made
    made.remove()


def test_trainers_and_samplers_run_on_their_own_nodes_and_nowhere_else(space: Space, kubectl: Kubectl) -> None:
    jobs.started(space, _runtime(), trainer("trains", 4))
    space.apply(sampler("samples", 6), sampler("plain", 4, role=None)).expect()
    assert places(space, "trains", 4).keys() <= set(POOLS["trainer"])
    assert places(space, "samples", 6) == dict.fromkeys(POOLS["sampler"], 3)
    # The same pods without a role: there are free nodes that take them, and the roles' nodes do not.
    free = {node["metadata"]["name"] for node in kubectl.all("nodes", selector="type=kwok")} - OURS
    assert places(space, "plain", 4).keys() <= free


@pytest.mark.thorough
def test_pods_have_the_affinity_and_tolerations_of_their_role_beside_their_own(space: Space) -> None:
    own = {"key": HOST, "operator": "In", "values": [POOLS["sampler"][1]]}
    jobs.started(space, _runtime(), trainer("trains", 1))
    space.apply(sampler("samples", pod=_requires(own))).expect()
    assert places(space, "trains", 1).total() == 1
    assert places(space, "samples", 1) == {POOLS["sampler"][1]: 1}
    for job, role, theirs in (("trains", "trainer", []), ("samples", "sampler", [own])):
        (name,) = jobs.pods(space, job)
        pod = space.get("pods", name)
        assert pod is not None
        pool = {"key": POOL, "operator": "In", "values": [role, "both"]}
        required = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]
        assert required == {"nodeSelectorTerms": [{"matchExpressions": [*theirs, pool]}]}
        assert _ours(pod["spec"]) == [*documents.FAKE["tolerations"], toleration(role), toleration("both")]
        assert pod["spec"]["nodeSelector"] == documents.FAKE["nodeSelector"]
        assert pod["metadata"]["labels"][pools.ROLE] == role


def test_trainers_and_samplers_share_no_host_whatever_their_namespaces(
    both: tuple[str, ...], other: Space, space: Space
) -> None:
    here = {"nodeSelector": {POOL: "both"}}
    jobs.started(space, _runtime(pod=here), trainer("trains", 1))
    (taken,) = places(space, "trains", 1)
    (left,) = set(both) - {taken}
    other.apply(sampler("samples", 4, pod=here)).expect()
    assert places(other, "samples", 4) == {left: 4}
    other.apply(sampler("late", pod={"nodeSelector": {HOST: taken}})).expect()
    (late,) = jobs.pods(other, "late")
    pending(other, late, "anti-affinity")
    space.delete("trainjob", "trains").expect()
    assert places(other, "late", 1) == {taken: 1}


@pytest.mark.thorough
def test_roles_that_are_not_apart_share_a_host(both: tuple[str, ...], space: Space, installation: Installation) -> None:
    together = {"nodeSelector": {HOST: both[0]}}
    roles = {"trainer": {"apart": False}, "sampler": {"apart": False}}
    with pools.refitted(space, installation, roles, {"podAntiAffinity": None}):
        jobs.started(space, _runtime(pod=together), trainer("trains", 1))
        space.apply(sampler("samples", 2, pod=together)).expect()
        assert places(space, "trains", 1) + places(space, "samples", 2) == {both[0]: 3}


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        ({"nodeSelector": {POOL: "trainer"}}, f"nodeSelector[{POOL}]: Invalid value: 'trainer'"),
        ({"nodeSelector": {POOL: "none"}}, f"nodeSelector[{POOL}]: Invalid value: 'none'"),
        (_requires({"key": POOL, "operator": "In", "values": ["trainer"]}), f"{TERMS}: Invalid value"),
    ],
    ids=["the other's nodes", "no role's nodes", "by affinity"],
)
def test_a_sampler_that_asks_for_nodes_that_are_not_its_roles_is_refused(
    space: Space, pod: dict[str, Any], field: str
) -> None:
    refused = space.apply(sampler("confused", pod=pod))
    assert refused.refused_with(f"{SPEC}.{field}", "no node of role sampler"), str(refused)
    assert space.all(f"{JOBSETS},pods") == []


@pytest.mark.thorough
def test_a_trainer_whose_runtime_asks_for_the_samplers_nodes_is_refused(space: Space) -> None:
    space.apply(_runtime(pod={"nodeSelector": {POOL: "sampler"}})).expect()
    trainings.known(space, documents.trainjob("plain", "torch"))
    refused = space.apply(trainer("confused"))
    words = f"nodeSelector[{POOL}]: 'sampler': no node of role trainer has this label"
    assert refused.refused_with("spec.runtimeRef.name: Invalid value: 'torch'", words), str(refused)
    assert space.all(f"{TRAINJOBS},{JOBSETS},pods") == []


def test_a_trainer_that_asks_for_the_samplers_nodes_is_refused(space: Space) -> None:
    space.apply(_runtime()).expect()
    trainings.known(space, documents.trainjob("plain", "torch"))
    refused = space.apply(trainer("confused", runtimePatches=[_patch({"nodeSelector": {POOL: "sampler"}})]))
    field = f"{PATCHED}.nodeSelector[{POOL}]: Invalid value: 'sampler'"
    assert refused.refused_with(field, "no node of role trainer has this label"), str(refused)
    assert space.all(f"{TRAINJOBS},{JOBSETS},pods") == []


@pytest.mark.thorough
def test_a_pod_too_large_for_every_node_of_its_role_is_warned_about_until_a_larger_one_joins(
    space: Space, kubectl: Kubectl
) -> None:
    large = sampler("large", resources={"requests": {"memory": "64Gi"}})
    (warned,) = space.apply(large).expect().warnings
    assert f"{SPEC}.containers[node].resources.requests.memory" in warned
    assert "none of the 2 nodes of role sampler has more than 48Gi" in warned
    (waits,) = jobs.pods(space, "large")
    pending(space, waits, "Insufficient memory")
    with pools.nodes(kubectl, "sampler", "e2e-samples-2", memory="96Gi") as (joined,):
        again = sampler("again", resources={"requests": {"memory": "64Gi"}})
        until("the warning to disappear", lambda: not space.apply(again, dry_run=True).expect().warnings)
        assert places(space, "large", 1) == {joined: 1}
        space.delete("jobset", "large").expect()


@pytest.mark.thorough
def test_sessions_fill_a_host_and_the_next_waits_until_one_ends(space: Space) -> None:
    names = [f"session-{number}" for number in range(SESSIONS)]
    space.apply(*(sampler(name, annotations=ASKED) for name in names)).expect()
    placed = sum((places(space, name, 1) for name in names), Counter[str]())
    assert placed == dict.fromkeys(POOLS["sampler"], SESSIONS // 2)
    space.apply(sampler("late", annotations=ASKED)).expect()
    (late,) = jobs.pods(space, "late")
    pending(space, late, "Insufficient memory")
    end(space, jobs.pods(space, names[0])[0])
    assert places(space, "late", 1).total() == 1


@pytest.mark.parametrize(
    "tolerates",
    thorough.but_named(
        "its runtime tolerates a taint",
        of={"its runtime tolerates a taint": True, "its runtime tolerates none": False},
    ),
)
def test_a_trainer_that_is_suspended_and_resumed_stays_on_its_roles_nodes(
    space: Space, installation: Installation, tolerates: bool
) -> None:
    lives.submit(space, _runtime(fake=tolerates), trainer("trains", suspend=True))
    life = Life(space, "trains", installation)
    placed = _template(life.wait("suspended"))
    assert _ours(placed["spec"])[-2:] == [toleration("trainer"), toleration("both")]
    for _ in range(2):
        assert _template(life.poke()) == placed
        _on_trainers_nodes(life.resume())
        assert _template(life.suspend()) == placed
    # A list that Trainer writes itself would be without the role's part; one that it does not write stays as it is.
    assert any(field.startswith(f"{SPEC}.tolerations") for field in _restored(installation, space)) is tolerates
    life.delete()


@pytest.mark.thorough
def test_a_queue_that_places_a_trainer_adds_to_its_role(space: Space, installation: Installation) -> None:
    lives.submit(space, _runtime(), trainer("trains", suspend=True))
    life = Life(space, "trains", installation)
    before = _template(life.wait("suspended"))
    host = POOLS["trainer"][1]
    flavor = {"tolerations": [QUEUES], "nodeSelector": {HOST: host}}
    for _ in range(2):
        lives.patch_runtime(space, "trains", {"suspend": False, "runtimePatches": [_patch(flavor)]})
        scene = life.wait("running")
        assert {pod["spec"]["nodeName"] for pod in scene.pods} == {host}
        assert _ours(_template(scene)["spec"]) == [QUEUES, toleration("trainer"), toleration("both")]
        life.suspend()
        lives.patch_runtime(space, "trains", {"runtimePatches": None})
        life.poke(1)
        until("the template to be as before", lambda: _template(life.wait("suspended")) == before)


@pytest.mark.parametrize("suspend", [True, False], ids=["while it waits", "while it runs"])
def test_a_samplers_file_that_is_sent_again_leaves_it_in_its_place(space: Space, suspend: bool) -> None:
    file = sampler("samples", 2, suspend=suspend)
    # JobSet writes it when a job is created, and refuses a file without it ever after, with Muster or not.
    file["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] = "Indexed"
    space.apply(file).expect()
    if not suspend:
        assert places(space, "samples", 2).keys() <= set(POOLS["sampler"])
    before = _placement(space, "samples")
    assert before["tolerations"] == [*documents.FAKE["tolerations"], toleration("sampler"), toleration("both")]
    for _ in range(2):
        space.apply(file).expect()
        assert _placement(space, "samples") == before
    space.patch(JOBSETS, "samples", {"spec": {"suspend": False}}).expect()
    assert places(space, "samples", 2).keys() <= set(POOLS["sampler"])


def test_deleting_everything_leaves_no_claim_template_node_or_namespace(space: Space, kubectl: Kubectl) -> None:
    with pools.nodes(kubectl, "both", "e2e-leaves-0", "e2e-leaves-1") as (first, second):
        jobs.started(space, _runtime(pod={"nodeSelector": {HOST: first}}), trainer("trains"))
        space.apply(sampler("samples", 2, pod={"nodeSelector": {HOST: second}}, annotations=SEATED)).expect()
        assert len(set(jobs.held(space, "trains", 2))) == 2
        assert len(set(jobs.held(space, "samples", 2))) == 1
        assert len(space.all("resourceclaims")) == 3
        space.delete("trainjob", "trains").expect()
        space.delete("jobset", "samples").expect()
        until("claims and templates to be gone", lambda: _claims(space) == [], 90)
        space.remove()
        until("the namespace to be gone", lambda: kubectl.get("namespaces", space.name) is None, 60)
    assert {node["metadata"]["name"] for node in kubectl.all("nodes", selector=POOL)} == OURS
    assert not [each for each in devices.everywhere(kubectl) if each["metadata"]["namespace"] == space.name]


def _runtime(*, fake: bool = True, pod: dict[str, Any] | None = None) -> dict[str, Any]:
    """The runtime of the trainers, whose pods may go to any of KWOK's nodes."""
    return documents.training_runtime("torch", command=["torchrun", "train.py"], fake=fake, pod=pod)


def _patch(pod: dict[str, Any]) -> dict[str, Any]:
    """What a queue, or anybody else, writes into a TrainJob to place its pods."""
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    runtime = {"template": {"spec": {"replicatedJobs": [job]}}}
    return {"manager": MANAGER, "trainingRuntimeSpec": runtime}


def _template(scene: Scene) -> dict[str, Any]:
    assert scene.jobset is not None
    return pools.template(scene.jobset)


def _placement(space: Space, name: str) -> dict[str, Any]:
    """All that a role puts on a JobSet."""
    template = pools.template(space.wait_jobset(name))
    members = ("affinity", "tolerations", "topologySpreadConstraints", "nodeSelector")
    return {"labels": template["metadata"]["labels"], **{member: template["spec"][member] for member in members}}


def _ours(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The tolerations of a pod, without those that the API server gives to every pod."""
    return [each for each in spec["tolerations"] if not each["key"].startswith("node.kubernetes.io/")]


def _on_trainers_nodes(scene: Scene) -> None:
    assert len(scene.pods) == 2
    assert {pod["spec"]["nodeName"] for pod in scene.pods} <= set(POOLS["trainer"])


def _restored(installation: Installation, space: Space) -> set[str]:
    """The fields of JobSets that Muster gave back on updates."""
    updates = [each for each in installation.audit(space.name) if each["operation"] == "UPDATE"]
    changes = [change for each in updates if each["object"]["kind"] == "JobSet" for change in each["changes"]]
    return {change["field"] for change in changes if change["rule"] == "core/restore"}


def _claims(space: Space) -> list[str]:
    found = space.all("resourceclaims,resourceclaimtemplates")
    return [f"{each['kind']}/{each['metadata']['name']}" for each in found]
