"""What a TrainJob patches in its runtime is part of the runtime for every check."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.changes.changes import Changes
from muster.strategies.checks.job_checks import check_job
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import list_templates
from muster.strategies.launches import program_kinds
from muster.strategies.trainer import runtime_patches
from tests.support import jobs

_HOSTNAME = "kubernetes.io/hostname"
_CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}
_PODS = (
    {"nodeSelector": {"nvidia.com/gpu.present": "false", _HOSTNAME: "one"}},
    {"nodeName": "No Name"},
    {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Sometimes"}]},
    {"serviceAccountName": "Not A Name"},
    {"schedulingGates": [{"name": "gate"}, {"name": "-"}]},
    {"imagePullSecrets": [{"name": "pull"}]},
    {"securityContext": {"runAsNonRoot": True, "runAsUser": -1, "sysctls": [{"name": "NO"}]}},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": _HOSTNAME}]}}},
    {"volumes": [{"name": "data", **_CLAIM}, {"name": "Upper", "emptyDir": {}}]},
    {"volumes": [{"name": "keys", "secret": {"secretName": "k", "items": [{"key": "k", "path": "../up"}]}}]},
    {"containers": [{"name": "node", "volumeMounts": [{"name": "absent", "mountPath": "/absent"}]}]},
    {"containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/a:b", "subPath": "/up"}]}]},
    {"containers": [{"name": "node", "securityContext": {"readOnlyRootFilesystem": True}}]},
    {"containers": [{"name": "node", "securityContext": {"privileged": True, "capabilities": {"drop": "ALL"}}}]},
)
_METADATA = (
    {},
    {"labels": {"not a key": "value", "muster.dev/role": "nobody"}},
    {"annotations": {"kueue.x-k8s.io/podset-slice-size": "0", "muster.dev/claim-profile": "absent"}},
)


def wrapped(member, pod, name="node"):
    """Return the members of a TrainJob's spec that patch the pods of a replicated job, as each Trainer has them."""
    if member == "podTemplateOverrides":
        return {member: [{"targetJobs": [{"name": name}], **pod}]}
    if member == "podSpecOverrides":
        return {member: [{"targetJobs": [{"name": name}], **pod.get("spec", {})}]}
    replicated = [{"name": name, "template": {"spec": {"template": pod}}}]
    template = {"spec": {"replicatedJobs": replicated}}
    return {member: [{"manager": "example.org/case", "trainingRuntimeSpec": {"template": template}}]}


def findings(trainjob, runtime, **more):
    job = Job("TrainJob", Changes(trainjob), "team", Runtime(runtime, "live"), identify=program_kinds.identify, **more)
    return job, list(check_job(job))


def merged(runtime, trainjob):
    """The runtime as its author would have written it with the patches in it."""
    return copy.deepcopy(dict(runtime_patches.apply(Runtime(runtime, "live"), trainjob).document))


@given(
    st.lists(st.tuples(st.sampled_from(_METADATA), st.sampled_from(_PODS)), min_size=1, max_size=4),
    st.sampled_from(("runtimePatches", "podTemplateOverrides")),
    st.sampled_from(("torch-distributed", "trl-distributed", "torchtune-llama3.2-1b")),
)
def test_a_patch_is_told_as_what_the_runtime_would_be_told_with_the_patch_in_it(pods, member, name):
    every = [wrapped(member, {"metadata": metadata, "spec": pod})[member] for metadata, pod in pods]
    spec = {member: [each for patches in every for each in patches]}
    runtime = jobs.shipped_runtimes()[name]
    trainjob = jobs.make_trainjob(runtime=name, spec=spec, numNodes=2)
    plain = jobs.make_trainjob(runtime=name, numNodes=2)
    patched, found = findings(trainjob, runtime)
    whole, wanted = findings(plain, merged(runtime, trainjob))
    assert [each.pod for each in list_templates(patched)] == [each.pod for each in list_templates(whole)]
    assert sorted((each.rule, each.severity) for each in found if each.rule != "core/patches") == sorted(
        (each.rule, each.severity) for each in wanted
    )


@pytest.mark.parametrize("member", ["runtimePatches", "podTemplateOverrides", "podSpecOverrides"])
def test_a_finding_about_what_a_patch_wrote_is_at_the_patch(member):
    pod = {"spec": {"containers": [{"name": "node", "workingDir": "here"}]}}
    trainjob = jobs.make_trainjob(spec=wrapped(member, pod))
    _, found = findings(trainjob, jobs.shipped_runtimes()["trl-distributed"])
    (told,) = [each for each in found if each.rule == "core/working-dir"]
    assert told.field.startswith(f"spec.{member}[")
    assert told.field.endswith("containers[node].workingDir")


@pytest.mark.parametrize("member", ["labels", "annotations"])
def test_labels_and_annotations_of_a_patch_come_over_those_of_the_runtime(member):
    runtime = copy.deepcopy(jobs.shipped_runtimes()["trl-distributed"])
    outer = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    index = next(n for n, each in enumerate(outer) if each["name"] == "node")
    outer[index]["template"]["spec"]["template"]["metadata"] = {member: {"kept": "1", "changed": "1"}}
    spec = wrapped("runtimePatches", {"metadata": {member: {"changed": "2", "new": "2"}}})
    job, _ = findings(jobs.make_trainjob(spec=spec), runtime)
    assert dict(next(list_templates(job)[index].metadata(member))[0]) == {"kept": "1", "changed": "2", "new": "2"}


def test_node_selectors_and_affinity_are_merged_and_tolerations_replaced():
    runtime = copy.deepcopy(jobs.shipped_runtimes()["trl-distributed"])
    outer = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    index = next(n for n, each in enumerate(outer) if each["name"] == "node")
    pod = outer[index]["template"]["spec"]["template"]["spec"]
    pod |= {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "a"}]}
    pod["affinity"] = {"nodeAffinity": {"preferred": [1]}}
    given = {"nodeSelector": {"b": "2"}, "tolerations": [{"key": "b"}], "affinity": {"nodeAffinity": {"required": {}}}}
    job, _ = findings(jobs.make_trainjob(spec=wrapped("runtimePatches", {"spec": given})), runtime)
    made = list_templates(job)[index].raw_spec
    assert (made["nodeSelector"], made["tolerations"]) == ({"a": "1", "b": "2"}, [{"key": "b"}])
    assert made["affinity"] == {"nodeAffinity": {"preferred": [1], "required": {}}}


@pytest.mark.parametrize("name", ["other", "node"])
def test_a_patch_of_a_job_or_a_container_that_the_runtime_lacks_is_told_once(name):
    spec = wrapped("runtimePatches", {"spec": {"containers": [{"name": "absent" if name == "node" else "node"}]}}, name)
    _, found = findings(jobs.make_trainjob(spec=spec), jobs.shipped_runtimes()["trl-distributed"])
    assert [each.rule for each in found] == ["core/patches"]


def test_patches_are_merged_once_and_leave_the_runtime_as_it_was():
    runtime = jobs.shipped_runtimes()["trl-distributed"]
    before = copy.deepcopy(runtime)
    trainjob = jobs.make_trainjob(
        spec=wrapped("runtimePatches", {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})
    )
    once = runtime_patches.apply(Runtime(runtime, "live"), trainjob)
    assert runtime_patches.apply(once, trainjob) is once
    assert (runtime, once.bare) == (before, before)
