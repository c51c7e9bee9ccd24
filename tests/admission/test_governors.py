"""What governs a job: which runtime, whose TrainJob, which framework, which devices."""

from __future__ import annotations

import copy

import orjson
import pytest
import yaml

from muster.webhook.admission import governors, reviews
from muster.webhook.cluster import readers
from tests.support import admissions, jobs, upstream

FROZEN = jobs.make_runtime("trl-distributed", framework="trl", nodes=2)
LIVE = jobs.make_runtime("trl-distributed", framework="trl")
OWNER = jobs.make_trainjob(command=["x"], metadata={"uid": jobs.UID})
JOBSET = upstream.build_jobset(OWNER, LIVE)


CONTROLLER = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llama", "controller": True}


def snapshot(runtime, name="llama", **reference):
    text = runtime if isinstance(runtime, str) else yaml.safe_dump(runtime)
    metadata = {"name": f"{name}-runtime-snapshot", "namespace": jobs.NAMESPACE}
    metadata["ownerReferences"] = [{**CONTROLLER, "uid": jobs.UID, **reference}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": text}}


def find(document, *cluster):
    request = reviews.parse(orjson.dumps(admissions.make_review(document)), "mutate")
    return governors.find(request, admissions.make_reader(*cluster), {})


def changed(document, path, value):
    out = copy.deepcopy(document)
    node = out
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    return out


def test_a_trainjob_is_governed_by_the_live_runtime_that_it_names():
    found = find(OWNER, LIVE, snapshot(FROZEN))
    assert (found.runtime.name, found.runtime.source, found.runtime.policy.num_nodes) == ("trl-distributed", "live", 1)
    assert found.owner is None


def test_a_jobset_of_trainer_is_governed_by_the_frozen_runtime_first():
    found = find(JOBSET, LIVE, OWNER, snapshot(FROZEN))
    assert (found.runtime.name, found.runtime.source, found.runtime.policy.num_nodes) == (
        "trl-distributed",
        "snapshot",
        2,
    )
    assert found.owner["metadata"]["uid"] == jobs.UID


def test_without_a_snapshot_the_live_runtime_of_its_trainjob_counts():
    found = find(JOBSET, LIVE, OWNER)
    assert (found.runtime.source, found.framework) == ("live", "trl")


@pytest.mark.parametrize(
    "frozen",
    [
        snapshot(FROZEN, controller=False),
        {**snapshot(FROZEN), "metadata": {"name": "llama-runtime-snapshot", "namespace": jobs.NAMESPACE}},
        snapshot({**FROZEN, "kind": "TrainingRuntime"}),
        snapshot({**FROZEN, "metadata": {**FROZEN["metadata"], "name": "another"}}),
    ],
)
def test_a_snapshot_that_trainer_does_not_take_is_none(frozen):
    """Any author can write a ConfigMap of this name."""
    assert find(JOBSET, LIVE, OWNER, frozen).runtime.source == "live"


def test_a_snapshot_chooses_no_other_framework_than_the_live_runtime_has():
    found = find(JOBSET, LIVE, OWNER, snapshot(jobs.make_runtime("trl-distributed", framework="torchtune")))
    assert (found.runtime.source, found.framework) == ("live", "trl")


def test_a_jobset_whose_trainjob_has_no_runtime_has_its_own_label():
    labelled = changed(JOBSET, ("metadata", "labels"), {jobs.FRAMEWORK: "vllm"})
    found = find(labelled, OWNER)
    assert (found.runtime.source, found.framework) == ("label", "vllm")


def test_a_jobset_whose_trainjob_is_gone_still_has_its_snapshot():
    found = find(JOBSET, snapshot(FROZEN))
    assert (found.runtime.source, found.owner["metadata"]["name"]) == ("snapshot", "llama")


def test_a_jobset_without_trainer_speaks_by_its_own_label():
    found = find(jobs.make_jobset(framework="vllm"), LIVE)
    assert (found.runtime.source, found.framework, found.owner) == ("label", "vllm", None)


def test_a_jobset_without_trainer_and_label_is_governed_by_nothing():
    assert find(jobs.make_jobset(framework=None), LIVE).runtime is None


@pytest.mark.parametrize(
    "reference",
    [
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llama"},
        {"apiVersion": "kubeflow.org/v1", "kind": "TrainJob", "name": "llama", "controller": True},
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "Other", "name": "llama", "controller": True},
        {},
    ],
)
def test_only_the_controlling_trainjob_of_trainers_group_owns_a_jobset(reference):
    jobset = jobs.make_jobset("llama", framework="vllm", metadata={"ownerReferences": [reference]})
    found = find(jobset, LIVE, OWNER, snapshot(FROZEN))
    assert (found.owner, found.framework) == (None, "vllm" if "labels" in jobset["metadata"] else None)


def test_a_trainjob_of_another_uid_is_asked_for_again():
    """A job was deleted and made anew under its old name, and the cache still holds one of the two."""
    older = changed(OWNER, ("metadata", "uid"), "other")
    with pytest.raises(readers.NotCached) as asked:
        find(JOBSET, LIVE, older)
    assert asked.value.ref == readers.Ref("TrainJob", jobs.NAMESPACE, "llama")


@pytest.mark.parametrize(("uid", "is_stale"), [("other", True), (jobs.UID, False), (None, False)])
def test_a_snapshot_of_a_namesake_is_asked_for_again(uid, is_stale):
    frozen = snapshot(FROZEN, uid=uid)
    if is_stale:
        with pytest.raises(readers.NotCached) as asked:
            find(JOBSET, OWNER, frozen)
        assert asked.value.ref == readers.Ref("RuntimeSnapshot", jobs.NAMESPACE, "llama")
    else:
        assert find(JOBSET, OWNER, frozen).runtime.source == "snapshot"


def test_a_namespaced_runtime_is_looked_for_in_the_jobs_namespace():
    own = {**copy.deepcopy(FROZEN), "kind": "TrainingRuntime"}
    own["metadata"]["namespace"] = jobs.NAMESPACE
    job = jobs.make_trainjob(spec={"runtimeRef": {"name": "trl-distributed", "kind": "TrainingRuntime"}})
    assert find(job, own).runtime.kind == "TrainingRuntime"
    own["metadata"]["namespace"] = "elsewhere"
    assert find(job, own).runtime is None


@pytest.mark.parametrize(
    "ref", [{}, {"name": None}, {"name": ""}, {"name": "gone"}, {"name": "trl-distributed", "kind": "Pod"}, None]
)
def test_a_runtime_that_is_not_there_governs_nothing(ref):
    assert find(jobs.make_trainjob(spec={"runtimeRef": ref}), FROZEN).runtime is None


@pytest.mark.parametrize("text", ["", "{", "- a", "x: *a", "text", "metadata: 5"])
def test_a_snapshot_that_is_no_runtime_is_named(text):
    with pytest.raises(readers.SnapshotInvalid, match=r"ConfigMap team-a/llama-runtime-snapshot"):
        find(JOBSET, OWNER, snapshot(text))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("spec", "mlPolicy"), [], r"spec\.mlPolicy: is a list, and must be an object"),
        (("spec", "mlPolicy", "numNodes"), "2", r"spec\.mlPolicy\.numNodes: '2': must be an integer"),
        (("spec", "template", "spec", "replicatedJobs"), {}, r"replicatedJobs: is an object, and must be a list"),
        (("metadata", "labels"), "trl", r"metadata\.labels: 'trl': must be an object"),
    ],
)
def test_a_governing_document_of_a_wrong_shape_is_named_with_its_field(path, value, said):
    with pytest.raises(governors.UnreadableError, match=rf"ClusterTrainingRuntime trl-distributed: .*{said}"):
        find(OWNER, changed(LIVE, path, value))
    with pytest.raises(governors.UnreadableError, match=rf"RuntimeSnapshot team-a/llama: .*{said}"):
        find(JOBSET, LIVE, OWNER, snapshot(changed(LIVE, path, value)))


def test_a_job_under_an_unreadable_runtime_is_denied_with_its_name_and_an_update_passes():
    broken = changed(LIVE, ("spec", "mlPolicy"), [])
    response = admissions.respond(OWNER, broken)
    assert response["allowed"] is False
    assert "ClusterTrainingRuntime trl-distributed: spec.mlPolicy" in response["status"]["message"]
    assert admissions.respond(OWNER, broken, operation="UPDATE", old=OWNER)["allowed"] is True


# --- devices of claims ------------------------------------------------------------------------------------------


CLAIMING = jobs.make_runtime(
    container={"resources": {"claims": [{"name": "gpus"}]}},
    pod={"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "template"}]},
)


def template(*requests):
    metadata = {"name": "template", "namespace": jobs.NAMESPACE}
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("requests", "count"),
    [
        ([{"exactly": {"count": 4}}], 4),
        ([{"exactly": {}}], 1),
        ([{"exactly": {"count": 2}}, {"exactly": {"count": 1}}], 3),
        ([{"exactly": {"allocationMode": "All"}}], None),
        ([{"exactly": {"allocationMode": "ExactCount", "count": 2}}], 2),
        ([{"firstAvailable": [{"count": 2}, {"count": 2}]}], 2),
        ([{"firstAvailable": [{"count": 2}, {"count": 1}]}], None),
        ([{"firstAvailable": [{"count": 1}, {}]}], 1),
        ([], 0),
        ([{"exactly": {"count": -1}}], None),
        ([{"exactly": {"count": 2}}, {"exactly": {"count": -2}}], None),
    ],
)
def test_devices_of_a_claim_are_counted_where_the_allocation_leaves_no_choice(requests, count):
    assert find(OWNER, CLAIMING, template(*requests)).claim_devices == {"template": count}


def asked(device_class, count, name="x"):
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count}}


@pytest.mark.parametrize(
    ("requests", "count"),
    [
        ([asked("gpu.nvidia.com", 4), asked("dranet", 4)], 4),
        ([asked("gpu.nvidia.com", 4), asked("mrdma.google.com", 8)], 4),
        ([asked("gpu.amd.com", 2), asked("gpu.amd.com", 1)], 3),
        ([asked("gpu.nvidia.com", 4), asked("acme-fabric", 4)], None),
        ([asked("acme-fabric", 4)], 4),
        ([asked("compute-domain-default-channel.nvidia.com", 1)], 0),
        ([asked("gpu.nvidia.com", 2), {"exactly": {"deviceClassName": "dranet", "allocationMode": "All"}}], 2),
    ],
)
def test_network_cards_of_a_claim_are_no_gpus(requests, count):
    assert find(OWNER, CLAIMING, template(*requests)).claim_devices["template"] == count


def test_each_request_of_a_claim_is_counted_too_as_a_container_may_use_one_alone():
    found = find(OWNER, CLAIMING, template(asked("acme-fabric", 4, "a"), asked("gpu.nvidia.com", 2, "b")))
    assert found.claim_devices == {"template": None, "template/a": 4, "template/b": 2}


def test_a_template_that_does_not_exist_leaves_the_count_open():
    assert find(OWNER, CLAIMING).claim_devices == {"template": None}


def test_a_claim_by_name_is_counted_as_the_claim_and_never_as_a_template_of_that_name():
    runtime = changed(
        CLAIMING,
        ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "resourceClaims"),
        [{"name": "gpus", "resourceClaimName": "shared"}],
    )
    namesake = template({"exactly": {"count": 2}})
    namesake["metadata"]["name"] = "shared"
    assert find(OWNER, runtime, namesake).claim_devices == {"shared": None}
    claim = {**namesake, "kind": "ResourceClaim", "spec": {"devices": {"requests": [{"exactly": {"count": 4}}]}}}
    assert find(OWNER, runtime, namesake, claim).claim_devices == {"shared": 4}
