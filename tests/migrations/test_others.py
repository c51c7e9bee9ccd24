"""TFJobs, XGBoostJobs and JAXJobs: their programs read the variables that they read before."""

from __future__ import annotations

import json

import pytest

from tests.migrations import jobs


def filled(found):
    """The variables of the pod of rank 1, as Kubernetes fills them in."""
    values = {}
    for each in found.trainer["env"]:
        value = each.get("value", "1")
        for name, known in values.items():
            value = value.replace(f"$({name})", known)
        values[each["name"]] = value
    return values


def test_a_jaxjob_keeps_its_coordinator(migrated):
    found = migrated(jobs.single("JAXJob", {"Worker": 3}))
    assert found.env == {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": "6666",
        "COORDINATOR_ADDRESS": "old-node-0-0.old",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": "(rank)",
    }
    assert found.runtime["mlPolicy"] == {"numNodes": 3, "jax": {}}
    assert found.trainer["numNodes"] == 3


def test_an_xgboostjob_keeps_its_tracker_and_the_addresses_of_its_workers(migrated):
    ports = [{"name": "xgboostjob-port", "containerPort": 9991}]
    found = migrated(jobs.single("XGBoostJob", {"Master": 1, "Worker": 2}, ports=ports))
    assert found.env == {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": "9991",
        "MASTER_ADDR": "old-node-0-0.old",
        "WORLD_SIZE": "3",
        "WORKER_PORT": "9991",
        "WORKER_ADDRS": "old-node-0-1.old,old-node-0-2.old",
        "RANK": "(rank)",
    }
    assert found.runtime["mlPolicy"]["xgboost"] == {}


def test_an_xgboostjob_needs_its_master(refusal):
    assert refusal(jobs.single("XGBoostJob", {"Worker": 2})) == (
        "spec.xgbReplicaSpecs: has no Master, which the operator needs; write one"
    )


def test_workers_of_a_tfjob_find_each_other_by_tf_config(migrated):
    found = migrated(jobs.single("TFJob", {"Worker": 2}))
    assert json.loads(filled(found)["TF_CONFIG"]) == {
        "cluster": {"worker": ["old-node-0-0.old:2222", "old-node-0-1.old:2222"]},
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    assert found.runtime["mlPolicy"] == {"numNodes": 2}
    assert "ended with its first Worker" in found.changed["spec.tfReplicaSpecs.Worker"]


def test_a_tfjob_of_one_worker_has_no_tf_config_as_before(migrated):
    found = migrated(jobs.single("TFJob", {"Worker": 1}))
    assert "env" not in found.trainer
    assert found.changed == {}


def test_a_tfjob_that_waits_for_all_workers_ends_as_before(migrated):
    document = jobs.single("TFJob", {"Worker": 2})
    document["spec"]["successPolicy"] = "AllWorkers"
    assert migrated(document).changed == {}


@pytest.mark.parametrize("role", ["Chief", "PS", "Evaluator", "Master"])
def test_a_tfjob_with_another_role_is_refused_and_a_jobset_is_named(refusal, role):
    text = refusal(jobs.single("TFJob", {role: 1, "Worker": 2}))
    assert text.startswith(f"spec.tfReplicaSpecs.{role}: a TrainJob has one kind of node, and no role {role}; write a")
    assert f"JobSet with one replicated job for each of {role}, Worker" in text


def test_a_replica_without_pods_is_left_out(migrated):
    assert migrated(jobs.single("XGBoostJob", {"Master": 1, "Worker": 0})).trainer["numNodes"] == 1


def test_variables_that_trainer_refuses_are_left_out_and_noted(migrated):
    env = [{"name": "DMLC_TASK_ID", "value": "0"}, {"name": "A", "value": "b"}]
    found = migrated(jobs.single("XGBoostJob", {"Master": 1}, env=env))
    assert "DMLC_TASK_ID" not in found.env
    assert found.env["A"] == "b"
    assert "DMLC_TASK_ID" in found.changed["spec.xgbReplicaSpecs.Master.template.spec.containers[0].env"]


def test_restarts_of_two_roles_are_compared(migrated):
    document = jobs.single("XGBoostJob", {"Master": 1, "Worker": 1})
    document["spec"]["xgbReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    text = migrated(document).lost["spec.xgbReplicaSpecs.Worker.restartPolicy"]
    assert text.endswith("Never of the Master is written, and not ExitCode")


def test_a_paddlejob_is_refused(refusal):
    assert refusal(jobs.job("PaddleJob", {})).startswith("Trainer has no policy for PaddlePaddle; write a JobSet")
