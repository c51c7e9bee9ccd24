"""Pods that can never start, or whose devices and volumes their ranks cannot have."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import found, gpus, jobset, replicated_job, runtime, trainjob

GPU = "nvidia.com/gpu"
ERROR, WARNING = Severity.ERROR, Severity.WARNING
POD = "spec.replicatedJobs[node].template.spec.template.spec"


def said(document, governing=None):
    """(severity, rule, field) of the findings about pods."""
    rules = ("amount", "limit", "resource-name", "unknown-device", "shared-device", "two-vendors")
    rules += (
        "claim-name",
        "volume-claim",
        "shared-volume",
        "command-word",
    )
    return [
        (each.severity, each.rule.removeprefix("core/"), each.field)
        for each in found("torch", document, governing)
        if each.rule.removeprefix("core/") in rules
    ]


def of_resources(resources, **pod):
    document = jobset(replicated_job("node", {"name": "node", "image": "i", "resources": resources}, pod=pod))
    return [(severity, rule, field.partition("[node].resources")[2]) for severity, rule, field in said(document)]


REFUSED = {
    "a request without a limit": ({"requests": {GPU: 4}}, "limit", f".requests[{GPU}]"),
    "a request of none without a limit": ({"requests": {GPU: 0}}, "limit", f".requests[{GPU}]"),
    "a request that differs": ({"requests": {GPU: 2}, "limits": {GPU: 4}}, "limit", f".requests[{GPU}]"),
    "half a GPU": ({"limits": {GPU: "0.5"}}, "amount", f".limits[{GPU}]"),
    "half a GPU in thousandths": ({"limits": {GPU: "500m"}}, "amount", f".limits[{GPU}]"),
    "half a GPU as a number": ({"limits": {GPU: 0.5}}, "amount", f".limits[{GPU}]"),
    "one and a half": ({"requests": {GPU: "1.5"}, "limits": {GPU: "1.5"}}, "amount", f".limits[{GPU}]"),
    "a tenth by its exponent": ({"limits": {GPU: "1e-1"}}, "amount", f".limits[{GPU}]"),
    "a millionth, which is rounded up to a thousandth": ({"limits": {GPU: "1u"}}, "amount", f".limits[{GPU}]"),
    "a fraction of a network card": ({"limits": {"rdma/hca": "0.1"}}, "amount", ".limits[rdma/hca]"),
    "a GPU and a half, in percent": ({"limits": {"koordinator.sh/gpu": 150}}, "amount", None),
    "gpu without a vendor": ({"limits": {"gpu": 1}}, "resource-name", ".limits.gpu"),
    "a resource of quotas": ({"limits": {"pods": 1}}, "resource-name", ".limits.pods"),
    "storage, which is one of volume claims": ({"requests": {"storage": "1Gi"}}, "resource-name", None),
}


@pytest.mark.parametrize(("resources", "rule", "field"), REFUSED.values(), ids=REFUSED)
def test_resources_that_the_api_server_refuses_are_one_error(resources, rule, field):
    (finding,) = of_resources(resources)
    assert finding[:2] == (ERROR, rule)
    assert field is None or finding[2] == field


TAKEN = {
    "a limit alone": {"limits": {GPU: 4}},
    "request and limit": {"requests": {GPU: 4}, "limits": {GPU: "4"}},
    "the same in two spellings": {"requests": {GPU: "2000m"}, "limits": {GPU: "2"}},
    "a whole number with a point": {"limits": {GPU: "1.0"}},
    "a thousand by its exponent": {"limits": {GPU: "1e3"}},
    "parts of a CPU": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1.5"}},
    "a request of memory alone": {"requests": {"memory": "1Gi", "ephemeral-storage": "1Gi"}},
    "huge pages beside memory": {"limits": {"hugepages-1Gi": "2Gi", "memory": "4Gi"}},
    "an implicit resource of a class, as Kubernetes' own": {
        "requests": {"deviceclass.resource.kubernetes.io/gpu": 1},
        "limits": {"cpu": 1},
    },
    "a vendor without a dot": {"limits": {"rdma/hca": 1}},
    "percent": {"limits": {"koordinator.sh/gpu": 50, "koordinator.sh/rdma": 100}},
    "what is not a quantity is said elsewhere": {"limits": {GPU: "two"}, "requests": {GPU: "two"}},
    "nothing": {},
    "null": {"limits": None, "requests": None},
}


@pytest.mark.parametrize("resources", TAKEN.values(), ids=TAKEN)
def test_resources_that_the_api_server_takes_have_no_finding(resources):
    assert of_resources(resources) == []


WARNED = {
    "a plural": ({"limits": {"nvidia.com/gpus": 1}}, "unknown-device"),
    "a domain without its end": ({"limits": {"nvidia/gpu": 1}}, "unknown-device"),
    "two replicas of a shared GPU": ({"limits": {"nvidia.com/gpu.shared": 2}}, "shared-device"),
    "GPUs of two vendors": ({"limits": {GPU: 1, "amd.com/gpu": 1}}, "two-vendors"),
}


@pytest.mark.parametrize(("resources", "rule"), WARNED.values(), ids=WARNED)
def test_devices_that_hardly_any_node_has_are_a_warning(resources, rule):
    assert [each[:2] for each in of_resources(resources)] == [(WARNING, rule)]


def test_every_container_of_every_job_is_looked_at():
    half = {"limits": {GPU: "0.5"}}
    node = replicated_job("node", {"name": "node"}, pod={"initContainers": [{"name": "first", "resources": half}]})
    other = replicated_job("other", {"name": "main", "resources": half})
    assert [field for _, _, field in said(jobset(node, other))] == [
        f"{POD}.initContainers[first].resources.limits[{GPU}]",
        f"{POD.replace('node', 'other')}.containers[main].resources.limits[{GPU}]",
    ]


ON_TRAINJOBS = {
    "the amount of the job": ({"limits": {GPU: "0.5"}}, gpus(2), "amount", f".limits[{GPU}]"),
    "a limit of the job above the request of the runtime": (
        {"limits": {GPU: 4}},
        {"requests": {GPU: 2}, "limits": {GPU: 2}},
        "limit",
        f".limits[{GPU}]",
    ),
    "a request of the job beside the limit of the runtime": (
        {"requests": {GPU: 4}},
        gpus(2),
        "limit",
        f".requests[{GPU}]",
    ),
    "a request of the job alone": ({"requests": {GPU: 4}}, {}, "limit", f".requests[{GPU}]"),
}


@pytest.mark.parametrize(("own", "runtimes", "rule", "field"), ON_TRAINJOBS.values(), ids=ON_TRAINJOBS)
def test_on_a_trainjob_the_merge_is_judged_and_the_field_is_its_own(own, runtimes, rule, field):
    ((severity, told, place),) = said(trainjob({"resourcesPerNode": own}), runtime(resources=runtimes))
    assert (severity, told) == (ERROR, rule)
    assert place == f"spec.trainer.resourcesPerNode{field}"


def test_a_job_that_completes_the_runtimes_request_is_right():
    own = {"resourcesPerNode": {"limits": {GPU: 2}}}
    assert said(trainjob(own), runtime(resources={"requests": {GPU: 2}})) == []


def test_what_only_the_runtime_says_is_told_at_the_reference_with_its_place():
    findings = found("torch", trainjob({}), runtime(resources={"requests": {GPU: 2}}))
    (finding,) = [each for each in findings if each.rule == "core/limit"]
    assert (finding.field, finding.value) == ("spec.runtimeRef.name", "runtime")
    assert f"containers[node].resources.requests[{GPU}]: 2: has no limit" in finding.message


def test_resources_of_another_container_are_the_runtimes_own():
    pod = {"initContainers": [{"name": "first", "resources": {"requests": {GPU: 1}}}]}
    (finding,) = said(trainjob({"resourcesPerNode": gpus(1)}), runtime(pod=pod))
    assert finding == (ERROR, "limit", "spec.runtimeRef.name")


def test_the_jobset_that_trainer_made_is_not_judged_again():
    document = jobset(replicated_job("node", {"name": "node", "resources": {"requests": {GPU: 1}}}))
    assert found("torch", document, runtime(), owner=trainjob({})) == []


PODS = {
    "a claim that the pod lacks": (
        {"resourceClaims": [{"name": "other"}]},
        {"resources": {"claims": [{"name": "gpu"}]}},
        [(ERROR, "claim-name", f"{POD}.containers[node].resources.claims[gpu].name")],
    ),
    "a claim that the pod has": (
        {"resourceClaims": [{"name": "gpu"}]},
        {"resources": {"claims": [{"name": "gpu"}]}},
        [],
    ),
    "a sidecar that restarts always": ({"initContainers": [{"name": "s", "restartPolicy": "Always"}]}, {}, []),
    "a pod that never restarts": ({"restartPolicy": "Never"}, {}, []),
    "a launcher and its script in one word": (
        {},
        {"command": ["torchrun train.py"]},
        [(ERROR, "command-word", f"{POD}.containers[node].command[0]")],
    ),
    "a shell and its script in one word": (
        {"initContainers": [{"name": "s", "command": ["sh -c 'echo'"]}]},
        {},
        [(ERROR, "command-word", f"{POD}.initContainers[s].command[0]")],
    ),
    "a program in a folder with a blank": ({}, {"command": ["/opt/my tools/run", "a b"]}, []),
    "a script of several words": ({}, {"command": ["bash", "-c", "torchrun train.py"]}, []),
}


@pytest.mark.parametrize(("pod", "container", "wanted"), PODS.values(), ids=PODS)
def test_a_pod_that_its_job_could_not_make_is_refused(pod, container, wanted):
    assert said(jobset(replicated_job("node", {"name": "node", **container}, pod=pod))) == wanted


def test_a_command_in_one_word_is_told_where_it_was_written():
    assert said(trainjob({"command": ["python train.py"]})) == [(ERROR, "command-word", "spec.trainer.command[0]")]
    broken = runtime(command=["python train.py"])
    assert said(trainjob({}), broken) == [(ERROR, "command-word", "spec.runtimeRef.name")]
    assert said(trainjob({"command": ["python", "train.py"]}), broken) == []


# --- volumes --------------------------------------------------------------------------------------------------------


def volumes(*modes):
    spec = {"accessModes": list(modes), "resources": {"requests": {"storage": "1Gi"}}}
    return [{"templates": [{"metadata": {"name": "work"}, "spec": spec}]}]


def mounting(name="node", *, pod=None, depends=None, mount="work", **spec):
    container = {"name": "node", "volumeMounts": [{"name": mount, "mountPath": "/work"}]}
    job = replicated_job(name, container, pod=pod, **spec)
    return job if depends is None else {**job, "dependsOn": [{"name": depends, "status": "Complete"}]}


def apart(**labels):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


MODES = "spec.volumeClaimPolicies[0].templates[0].spec.accessModes"
OTHER = {"volumes": [{"name": "other", "emptyDir": {}}]}
TWO = {"parallelism": 2, "completions": 2}
SHARED = {
    "two pods": ([mounting(**TWO)], "ReadWriteOnce", WARNING),
    "two jobs of one pod": ([mounting(replicas=2)], "ReadWriteOnce", WARNING),
    "two jobs at the same time": ([mounting("a"), mounting("b")], "ReadWriteOnce", WARNING),
    "one pod only": ([mounting(**TWO)], "ReadWriteOncePod", ERROR),
    "pods that avoid each other": (
        [mounting(pod=apart(**{"jobset.sigs.k8s.io/jobset-name": "set"}), **TWO)],
        "ReadWriteOnce",
        ERROR,
    ),
    "pods that avoid others": ([mounting(pod=apart(app="other"), **TWO)], "ReadWriteOnce", WARNING),
}
UNSHARED = {
    "one pod": ([mounting()], "ReadWriteOnce"),
    "a volume for many": ([mounting(**TWO)], "ReadWriteMany"),
    "a volume that is only read": ([mounting(**TWO)], "ReadOnlyMany"),
    "another volume": ([mounting(mount="other", pod=OTHER, **TWO), mounting("one")], "ReadWriteOnce"),
    "one after the other": ([mounting("first"), mounting("second", depends="first")], "ReadWriteOncePod"),
}


@pytest.mark.parametrize(("jobs", "mode", "severity"), SHARED.values(), ids=SHARED)
def test_a_volume_of_one_node_under_several_pods_is_told(jobs, mode, severity):
    assert said(jobset(*jobs, volumeClaimPolicies=volumes(mode))) == [(severity, "shared-volume", MODES)]


@pytest.mark.parametrize(("jobs", "mode"), UNSHARED.values(), ids=UNSHARED)
def test_a_volume_that_all_its_pods_can_have_is_right(jobs, mode):
    assert said(jobset(*jobs, volumeClaimPolicies=volumes(mode))) == []


def test_a_mount_whose_volume_a_patch_brings_is_right():
    document = trainjob({})
    job = {"name": "node", "template": {"spec": {"template": {"spec": OTHER}}}}
    patch = {"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
    document["spec"]["runtimePatches"] = [patch]
    assert said(document, runtime(volumeMounts=[{"name": "other", "mountPath": "/work"}])) == []


def test_a_volume_without_an_access_mode_is_refused():
    assert said(jobset(mounting(), volumeClaimPolicies=volumes())) == [(ERROR, "volume-claim", MODES)]


def governed(mode="ReadWriteOnce", **container):
    document = runtime(**container)
    document["spec"]["template"]["spec"]["volumeClaimPolicies"] = volumes(mode)
    return document


def test_the_nodes_of_a_trainjob_are_counted_at_its_own_field():
    own = governed(volumeMounts=[{"name": "work", "mountPath": "/work"}])
    assert said(trainjob({"numNodes": 2}), own) == [(WARNING, "shared-volume", "spec.trainer.numNodes")]
    (finding,) = [each for each in found("torch", trainjob({"numNodes": 2}), own) if each.rule == "core/shared-volume"]
    assert finding.message.startswith("only one node can have this volume, and 2 pods mount it")
    assert said(trainjob({"numNodes": 1}), own) == []
    own["spec"]["mlPolicy"]["numNodes"] = 2
    assert said(trainjob({}), own) == [(WARNING, "shared-volume", "spec.runtimeRef.name")]


def test_a_mount_that_a_patch_adds_counts():
    document = trainjob({"numNodes": 2})
    containers = [{"name": "node", "volumeMounts": [{"name": "work", "mountPath": "/work"}]}]
    job = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": containers}}}}}
    patch = {"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
    document["spec"]["runtimePatches"] = [patch]
    assert said(document, governed()) == [(WARNING, "shared-volume", "spec.trainer.numNodes")]
    assert said(trainjob({"numNodes": 2}), governed()) == [(ERROR, "volume-claim", "spec.runtimeRef.name")]


@pytest.mark.parametrize("odd", [None, "x", 1, [1], [{"templates": 1}], [{"templates": [{"spec": 1}]}]])
def test_members_of_other_types_are_left_to_the_api_server(odd):
    assert {rule for _, rule, _ in said(jobset(mounting(**TWO), volumeClaimPolicies=odd))} <= {
        "volume-claim",
    }


def test_a_hundred_thousand_names_have_fifty_findings():
    names = {f"x{number}.example/gpu": "0.5" for number in range(100_000)}
    assert len(of_resources({"limits": names})) == 50
