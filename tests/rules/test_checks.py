"""What holds for every framework, and the shapes of documents."""

from __future__ import annotations

import pytest

from muster.strategies import Finding, Severity, error, warning
from muster.strategies.documents import decoding, findings, model, paths, pods, runtimes, trainjobs
from muster.webhook.cluster.memory import InMemoryReader
from muster.webhook.cluster.overlay import Overlay
from tests.support import admissions, jobs

RUNTIME = jobs.make_runtime(framework=None)


def found_in(job, *cluster):
    return {
        (found.field, found.rule): found
        for found in admissions.decide(job, *(cluster or (RUNTIME,)), phase="validate").findings
    }


@pytest.mark.parametrize("member", ["numNodes", "numProcPerNode"])
@pytest.mark.parametrize("value", [0, -1, -(2**31), 2**31, 2**63])
def test_numbers_that_no_job_can_have_are_errors(member, value):
    found = found_in(jobs.make_trainjob(**{member: value}))[f"spec.trainer.{member}", "core/numbers"]
    assert (found.severity, found.value) == (Severity.ERROR, value)


@pytest.mark.parametrize("value", [1, 64])
def test_numbers_from_one_on_are_fine(value):
    assert found_in(jobs.make_trainjob(numNodes=value, numProcPerNode=value)) == {}


@pytest.mark.parametrize(
    "name", ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"]
)
def test_env_of_trainers_own_is_an_error_under_a_torch_runtime_only(name):
    job = jobs.make_trainjob(env=[{"name": "A"}, {"name": name, "value": "1"}])
    assert found_in(job)[f"spec.trainer.env[{name}]", "core/reserved-env"].value == "1"
    other = jobs.make_runtime(framework=None)
    other["spec"]["mlPolicy"] = {"numNodes": 1}
    assert found_in(job, other) == {}


def test_all_reserved_env_is_reported_and_other_env_is_not():
    job = jobs.make_trainjob(
        env=[{"name": name} for name in ("PET_NNODES", "MASTER_ADDR", "PET_RDZV_ID", "PET_NODE_RANK")]
    )
    assert {field for field, _ in found_in(job)} == {"spec.trainer.env[PET_NNODES]", "spec.trainer.env[PET_NODE_RANK]"}


def test_claims_that_trainer_ignores_are_a_warning():
    job = jobs.make_trainjob(resourcesPerNode={"claims": [{"name": "g"}]})
    assert found_in(job)["spec.trainer.resourcesPerNode.claims", "core/claims-ignored"].severity is Severity.WARNING


@pytest.mark.parametrize("ref", [None, {}, {"name": ""}, {"kind": "TrainingRuntime"}])
def test_a_job_without_a_runtime_is_an_error(ref):
    found = found_in(jobs.make_trainjob(spec={"runtimeRef": ref}))
    assert found["spec.runtimeRef.name", "core/runtime"].message == "is required"


@pytest.mark.parametrize("kind", ["ClusterTrainingRuntime", "TrainingRuntime"])
def test_a_runtime_that_does_not_exist_is_named_with_its_kind(kind):
    found = found_in(jobs.make_trainjob(spec={"runtimeRef": {"name": "gone", "kind": kind}}))
    finding = found["spec.runtimeRef.name", "core/runtime"]
    assert (finding.value, finding.message) == ("gone", f"no {kind} of this name exists; create it first")


@pytest.mark.parametrize(
    ("ref", "field"),
    [
        ({"kind": "ClusterRuntime"}, "spec.runtimeRef.kind"),
        ({"apiGroup": "kubeflow.org"}, "spec.runtimeRef.apiGroup"),
        ({"apiGroup": ""}, "spec.runtimeRef.apiGroup"),
    ],
)
def test_a_reference_to_what_trainer_does_not_take_for_a_runtime_is_an_error(ref, field):
    name = RUNTIME["metadata"]["name"]
    found = found_in(jobs.make_trainjob(spec={"runtimeRef": {"name": name, **ref}}))
    assert found[field, "core/runtime"].value == next(iter(ref.values()))


def test_a_reader_without_everything_leaves_open_whether_a_runtime_exists():
    job, some = jobs.make_trainjob(spec={"runtimeRef": {"name": "gone"}}), InMemoryReader(whole=False)
    for reader in (some, Overlay(some)):
        decision = admissions.decide(job, phase="validate", reader=reader)
        assert decision.governor.runtime_open
        assert decision.findings == ()
    assert not admissions.decide(job, phase="validate").governor.runtime_open


def test_a_runtime_in_which_trainer_finds_no_container_is_an_error_where_the_job_would_change_it():
    runtime = jobs.make_runtime(framework=None, container={"name": "main"})
    told = found_in(jobs.make_trainjob(image="example.org/other:1"), runtime)["spec.runtimeRef.name", "core/runtime"]
    assert "Trainer would ignore image of spec.trainer: the runtime has no replicated job labelled" in told.message
    assert ("spec.runtimeRef.name", "core/runtime") not in found_in(jobs.make_trainjob(), runtime)


@pytest.mark.parametrize(
    ("value", "wrong"), [("static", False), ("c10d", False), ("C10D", True), ("etcd", True), ("", True)]
)
def test_a_rendezvous_must_be_one_of_two(value, wrong):
    job = jobs.make_trainjob(metadata={"annotations": {"muster.dev/rendezvous": value}})
    assert (("metadata.annotations[muster.dev/rendezvous]", "core/rendezvous") in found_in(job)) is wrong


def test_one_mistake_does_not_hide_another():
    job = jobs.make_trainjob(
        "Bad_Name",
        numNodes=0,
        numProcPerNode=0,
        env=[{"name": "PET_NNODES"}],
    )
    assert len([found for found in found_in(job).values() if found.severity is Severity.ERROR]) == 4


# --- findings ---------------------------------------------------------------------------------------------------


def test_a_finding_reads_like_a_field_error():
    assert str(error("spec.x", 0, "must be at least 1", rule="r")) == "spec.x: 0: must be at least 1"
    assert str(warning("spec.x", None, "is required", rule="r")) == "spec.x: is required"


def test_a_long_value_is_cut():
    text = str(error("spec.x", "v" * 10_000, "is long", rule="r"))
    assert len(text) < 150
    assert text.endswith("…: is long")


def test_errors_are_told_from_warnings():
    every = [error("a", 1, "m", rule="r"), warning("b", 1, "m", rule="r")]
    assert findings.errors(every) == [Finding(Severity.ERROR, "a", 1, "m", "r")]


# --- shapes -----------------------------------------------------------------------------------------------------

CONTAINER = ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        (("spec",), [], "is a list, and must be an object"),
        (("metadata", "labels"), "a", "must be an object"),
        (("spec", "replicatedJobs"), {}, "is an object, and must be a list"),
        ((*CONTAINER, "command"), "trl sft", "must be a list; write [word, word]"),
        ((*CONTAINER, "image"), ["a"], "is a list, and must be a string"),
        ((*CONTAINER, "command"), ["trl", 1], "must be a string; quote it"),
        ((*CONTAINER, "env"), [{"name": 1}], "must be a string; quote it"),
        ((*CONTAINER, "env"), [None], "must be an object"),
        (("spec", "replicatedJobs", 0, "replicas"), "1", "must be an integer; remove the quotes"),
        (("spec", "replicatedJobs", 0, "replicas"), True, "must be an integer"),
        (("spec", "replicatedJobs", 0, "replicas"), 1.0, "must be an integer"),
        (("spec", "network", "publishNotReadyAddresses"), "yes", "must be true or false"),
    ],
)
def test_a_member_of_another_type_is_found_by_its_field(path, value, wanted):
    jobset = jobs.make_jobset()
    node = jobset
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    (found,) = decoding.check(jobset)
    assert found.message == wanted
    assert found.field.startswith(paths.field(jobset, path))


METADATA = (
    *("name", "namespace", "generateName", "labels", "annotations", "ownerReferences"),
    *(f"ownerReferences.0.{member}" for member in ("apiVersion", "kind", "name", "uid")),
)
RESOURCES = ("limits", "requests", "claims", "claims.0.name")
ENV = ("env", "env.0.name", "env.0.value", "env.0.valueFrom")
POD = "spec.replicatedJobs.0.template.spec.template.spec"
TYPED = {
    "TrainJob": (
        *("metadata", "spec", *(f"metadata.{member}" for member in METADATA)),
        *("spec.runtimeRef", *(f"spec.runtimeRef.{member}" for member in ("name", "kind", "apiGroup"))),
        *("spec.runtimePatches", "spec.runtimePatches.0.manager", "spec.runtimePatches.0.trainingRuntimeSpec"),
        *(f"spec.trainer.{member}" for member in ("image", "command", "command.0", "args", "args.0", *ENV)),
        *(f"spec.trainer.{member}" for member in ("numNodes", "resourcesPerNode")),
        *(f"spec.trainer.resourcesPerNode.{member}" for member in RESOURCES),
        *("spec.initializer", *(f"spec.initializer.{each}.storageUri" for each in ("dataset", "model"))),
    ),
    "JobSet": (
        *(f"spec.failurePolicy.{each}" for each in ("rules", "restartStrategy", "rules.0.onJobFailureReasons.0")),
        *("spec.startupPolicy.startupPolicyOrder", "spec.successPolicy.targetReplicatedJobs.0", "spec.managedBy"),
        *(f"{POD}.securityContext.{each}" for each in ("runAsUser", "runAsNonRoot", "fsGroup")),
        *(f"{POD}.volumes.0.{each}" for each in ("name", "configMap.defaultMode", "emptyDir.medium", "csi.driver")),
        *(f"{POD}.volumes.0.configMap.items.0.{each}" for each in ("key", "path")),
        *(f"{POD}.{each}" for each in ("enableServiceLinks", "containers.0.volumeDevices.0.devicePath")),
        f"{POD}.containers.0.env.0.valueFrom.configMapKeyRef.key",
        *(f"{POD}.containers.0.volumeMounts.0.{each}" for each in ("mountPath", "readOnly", "subPathExpr")),
        *(f"{POD}.containers.0.{each}" for each in ("workingDir", "restartPolicy", "ports.0.hostPort")),
    ),
    "Node": (
        *("spec.taints", *(f"spec.taints.0.{member}" for member in ("key", "value", "effect"))),
        *("status", "status.allocatable"),
    ),
    "DeviceClass": ("spec.extendedResourceName",),
}


@pytest.mark.parametrize(("kind", "place"), [(kind, place) for kind, places in TYPED.items() for place in places])
def test_a_number_with_a_fraction_is_of_the_wrong_type_everywhere(kind, place):
    path = tuple(int(part) if part.isdecimal() else part for part in place.split("."))
    document = 1.5
    for part in reversed(path):
        document = [document] if part == 0 else {part: document}
    assert [each.field for each in decoding.check(document, kind)] == [paths.field(document, path)]


def test_an_object_or_a_list_of_the_wrong_type_is_not_quoted_because_it_may_hold_a_secret():
    jobset = jobs.make_jobset()
    jobset["metadata"]["name"] = {"env": [{"name": "A", "value": "kept-to-itself"}]}
    (found,) = decoding.check(jobset)
    assert "kept-to-itself" not in str(found)


def test_documents_as_they_are_shipped_have_their_shape():
    for runtime in jobs.shipped_runtimes().values():
        assert decoding.check(runtime) == []
    assert decoding.check(jobs.make_jobset()) == []
    assert decoding.check(jobs.make_trainjob(command=["a"])) == []


def test_an_object_of_a_kind_that_muster_does_not_read_has_any_shape():
    assert decoding.check({"kind": "Pod", "spec": 5}) == []
    assert decoding.check({"spec": 5}) == []
    assert decoding.check({"kind": "Pod", "spec": 5}, "TrainJob")[0].field == "spec"


# --- where things are -------------------------------------------------------------------------------------------


def make_jobs(*wanted):
    """A JobSet with jobs of (name, labels, container names)."""
    every = [
        {
            "name": name,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"template": {"spec": {"containers": [{"name": each} for each in containers]}}},
            },
        }
        for name, labels, containers in wanted
    ]
    return {"spec": {"replicatedJobs": every}}


ANCESTOR, ROLE = {jobs.ANCESTOR: "trainer"}, {"muster.dev/role": "trainer"}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([("a", {}, ["x"]), ("b", ANCESTOR, ["y", "node"])], ("b", "node")),
        ([("a", ANCESTOR, ["x"])], None),
        ([("node", {}, ["x"]), ("b", ANCESTOR, ["node"])], ("b", "node")),
        ([("node", {}, ["x"]), ("b", ROLE, ["y"])], ("b", "y")),
        ([("a", {}, ["x"]), ("node", {}, ["y"])], ("node", "y")),
        ([("a", {}, ["x"]), ("trainer", {}, ["y", "node"])], ("trainer", "node")),
        ([("a", {}, ["x", "y"])], ("a", "x")),
        ([("a", {}, ["x"]), ("b", {}, ["y"])], None),
        ([("a", {}, [])], None),
        ([], None),
    ],
)
def test_the_training_container_is_found_by_trainers_rule_first(wanted, found):
    place = pods.trainer(make_jobs(*wanted), ("spec",))
    assert (place and (place.job_name, place.container.name)) == found
    if place:
        document = make_jobs(*wanted)
        assert paths.lookup(document, place.path) == place.raw
        assert paths.lookup(document, place.pod_path) == place.raw_pod


def test_later_env_entries_win_and_references_have_no_plain_value():
    env = [
        {"name": "A", "value": "1"},
        {"name": "A", "value": "2"},
        {"name": "B", "valueFrom": {"x": 1}},
        {"name": "C"},
    ]
    container = decoding.read({"env": env}, model.Container)
    assert [container.env_value(name) for name in "ABCD"] == ["2", None, "", None]


def test_a_null_reference_is_no_reference():
    container = decoding.read({"env": [{"name": "A", "value": "1", "valueFrom": None}]}, model.Container)
    assert container.env_value("A") == "1"


def test_annotations_of_a_runtime_go_over_those_of_its_template():
    document = jobs.make_runtime(annotations={"a": "own"})
    document["spec"]["template"]["metadata"] = {"annotations": {"a": "template", "b": "template"}}
    assert runtimes.Runtime(document, "live").annotations == {"a": "own", "b": "template"}


def test_only_the_runtimes_own_label_names_a_framework():
    document = jobs.make_runtime(framework=None)
    document["spec"]["template"]["metadata"] = {"labels": {jobs.FRAMEWORK: "torch"}}
    assert runtimes.Runtime(document, "live").framework is None


@pytest.mark.parametrize(
    ("policy", "is_torch"), [({"torch": {}}, True), ({"torch": None}, False), ({}, False), (None, False)]
)
def test_an_empty_torch_policy_counts(policy, is_torch):
    document = jobs.make_runtime()
    document["spec"]["mlPolicy"] = policy
    assert runtimes.Runtime(document, "live").is_torch is is_torch


def test_a_runtime_reference_has_the_default_kind_of_the_crd():
    assert trainjobs.runtime_ref({"spec": {"runtimeRef": {"name": "a"}}}) == ("ClusterTrainingRuntime", "a")
    assert trainjobs.runtime_ref({}) == ("ClusterTrainingRuntime", "")
    assert trainjobs.trainer({"spec": {"trainer": None}}) == {}
