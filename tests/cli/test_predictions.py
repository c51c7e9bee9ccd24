"""A predicted JobSet is what Trainer makes: compared with Trainer's own answers, and with JobSet's defaults."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from muster.strategies.documents.runtimes import Runtime
from muster.strategies.trainer import predictions
from tests.cli import jobs

GOLDEN = Path(__file__).parents[1] / "golden"
UNITS = {"": 1, "m": Fraction(1, 1000), "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


def golden():
    for framework in ("torch", "torchtune"):
        content = json.loads((GOLDEN / framework / "cases.json").read_text())
        for case in content["cases"]:
            yield pytest.param(case, content["runtimes"][case["runtime"]], id=f"{framework} {case['name']}")


def amount(quantity):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(quantity)).groups()
    return Fraction(number) * UNITS[unit]


def resources(written):
    def part(amounts):
        return {name: amount(each) for name, each in amounts.items()} if isinstance(amounts, dict) else amounts

    return {name: part(amounts) for name, amounts in (written or {}).items() if amounts}


def predict(trainjob, runtime, namespace="lab"):
    return predictions.predict(trainjob, Runtime(runtime, "live"), namespace)


def nodes(jobset):
    return next(job for job in jobset["spec"]["replicatedJobs"] if job["name"] == "node")


def node(jobset):
    return nodes(jobset)["template"]["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(("case", "runtime"), list(golden()))
def test_the_training_container_is_the_one_that_trainer_made(case, runtime):
    found = node(predict(case["trainjob"], runtime).jobset)
    assert found.get("command") == case["wantCommand"]
    assert found.get("args") == case["wantArgs"]
    assert found.get("env") == case["wantEnv"]
    assert resources(found.get("resources")) == resources(case["wantResources"])


def test_the_jobset_has_the_name_the_owner_and_the_defaults_that_the_cluster_gives_it():
    trainjob = jobs.trainjob("llama", "own", {"uid": "u-1"}, numNodes=3)
    jobset = predict(trainjob, jobs.runtime()).jobset
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llama", "uid": "u-1"}
    assert jobset["metadata"] == {
        "name": "llama",
        "namespace": "lab",
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    assert jobset["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert jobset["spec"]["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    assert (nodes(jobset)["replicas"], nodes(jobset)["groupName"]) == (1, "default")
    job = nodes(jobset)["template"]["spec"]
    assert (job["parallelism"], job["completions"], job["completionMode"]) == (3, 3, "Indexed")
    assert job["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert node(jobset)["ports"] == [{"containerPort": 29500}]


def test_what_the_runtime_says_is_kept_where_the_defaults_would_stand():
    template = jobs.runtime()["spec"]["template"]["spec"]
    runtime = jobs.runtime(template={"spec": {**template, "network": {"subdomain": "ranks"}}})
    assert predict(jobs.trainjob(numNodes=1), runtime).jobset["spec"]["network"]["subdomain"] == "ranks"


def test_only_labels_of_the_template_reach_the_jobset():
    runtime = jobs.runtime(template={"metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}}})
    metadata = predict(jobs.trainjob(numNodes=1), runtime).jobset["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"team": "a"}, {"b": "c"})


def test_a_suspended_trainjob_makes_a_suspended_jobset():
    trainjob = jobs.trainjob(numNodes=1)
    trainjob["spec"]["suspend"] = True
    assert predict(trainjob, jobs.runtime()).jobset["spec"]["suspend"] is True
    assert "suspend" not in predict(jobs.trainjob(numNodes=1), jobs.runtime()).jobset["spec"]


def test_runtime_patches_are_laid_over_the_template_entry_by_entry():
    pod = {
        "volumes": [{"name": "data", "configMap": {"name": "c"}}],
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "gpu"}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    }
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    template = {"metadata": {"labels": {"queue": "a"}}, "spec": {"replicatedJobs": [job]}}
    trainjob = jobs.trainjob(numNodes=1)
    trainjob["spec"]["runtimePatches"] = [{"manager": "x.y/z", "trainingRuntimeSpec": {"template": template}}]
    mounted = jobs.runtime(volumeMounts=[{"name": "out", "mountPath": "/out"}])
    jobset = predict(trainjob, mounted).jobset
    assert [mount["mountPath"] for mount in node(jobset)["volumeMounts"]] == ["/out", "/data"]
    assert node(jobset)["image"] == "example.org/node:1"
    patched = nodes(jobset)["template"]["spec"]["template"]["spec"]
    assert {name: patched[name] for name in ("volumes", "nodeSelector", "tolerations")} == {
        name: pod[name] for name in ("volumes", "nodeSelector", "tolerations")
    }
    assert jobset["metadata"]["labels"] == {"queue": "a"}


def test_a_patch_never_changes_the_runtime_that_it_is_laid_over():
    runtime = jobs.runtime(env=[{"name": "A", "value": "1"}])
    before = json.dumps(runtime)
    predict(jobs.two_nodes(), runtime)
    assert json.dumps(runtime) == before


def test_initializers_get_the_uri_the_env_and_the_secret_of_the_trainjob():
    runtime = json.loads(json.dumps(jobs.runtime()))
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    model = json.loads(
        json.dumps(job).replace('"trainer"', '"model-initializer"').replace('"node"', '"model-initializer"')
    )
    model["template"]["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "STORAGE_URI", "value": "hf://old"}
    ]
    runtime["spec"]["template"]["spec"]["replicatedJobs"].insert(0, model)
    trainjob = jobs.trainjob(numNodes=2)
    wanted = {"storageUri": "hf://new", "env": [{"name": "A", "value": "1"}], "secretRef": {"name": "token"}}
    trainjob["spec"]["initializer"] = {"model": wanted}
    initializer = predict(trainjob, runtime).jobset["spec"]["replicatedJobs"][0]
    (container,) = initializer["template"]["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "STORAGE_URI", "value": "hf://new"}, {"name": "A", "value": "1"}]
    assert container["envFrom"] == [{"secretRef": {"name": "token"}}]
    assert initializer["template"]["spec"]["parallelism"] == 1


def test_a_generated_name_is_a_placeholder_and_said_to_be_one():
    trainjob = jobs.trainjob(numNodes=1)
    trainjob["metadata"] = {"generateName": "sft-"}
    predicted = predict(trainjob, jobs.runtime())
    assert predicted.jobset["metadata"]["name"] == "sft-xxxxx"
    assert any("xxxxx" in note for note in predicted.notes)


def test_what_other_plugins_of_trainer_would_add_is_said_to_be_left_out():
    runtime = jobs.runtime(framework="deepspeed", policy={"numNodes": 2, "mpi": {"numProcPerNode": 4}})
    runtime["spec"]["podGroupPolicy"] = {"coscheduling": {}}
    notes = " ".join(predict(jobs.trainjob(numNodes=1), runtime).notes)
    assert "mpi plugin" in notes
    assert "podGroupPolicy" in notes


def test_nothing_is_left_out_of_a_plain_torch_job():
    assert predict(jobs.trainjob(numNodes=1), jobs.runtime()).notes == ()
