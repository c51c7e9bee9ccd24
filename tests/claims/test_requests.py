"""Who asks for devices, and who is heard when several do."""

from __future__ import annotations

import copy

import pytest

from muster.strategies.platform.placements import Role
from tests.support import admissions, devices, jobs

CLASS = devices.device_class()
PATH = ("template", "spec", "template")


def claims_of(document, *cluster, job=0, **how):
    """Object names in the pod's `resourceClaims` after mutation."""
    pod = devices.pod_of(devices.stored(document, CLASS, *cluster, **how), job)
    keys = ("resourceClaimTemplateName", "resourceClaimName")
    return [entry.get(keys[0]) or entry.get(keys[1]) for entry in pod.get("resourceClaims") or ()]


def make(levels, **more):
    """A JobSet that Trainer made, its TrainJob and its runtime, with a profile at each of these levels."""
    runtime = jobs.make_runtime("torch", framework="torch")
    trainjob = jobs.make_trainjob(runtime="torch", metadata={"uid": jobs.UID}, numNodes=1, **more)
    template = runtime["spec"]["template"]
    job = template["spec"]["replicatedJobs"][0]
    places = {
        "pod template": job["template"]["spec"]["template"].setdefault("metadata", {}),
        "template": job["template"]["metadata"],
        "TrainJob": trainjob["metadata"],
        "runtime": runtime["metadata"],
        "runtime's template": template.setdefault("metadata", {}),
    }
    for level, profile in levels.items():
        places[level]["annotations"] = {devices.PROFILE: profile}
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llama", "uid": jobs.UID}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            **copy.deepcopy(template["metadata"]),
            "name": "llama",
            "namespace": jobs.NAMESPACE,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": copy.deepcopy(template["spec"]),
    }
    return jobset, trainjob, runtime


@pytest.mark.parametrize(
    ("levels", "heard"),
    [
        ({}, None),
        ({"runtime": "quad"}, "quad"),
        ({"runtime's template": "quad"}, "quad"),
        ({"runtime": "plain", "runtime's template": "quad"}, "plain"),
        ({"TrainJob": "quad", "runtime": "plain", "runtime's template": "large"}, "quad"),
        ({"template": "quad", "TrainJob": "plain"}, "quad"),
        ({"pod template": "quad", "template": "plain"}, "quad"),
        ({"TrainJob": "none", "runtime": "plain"}, None),
    ],
)
def test_the_nearest_annotation_is_heard_on_the_trainjob_and_on_its_jobset(levels, heard):
    jobset, trainjob, runtime = make(levels)
    assert claims_of(jobset, trainjob, runtime) == ([f"muster-{heard}"] if heard else [])
    stored = devices.stored(trainjob, CLASS, runtime)
    expected = {"quad": 4, "plain": 2, "large": 1}.get(heard)
    assert stored["spec"]["trainer"].get("numProcPerNode") == (expected if heard not in ("large", None) else None)


def test_the_annotation_of_a_jobset_without_a_trainjob_counts():
    labelled = {**devices.annotated(profile="plain"), "labels": {jobs.FRAMEWORK: "vllm"}}
    assert claims_of(jobs.make_jobset(metadata=labelled)) == ["muster-plain"]


def test_the_platform_gives_a_framework_its_profile_and_a_job_may_refuse_or_choose():
    policy = devices.policy(vllm="plain")
    assert claims_of(jobs.make_jobset(), policy=policy) == ["muster-plain"]
    for profile, claims in (("none", []), ("large", ["muster-large"])):
        metadata = {**devices.annotated(profile=profile), "labels": {jobs.FRAMEWORK: "vllm"}}
        assert claims_of(jobs.make_jobset(metadata=metadata), policy=policy) == claims
    assert claims_of(jobs.make_jobset(framework="torch"), policy=policy) == []


def test_policy_says_nothing_to_a_job_that_brings_claims_of_its_own():
    jobset = jobs.make_jobset(container={"resources": {"claims": [{"name": "mine"}]}})
    devices.pod_of(jobset)["resourceClaims"] = [{"name": "mine", "resourceClaimTemplateName": "two"}]
    assert claims_of(jobset, policy=devices.policy(vllm="plain")) == ["two"]


@pytest.mark.parametrize(("profile", "claims"), [("plain", []), ("seats", []), ("quad", ["muster-quad"])])
def test_policy_leaves_a_job_its_gpus_unless_the_profile_replaces_them(profile, claims):
    jobset = jobs.make_jobset(container={"args": ["--model=m"], "resources": {"limits": {devices.GPU: 1}}})
    policy = devices.policy(vllm=profile)
    assert claims_of(jobset, policy=policy) == claims
    found = devices.judged(jobset, CLASS, policy=policy)
    assert [(each.rule, each.severity.value) for each in found] == (
        [] if claims else [("claims/own-devices", "warning")]
    )


def test_policy_leaves_a_trainjob_its_gpus_too():
    runtime = jobs.make_runtime("torch", framework="torch", container={"resources": {"limits": {devices.GPU: 1}}})
    job = jobs.make_trainjob(runtime="torch", command=["torchrun", "x.py"], numNodes=2)
    policy = devices.policy(torch="plain")
    assert devices.stored(job, CLASS, runtime, policy=policy)["spec"]["trainer"].get("numProcPerNode") is None
    (found,) = devices.judged(job, CLASS, runtime, policy=policy)
    assert (found.rule, found.severity.value) == ("claims/own-devices", "warning")


def test_each_role_gets_the_profile_of_the_platform():
    roles = {"trainer": Role("trainer", profile="quad"), "sampler": Role("sampler", profile="seats")}
    labels = {role: {"labels": {"muster.dev/role": role}} for role in roles}
    policy = devices.policy(roles=roles, torch="plain")
    assert claims_of(devices.two_jobs(**labels), policy=policy) == ["muster-quad"]
    assert claims_of(devices.two_jobs(**labels), policy=policy, job=1) == ["muster-seats-0"]


def test_what_is_asked_of_the_whole_job_is_for_the_one_that_trains():
    jobset = devices.two_jobs(sampler=devices.annotated(profile="seats"))
    jobset["metadata"]["annotations"] = {devices.PROFILE: "quad"}
    assert claims_of(jobset) == ["muster-quad"]
    assert claims_of(jobset, job=1) == ["muster-seats-0"]


def test_a_jobset_in_which_nobody_trains_is_told_to_say_which_job_it_means():
    jobset = devices.two_jobs()
    jobset["metadata"]["annotations"] = {devices.PROFILE: "quad"}
    jobset["spec"]["replicatedJobs"][0]["name"] = "router"
    (found,) = devices.judged(jobset, CLASS)
    assert (found.rule, found.field) == ("claims/no-training-job", f"metadata.annotations[{devices.PROFILE}]")


def test_a_patch_of_the_trainjob_is_heard_like_the_runtime_it_patches():
    pod = {"metadata": devices.annotated(profile="quad")}
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    patch = {"manager": "x", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
    runtime = jobs.make_runtime("torch", framework="torch")
    trainjob = jobs.make_trainjob(runtime="torch", spec={"runtimePatches": [patch]})
    assert devices.stored(trainjob, CLASS, runtime)["spec"]["trainer"]["numProcPerNode"] == 4


def test_a_framework_without_a_strategy_gets_its_claims_too():
    metadata = {**devices.annotated(profile="plain"), "labels": {jobs.FRAMEWORK: "jax"}}
    assert claims_of(jobs.make_jobset(metadata=metadata)) == ["muster-plain"]
    assert claims_of(jobs.make_jobset(metadata={**metadata, "labels": {}})) == ["muster-plain"]


def test_a_job_that_asks_for_nothing_makes_nobody_look_for_device_classes():
    class Silent:
        def get(self, ref):
            assert ref.kind == "Namespace", ref

    admissions.decide(jobs.make_jobset(), reader=Silent(), policy=devices.policy())
