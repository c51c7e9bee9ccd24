"""Any JSON in any place of a request or of the cluster: an answer, quickly, and never another error than our own."""

from __future__ import annotations

import copy
import datetime

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.audit import record_schema
from muster.webhook.admission import accounts, answers, decisions, reviews
from muster.webhook.admission.reviews import ReviewError
from muster.webhook.cluster import readers
from tests.support import admissions, generated, jobs, limits

NOW = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
FRAMEWORKS = ("trl", "torch", "torchtune", "vllm", "jax")
NASTY = st.sampled_from(
    (
        *(None, True, -1, 2**63, 1.5, "", "x", "1e99999999", "9" * 5000, "٣", "a/b", [], {}, [None], [[]], [{}], ["x"]),
        *(
            [{"name": "node"}],
            [{"name": None}],
            {"name": "x"},
            {"a": {"b": [1]}},
            '{"fields":{"spec.trainer.env[X]":"-"}}',
        ),
    )
)
MEMORY = (
    '{"strategy":"trl","version":"1","fields":{"spec.trainer.command":"5fb3177177007bf1","spec.trainer.env[X]":"-"}}'
)
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpus", "namespace": jobs.NAMESPACE},
    "spec": {"spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}},
}
CLAIMED = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "gpus"}]}
RESOURCES = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "500m"}, "claims": [{"name": "g", "request": "g"}]}
POLICIES = [{"templates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]}]
ANNOTATIONS = {"muster.dev/trl-method": "dpo", "muster.dev/vllm-features": "sleep", "muster.dev/applied": MEMORY}


def make_runtime(framework):
    name = "torchtune-llama3.2-1b" if framework == "torchtune" else "runtime"
    container = {
        "command": ["trl", "sft"],
        "args": ["--a"],
        "env": [{"name": "A", "value": "1"}],
        "resources": RESOURCES,
    }
    annotations = {"muster.dev/rendezvous": "c10d"}
    network = {"subdomain": "meet"}
    runtime = jobs.make_runtime(
        name, framework=framework, container=container, pod=CLAIMED, network=network, annotations=annotations
    )
    runtime["spec"]["template"]["spec"]["volumeClaimPolicies"] = POLICIES
    return copy.deepcopy(runtime)


def make_trainjob(runtime):
    return copy.deepcopy(
        jobs.make_trainjob(
            runtime=runtime["metadata"]["name"],
            command=["trl", "sft"],
            args=["--a", "b"],
            numNodes=2,
            numProcPerNode=2,
            env=[{"name": "X", "value": "1"}, {"name": "Y", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
            resourcesPerNode=RESOURCES,
            metadata={"uid": jobs.UID, "labels": {"a": "b"}, "annotations": ANNOTATIONS},
            spec={"runtimePatches": [{"manager": "x.y/z"}]},
        )
    )


def make_jobset(framework, *, owned):
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llama", "uid": jobs.UID}
    metadata = {"annotations": ANNOTATIONS, "ownerReferences": [{**owner, "controller": owned}]}
    env = [{"name": "PET_NNODES", "value": "2"}, {"name": "PET_NPROC_PER_NODE", "value": "2"}]
    container = {
        "name": "node",
        "command": ["torchrun"],
        "args": ["x"],
        "env": env,
        "resources": RESOURCES,
        "ports": [{}],
    }
    coordinator = {"replicatedJob": "server", "jobIndex": 0, "podIndex": 0}
    jobset = jobs.make_jobset(
        "llama",
        framework=framework,
        container=container,
        metadata=metadata,
        spec={"coordinator": coordinator, "volumeClaimPolicies": POLICIES},
    )
    jobset["metadata"]["labels"] = {jobs.FRAMEWORK: framework}
    jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].update(CLAIMED)
    return copy.deepcopy(jobset)


def make_snapshot(runtime):
    metadata = {"name": "llama-runtime-snapshot", "namespace": jobs.NAMESPACE}
    metadata["ownerReferences"] = [{"kind": "TrainJob", "name": "llama", "controller": True}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": yaml.safe_dump(runtime)}}


def put(data, document, keep=()):
    """Put a random value at a random place of a document."""
    places = [path for path in generated.paths_of(document) if path and path not in keep]
    path = data.draw(st.sampled_from(places))
    node = document
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = copy.deepcopy(data.draw(NASTY | generated.values()))


def answered(review, cluster, phase):
    """All that the service does with a body, down to the bytes of its answer and its audit record."""
    reader = admissions.make_reader(*cluster)
    decision = decisions.evaluate(reviews.parse(orjson.dumps(review), phase), reader, admissions.POLICY)
    assert orjson.loads(reviews.dumps(answers.answer(decision)))["response"]["uid"] == review["request"]["uid"]
    record = orjson.loads(orjson.dumps(accounts.record(decision, NOW, 0.1)))
    assert record_schema.misfit(record, record_schema.Record) is None
    return decision


@limits.MANY
@given(
    st.data(),
    st.sampled_from(FRAMEWORKS),
    st.sampled_from(("mutate", "validate")),
    st.sampled_from(("CREATE", "UPDATE")),
)
def test_a_request_with_any_value_in_any_place_is_answered(data, framework, phase, operation):
    runtime = make_runtime(framework)
    kind = data.draw(st.sampled_from(("TrainJob", "JobSet", "own")))
    document = make_trainjob(runtime) if kind == "TrainJob" else make_jobset(framework, owned=kind == "JobSet")
    review = admissions.make_review(document, operation, copy.deepcopy(document))
    put(data, review)
    if data.draw(st.booleans()):
        put(data, review)
    cluster = [runtime, make_trainjob(runtime), CLAIM, jobs.make_namespace("warn")]
    try:
        decision = answered(review, cluster, phase)
    except (ReviewError, readers.NotCached):
        return
    assert decision.verdict != "error", decision.message


@limits.MANY
@given(st.data(), st.sampled_from(FRAMEWORKS), st.sampled_from(("mutate", "validate")))
def test_a_cluster_with_any_value_in_any_place_is_borne(data, framework, phase):
    runtime = make_runtime(framework)
    document = data.draw(st.sampled_from((make_trainjob(runtime), make_jobset(framework, owned=True))))
    cluster = [runtime, make_trainjob(runtime), copy.deepcopy(CLAIM), jobs.make_namespace("warn")]
    spoilt = data.draw(st.integers(0, len(cluster)))
    if spoilt == len(cluster):
        cluster.append(frozen := copy.deepcopy(runtime))
        put(data, frozen)
        cluster[-1] = make_snapshot(frozen)
    else:
        put(data, cluster[spoilt], keep=[("metadata",), ("metadata", "name"), ("metadata", "namespace")])
    try:
        decision = answered(admissions.make_review(document), cluster, phase)
    except readers.NotCached:
        return
    if decision.verdict == "error":
        assert "must be a" in decision.message or "is not a readable runtime" in decision.message


@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
@pytest.mark.parametrize("phase", ["mutate", "validate"])
@pytest.mark.parametrize("word", [None, "Pod", 5, ...])
def test_the_kind_of_the_request_counts_and_not_what_the_object_says(kind, phase, word):
    document = make_jobset("trl", owned=False) if kind == "JobSet" else make_trainjob(make_runtime("trl"))
    document["kind"], document["spec"] = word, "text"
    if word is ...:
        del document["kind"]
    decision = answered(admissions.make_review(document, kind=kind), [make_runtime("trl")], phase)
    assert decision.verdict == ("unchanged" if phase == "mutate" else "denied")
    assert [str(found) for found in decision.findings] == ["spec: 'text': must be an object"]


@pytest.mark.parametrize("metadata", ["text", [1], 5, True])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_metadata_of_another_type_is_answered_and_recorded_although_there_is_a_memory(metadata, operation, phase):
    old = make_trainjob(make_runtime("trl"))
    review = admissions.make_review({**old, "metadata": metadata}, operation, old, name="llama")
    decision = answered(review, [make_runtime("trl")], phase)
    assert decision.verdict == (
        "denied" if (operation, phase) == ("CREATE", "validate") else "allowed" if phase == "validate" else "unchanged"
    )


def test_every_wrong_member_is_reported_at_once():
    job = jobs.make_trainjob(command="trl sft", args=[1], env={"A": "1"}, numNodes="2", resourcesPerNode=[])
    decision = admissions.decide(job, jobs.make_runtime(), phase="validate")
    assert {found.field for found in decision.findings} == {
        "spec.trainer.command",
        "spec.trainer.args[0]",
        "spec.trainer.env",
        "spec.trainer.numNodes",
        "spec.trainer.resourcesPerNode",
    }


def test_a_long_list_of_wrong_entries_is_answered_at_once_by_its_first_ones():
    """A mutating webhook sees what the API server has not checked yet."""
    job = jobs.make_trainjob(env=[{"name": number} for number in range(5_000)])
    found = admissions.decide(job, jobs.make_runtime(), phase="validate").findings
    assert [each.field for each in found][:2] == ["spec.trainer.env[0].name", "spec.trainer.env[1].name"]
    assert len(found) == 50


@pytest.mark.parametrize("member", ["command", "args", "env", "numNodes", "resourcesPerNode", "image"])
def test_null_counts_as_missing(member):
    job = jobs.make_trainjob(**{"command": ["trl", "sft"], "numNodes": 2, member: None})
    decision = admissions.decide(job, jobs.make_runtime())
    assert not [found for found in decision.findings if found.rule == "core/shape"]
    assert admissions.patched(job, admissions.respond(job, jobs.make_runtime())) == decision.document


@pytest.mark.parametrize("metadata", [{"annotations": None}, {"labels": None}, {"ownerReferences": None}])
def test_null_in_metadata_counts_as_missing(metadata):
    job = jobs.make_trainjob(command=["trl", "sft"], numNodes=2, metadata=metadata)
    assert admissions.decide(job, jobs.make_runtime()).verdict == "patched"


@pytest.mark.parametrize("size", [1, 100, 2000])
def test_a_job_with_many_long_arguments_is_answered(size):
    args = [f"--flag{number}={'x' * 500}" for number in range(size)]
    job = jobs.make_trainjob(command=["trl", "sft"], args=args, numNodes=2)
    response = admissions.respond(job, jobs.make_runtime(), phase="validate")
    assert len(response["status"]["details"]["causes"]) >= min(size, 100)
    assert ("more; see" in response["status"]["message"]) == (size >= 100)
    assert len(response.get("warnings", [])) <= 21
