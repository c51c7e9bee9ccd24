"""What `muster check` finds out about a job from the other documents of its input; more of it is in the corpus."""

from __future__ import annotations

import yaml

from tests.jobsets.sets import TORCHRUN, container, jobset, part

SCRIPT = "#!/bin/bash\ntorchrun --nproc-per-node=1 train.py\n"


def found(muster, *documents):
    result = muster("check", "-f", "-", stdin=yaml.safe_dump_all(documents, sort_keys=False))
    return result.out.splitlines()


def told(muster, *documents):
    """The rules of errors and warnings."""
    lines = [line for line in found(muster, *documents) if ": error: " in line or ": warning: " in line]
    return [line.rpartition("(")[2].rstrip(")") for line in lines]


def started(source, *words):
    main = container(*words)
    main["resources"] = {"limits": {"nvidia.com/gpu": 4}}
    main["volumeMounts"] = [{"name": "s", "mountPath": "/scripts"}]
    return jobset(part("node", main, pod={"volumes": [{"name": "s", **source}]}))


def config_map(data, name="scripts", **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data}


def secret(data, name="scripts"):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def test_a_script_of_a_config_map_is_judged_at_the_command_that_starts_it(muster):
    job = started({"configMap": {"name": "scripts"}}, "bash", "/scripts/run.sh")
    (line,) = [line for line in found(muster, config_map({"run.sh": SCRIPT}), job) if "core/idle-devices" in line]

    assert "containers[main].command: " in line
    assert "in /scripts/run.sh of the ConfigMap scripts: " in line


def test_a_script_of_a_secret_is_not_read_into_a_finding(muster):
    job = started({"secret": {"secretName": "scripts"}}, "bash", "/scripts/run.sh")

    assert "core/idle-devices" not in told(muster, secret({"run.sh": SCRIPT}), job)
    assert "nproc-per-node=1" not in "\n".join(found(muster, secret({"run.sh": SCRIPT}), job))


def test_a_script_that_a_secret_lacks_is_told(muster):
    job = started({"secret": {"secretName": "scripts"}}, "bash", "/scripts/go.sh")

    assert told(muster, secret({"run.sh": SCRIPT}), job) == ["core/script-file"]


def test_two_config_maps_of_one_name_are_not_taken_for_one(muster):
    job = started({"configMap": {"name": "scripts"}}, "bash", "/scripts/go.sh")

    assert told(muster, config_map({"a.sh": ""}), config_map({"b.sh": ""}), job) == []


def test_a_config_map_of_another_namespace_says_nothing(muster):
    job = started({"configMap": {"name": "scripts"}}, "bash", "/scripts/go.sh")

    assert told(muster, config_map({"a.sh": ""}, namespace="elsewhere"), job) == []


ACCELERATE = ("accelerate", "launch", "--config_file", "/scripts/a.yaml", "train.py")
TWO_OF_FOUR = "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 2\n"
SERVE = ("vllm", "serve", "m/m", "--config", "/scripts/s.yaml")


def served(*words):
    job = started({"configMap": {"name": "scripts"}}, *words)
    job["metadata"]["labels"] = {"trainer.kubeflow.org/framework": "vllm"}
    return job


def test_a_file_of_accelerate_is_judged_at_the_command_that_names_it(muster):
    job = started({"configMap": {"name": "scripts"}}, *ACCELERATE)
    (line,) = [line for line in found(muster, config_map({"a.yaml": TWO_OF_FOUR}), job) if "core/idle-devices" in line]

    assert "containers[main].command: " in line
    assert "in /scripts/a.yaml of the ConfigMap scripts: " in line


def test_a_file_of_settings_in_a_secret_is_not_read(muster):
    job = started({"secret": {"secretName": "scripts"}}, *ACCELERATE)

    assert told(muster, secret({"a.yaml": TWO_OF_FOUR}), job) == []


def test_what_is_wrong_without_the_file_is_told_once(muster):
    job = started({"configMap": {"name": "scripts"}}, *ACCELERATE[:2], "--gpu_idss", "all", *ACCELERATE[2:])

    assert told(muster, config_map({"a.yaml": TWO_OF_FOUR.replace("2", "4")}), job) == ["core/option"]


def test_a_flag_wins_over_the_file_of_vllm_and_is_not_taken_for_a_second_one(muster):
    settings = config_map({"s.yaml": "tensor-parallel-size: 8\nport: 8000\n"})

    assert told(muster, settings, served(*SERVE)) == ["vllm/parallel-size"]
    assert told(muster, settings, served(*SERVE, "-tp", "4")) == []


def test_a_file_that_is_no_mapping_says_nothing(muster):
    for text in ("- a\n", "a: [", "", "7"):
        assert told(muster, config_map({"s.yaml": text}), served(*SERVE)) == []


def llama(target, **ports):
    spec = {"selector": {"app": "llama"}, "ports": [{"port": 80, "targetPort": target, **ports}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llama"}, "spec": spec}


def test_a_service_that_sends_elsewhere_is_told_where_the_server_is_all_that_listens(muster):
    job = served("vllm", "serve", "m/m", "--port", "9000", "-tp", "4")
    pod = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod["metadata"] = {"labels": {"app": "llama"}}

    assert told(muster, llama(8000), job) == ["core/service-port"]
    assert told(muster, llama(9000), job) == []
    assert told(muster, llama("http"), job) == []
    pod["metadata"] = {"labels": {"app": "other"}}
    assert told(muster, llama(8000), job) == []


def test_the_narrowest_of_several_quotas_counts(muster):
    main = container(*TORCHRUN)
    main["resources"] = {"limits": {"nvidia.com/gpu": 4}}
    quotas = [
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": {"pods": pods}}}
        for name, pods in (("wide", 10), ("narrow", 1), ("middle", 2))
    ]
    (line,) = [line for line in found(muster, *quotas, jobset(part("node", main, pods=2))) if "core/quota" in line]

    assert "narrow" in line


def test_documents_of_any_shape_beside_a_job_are_no_failure(muster):
    job = started({"configMap": {"name": "scripts"}}, "bash", "/scripts/run.sh")
    odd = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scripts"}, "data": {1: 2, "run.sh": ["a"]}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ["x"]}, "stringData": "text"},
        {"apiVersion": "v1", "kind": "Service", "metadata": None, "spec": 3},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": []}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"accessModes": 4}},
    ]

    assert not any("failed" in line for line in found(muster, *odd, job))
