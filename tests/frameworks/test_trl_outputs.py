"""A folder of results in which the training cannot write."""

from __future__ import annotations

import pytest

from tests.frameworks.builders import found, gpus, jobset, replicated_job, runtime, trainjob

BASE = ["--model_name_or_path=m", "--dataset_name=d"]
CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}


def told(folder, *mounts, source=CLAIM, **container):
    """Severities of the findings; a mount is (path, what else it has), and all are of one volume."""
    mounted = [{"name": "v", "mountPath": path, **more} for path, more in mounts]
    own = {"command": ["torchrun", "-m", "trl.scripts.sft"], "args": [*BASE, f"--output_dir={folder}"]}
    training = {"name": "node", "resources": gpus(1), "volumeMounts": mounted, **own, **container}
    document = jobset(replicated_job("node", training, pod={"volumes": [{"name": "v", **source}]}), framework="trl")
    return [each.severity.value for each in found("trl", document) if each.rule == "trl/output"]


RO = {"readOnly": True}


def test_a_folder_on_a_volume_that_cannot_be_written_is_refused():
    assert told("/data/out", ("/data", RO)) == ["error"]
    assert told("/data", ("/data/", RO)) == ["error"]
    assert told("/data/../data/out", ("/data", RO)) == ["error"]
    assert told("out", ("/work", RO), workingDir="/work") == ["error"]


@pytest.mark.parametrize("kind", ["configMap", "secret", "projected", "downwardAPI", "image"])
def test_a_volume_of_a_kind_that_is_always_read_only_is_refused(kind):
    assert told("/data/out", ("/data", {}), source={kind: {"name": "a"}}) == ["error"]


def test_a_claim_that_is_read_only_is_refused():
    assert told("/data/out", ("/data", {}), source={"persistentVolumeClaim": {"claimName": "c", **RO}}) == ["error"]
    assert told("/data/out", ("/data", {}), source={"nfs": {"server": "s", "path": "/", **RO}}) == ["error"]


def test_a_folder_of_an_image_that_cannot_be_written_is_a_warning():
    fixed = {"securityContext": {"readOnlyRootFilesystem": True}}
    assert told("/out", ("/data", {}), **fixed) == ["warning"]
    assert told("/data/out", ("/data", {}), **fixed) == []
    assert told("/out", ("/data", {})) == []


def test_what_can_be_written_or_is_not_known_is_not_spoken_of():
    assert told("/data/out", ("/data", {})) == []
    assert told("/data/out/a", ("/data", RO), ("/data/out", {})) == []
    assert told("/database", ("/data", RO)) == []
    assert told("out", ("/data", RO)) == []
    assert told("$(OUT)", ("/", RO)) == []
    assert told("/data/out", ("/data", {}), source={"emptyDir": {}}) == []
    assert told("/data/out", ("/data", {}), source={"configMap": None, **CLAIM}) == []


def test_a_mount_that_a_patch_of_the_trainjob_adds_counts():
    mount = {"name": "node", "volumeMounts": [{"name": "v", "mountPath": "/out", "readOnly": True}]}
    pod = {"volumes": [{"name": "v", **CLAIM}], "containers": [mount]}
    inside = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]}
    document = trainjob({"args": [*BASE, "--output_dir=/out"], "resourcesPerNode": gpus(1)})
    document["spec"]["runtimePatches"] = [
        {"manager": "example.org/a", "trainingRuntimeSpec": {"template": {"spec": inside}}}
    ]
    governing = runtime("trl", command=["torchrun", "-m", "trl.scripts.sft"])

    (only,) = [each for each in found("trl", document, governing) if each.rule == "trl/output"]
    assert (only.severity.value, only.field) == ("error", "spec.trainer.args[2]")
