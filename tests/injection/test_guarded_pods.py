"""What a pod gets with the guard: files, mount, search path and level, and nothing that Kubernetes would refuse."""

from __future__ import annotations

import copy
import json

import pytest
from msgspec import structs

from muster.strategies.jobs.jobs import MOST_TOGETHER
from muster.webhook.admission.budgets import Budget
from muster.webhook.admission.policies import Mode
from tests.injection import guarded
from tests.support import jobs

RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def guarded_pod(command=guarded.UNREAD, *, policy=guarded.policy(), cluster=(), **how):  # noqa: B008  # a frozen value
    jobset, around = guarded.cluster_of(command, **how)
    return guarded.pod_of(guarded.decide(jobset, [*around, *cluster], policy).document)


def test_a_container_that_trains_gets_volume_mount_and_search_path_and_no_level_that_nobody_asked_for():
    pod = guarded_pod()
    (container,), env = pod["containers"], jobs.env_of(pod["containers"][0])
    assert pod["volumes"] == [{"name": "muster-guard", "emptyDir": {"sizeLimit": "32Mi"}}]
    assert container["volumeMounts"] == [{"name": "muster-guard", "mountPath": "/muster/guard", "readOnly": True}]
    assert env["PYTHONPATH"] == "/muster/guard"
    assert "MUSTER_GUARD" not in env


def test_the_files_come_from_musters_image_and_the_search_path_from_that_of_the_training():
    copies, notes = guarded_pod(container={"image": "team/train:2", "imagePullPolicy": "Always"})["initContainers"]
    assert (copies["name"], copies["image"]) == ("muster-guard", guarded.IMAGE)
    assert copies["command"][-2:] == ["/opt/muster-guard/copy_guard.py", "/muster/guard"]
    assert (notes["name"], notes["image"], notes["imagePullPolicy"]) == ("muster-guard-env", "team/train:2", "Always")
    assert notes["command"] == ["/muster/guard/env-of-image", "/muster/guard/env/node"]
    assert all(
        each["volumeMounts"] == [{"name": "muster-guard", "mountPath": "/muster/guard"}] for each in (copies, notes)
    )


def test_a_search_path_of_a_configmap_is_read_where_the_image_is():
    source = [{"configMapRef": {"name": "paths"}}]
    pod = guarded_pod(container={"envFrom": source})
    assert guarded.named(pod["initContainers"], "muster-guard-env")["envFrom"] == source
    assert "envFrom" not in guarded.named(pod["initContainers"], "muster-guard")


@pytest.mark.parametrize(("own", "expected"), [("/app/lib:/app", "/muster/guard:/app/lib:/app"), ("", "/muster/guard")])
def test_a_search_path_of_the_pod_stays_behind_the_guard(own, expected):
    pod = guarded_pod(container={"env": [{"name": "PYTHONPATH", "value": own}, {"name": "A", "value": "1"}]})
    env = jobs.env_of(pod["containers"][0])
    assert (env["PYTHONPATH"], env["A"]) == (expected, "1")
    assert [each["name"] for each in pod["initContainers"]] == ["muster-guard"]  # the image's own was hidden before


def test_an_image_is_mounted_where_the_platform_says_so():
    pod = guarded_pod(policy=guarded.policy(mount="image"))
    source = {"reference": guarded.IMAGE, "pullPolicy": "IfNotPresent"}
    assert pod["volumes"] == [{"name": "muster-guard", "image": source}]
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert (mount["subPath"], mount["readOnly"]) == ("opt/muster-guard", True)
    assert "initContainers" not in pod


def test_the_guard_is_told_the_devices_that_a_pod_asked_for():
    env = jobs.env_of(guarded_pod(resourcesPerNode={"limits": {"nvidia.com/gpu": 4}})["containers"][0])
    assert env["MUSTER_EXPECTED_DEVICES"] == "4"
    assert "MUSTER_EXPECTED_DEVICES" not in jobs.env_of(guarded_pod()["containers"][0])


def test_init_containers_ask_for_no_more_than_the_training_and_for_no_devices():
    amounts = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "1Gi"}
    pod = guarded_pod(
        resourcesPerNode={"limits": {**amounts, "nvidia.com/gpu": 2, "hugepages-2Mi": "1Gi"}, "requests": amounts}
    )
    for each in pod["initContainers"]:
        assert each["resources"] == {"limits": amounts, "requests": amounts}


def test_init_containers_run_as_the_user_of_the_training_and_pass_pod_security():
    privileged = {**RESTRICTED, "privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}
    for own in (RESTRICTED, privileged):
        pod = guarded_pod(container={"securityContext": copy.deepcopy(own)})
        for each in pod["initContainers"]:
            assert each["securityContext"] == {**RESTRICTED, "readOnlyRootFilesystem": True}


def test_init_containers_of_the_job_run_before_those_of_the_guard():
    pod = guarded_pod(pod={"initContainers": [{"name": "fetch", "image": "x"}], "volumes": [{"name": "data"}]})
    assert [each["name"] for each in pod["initContainers"]] == ["fetch", "muster-guard", "muster-guard-env"]
    assert [each["name"] for each in pod["volumes"]] == ["data", "muster-guard"]


def test_of_several_containers_the_one_that_trains_gets_the_guard():
    runtime_pod = {"initContainers": [{"name": "sync", "image": "y", "restartPolicy": "Always"}]}
    jobset, cluster = guarded.cluster_of(guarded.UNREAD, pod=runtime_pod)
    guarded.pod_of(jobset)["containers"].insert(0, {"name": "logger", "image": "z", "command": ["fluent-bit"]})
    pod = guarded.pod_of(guarded.decide(jobset, cluster).document)
    assert "volumeMounts" not in guarded.named(pod["containers"], "logger")
    assert guarded.named(pod["containers"], "node")["volumeMounts"]


@pytest.mark.parametrize("mount", ["init", "image"])
def test_nothing_is_found_about_what_the_guard_adds(mount):
    jobset, cluster = guarded.cluster_of(
        guarded.COUNTED, numNodes=2, resourcesPerNode={"limits": {"nvidia.com/gpu": 2}}
    )
    policy = guarded.policy(mount=mount)
    stored = guarded.decide(jobset, cluster, policy).document
    found = [
        guarded.admissions.decide(dict(each), *cluster, policy=policy, phase="validate").findings
        for each in (jobset, stored)
    ]
    assert found[0] == found[1]


def test_a_job_that_would_be_too_large_with_the_guard_goes_without_it():
    jobset, cluster = guarded.cluster_of(guarded.UNREAD)
    policy = guarded.policy(budget=Budget(containers=2))
    decision = guarded.decide(jobset, cluster, policy)
    assert not guarded.rules_of(decision)
    ((severity, message),) = guarded.left(decision)
    assert severity == "note"
    assert "too large" in message
    assert decision.document == guarded.decide(jobset, cluster, guarded.policy("never")).document


def test_a_job_of_many_parts_is_not_refused_because_of_the_guard():
    jobset = jobs.make_jobset(framework="torch", container={"command": guarded.UNREAD, "env": [{"name": "A"}]})
    guarded.pod_of(jobset).update(volumes=[{"name": "d"}], initContainers=[{"name": "fetch", "image": "x"}])
    (job,) = jobset["spec"]["replicatedJobs"]
    parts = [{**copy.deepcopy(job), "name": f"worker-{each}"} for each in range(MOST_TOGETHER)]
    jobset["spec"]["replicatedJobs"] = parts
    decision = guarded.decide(jobset)
    assert not guarded.rules_of(decision)
    assert "too large" in guarded.left(decision)[0][1]
    assert decision.document == guarded.decide(jobset, policy=guarded.policy("never")).document


@pytest.mark.parametrize("mode", [Mode.WARN, Mode.AUDIT])
def test_a_mode_that_changes_nothing_adds_no_guard(mode):
    jobset, cluster = guarded.cluster_of(guarded.UNREAD)
    decision = guarded.decide(jobset, cluster, structs.replace(guarded.policy(), mode=mode))
    assert guarded.rules_of(decision)  # what it would do, for explain
    assert decision.document == jobset


def test_a_trainjob_gets_nothing_before_its_jobset_is_made():
    _, (runtime, trainjob) = guarded.cluster_of(guarded.UNREAD)
    assert not guarded.rules_of(guarded.decide(trainjob, [runtime]))


def test_the_memory_of_a_job_names_what_the_guard_added():
    jobset, cluster = guarded.cluster_of(guarded.UNREAD)
    stored = guarded.decide(jobset, cluster).document
    fields = json.loads(stored["metadata"]["annotations"]["muster.dev/applied"])["fields"]
    assert any(each.endswith("env[PYTHONPATH]") for each in fields)
    assert any(each.endswith(".initContainers") for each in fields)
