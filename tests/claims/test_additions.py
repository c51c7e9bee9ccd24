"""What a claim puts on a JobSet, and that nothing else is touched."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from muster.strategies import claims
from tests.support import admissions, devices, jobs, limits, plugins

CLASS = devices.device_class()
ENTRY = {"name": "devices"}


def jobset(framework="vllm", pod=None, container=None, nodes=1, **asked):
    metadata = {**devices.annotated(**asked), "labels": {jobs.FRAMEWORK: framework}}
    made = jobs.make_jobset(metadata=metadata, container={"args": ["--model=m"], **(container or {})}, nodes=nodes)
    devices.pod_of(made).update(pod or {})
    return made


def test_a_dedicated_profile_adds_a_template_a_use_and_labels_and_no_gate():
    stored = devices.stored(jobset(profile="plain"), CLASS)
    pod = devices.pod_of(stored)
    assert pod["resourceClaims"] == [{**ENTRY, "resourceClaimTemplateName": "muster-plain"}]
    assert pod["containers"][0]["resources"] == {"claims": [ENTRY]}
    assert "schedulingGates" not in pod
    template = stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"]["labels"] == {"muster.dev/profile": "plain"}
    assert stored["metadata"]["labels"]["muster.dev/profile"] == "plain"


def test_each_part_of_a_training_gets_what_the_job_asks_for_and_the_others_what_they_ask_for():
    made = jobset("torch", container={"command": ["torchrun", "x.py"]}, profile="plain")
    (first,) = made["spec"]["replicatedJobs"]
    parts = {"leader": {}, "worker-0": {}, "worker-1": devices.annotated(profile="large"), "reward": {}}
    made["spec"]["replicatedJobs"] = [{**copy.deepcopy(first), "name": name} for name in parts]
    for each, metadata in zip(made["spec"]["replicatedJobs"], parts.values(), strict=True):
        each["template"]["spec"]["template"]["metadata"] = metadata
    pods = [devices.pod_of(devices.stored(made, CLASS), number) for number in range(len(parts))]
    assert [[each["resourceClaimTemplateName"] for each in pod.get("resourceClaims", ())] for pod in pods] == [
        ["muster-plain"],
        ["muster-plain"],
        ["muster-large"],
        [],
    ]


def test_a_shared_profile_names_a_claim_and_gates_the_pods():
    pod = devices.pod_of(devices.stored(jobset(profile="seats"), CLASS))
    assert pod["resourceClaims"] == [{**ENTRY, "resourceClaimName": "muster-seats-0"}]
    assert pod["schedulingGates"] == [{"name": "muster.dev/seat"}]


@pytest.mark.parametrize(
    ("held", "chosen"),
    [
        ((), "muster-seats-0"),
        ((("muster-seats-0", "a"),), "muster-seats-1"),
        ((("muster-seats-0", "a"), ("muster-seats-1", "b"), ("muster-seats-2",)), "muster-seats-2"),
        ((("muster-seats-0", "a", "b"), ("muster-seats-1", "c"), ("muster-seats-2", "d", "e")), "muster-seats-1"),
        ((("muster-seats-0", "a", "b"), ("muster-seats-1", "c", "f"), ("muster-seats-2", "d", "e")), "muster-seats-0"),
    ],
)
def test_the_claim_with_the_most_free_seats_is_chosen_and_the_first_of_several(held, chosen):
    claims = [devices.seated(*each) for each in held]
    (entry,) = devices.pod_of(devices.stored(jobset(profile="seats"), CLASS, *claims))["resourceClaims"]
    assert entry["resourceClaimName"] == chosen


@pytest.mark.parametrize("text", [None, "", "no JSON", "[]", '{"uid": 1}', '{"a": {}, "b": {"pod": 2}}', "[" * 9999])
def test_whatever_stands_in_the_annotation_of_seats_a_claim_is_chosen(text):
    claim = devices.seated("muster-seats-0")
    claim["metadata"]["annotations"] = {"muster.dev/seats": text} if text is not None else None
    pod = devices.pod_of(devices.stored(jobset(profile="seats"), CLASS, claim))
    assert pod["resourceClaims"][0]["resourceClaimName"].startswith("muster-seats-")


def test_containers_that_are_named_get_the_claim_and_others_do_not():
    asked = [{"name": "gpu", "resourceClaimTemplateName": "two", "containerNames": ["server", "warmup"]}]
    containers = [{"name": "proxy", "image": "i"}, {"name": "server", "image": "i"}]
    pod = {"containers": containers, "initContainers": [{"name": "warmup", "image": "i"}, {"name": "x", "image": "i"}]}
    stored = devices.pod_of(devices.stored(jobset("torch", pod, claims=asked), devices.template()))
    assert stored["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "two"}]
    used = {"claims": [{"name": "gpu"}]}
    assert [each.get("resources") for each in stored["containers"] + stored["initContainers"]] == [
        None,
        used,
        used,
        None,
    ]


def test_without_names_the_training_container_gets_it():
    pod = {"containers": [{"name": "proxy", "image": "i"}, {"name": "node", "image": "i"}]}
    stored = devices.pod_of(devices.stored(jobset("torch", pod, profile="plain"), CLASS))
    assert [each.get("resources") for each in stored["containers"]] == [None, {"claims": [ENTRY]}]


def test_a_profile_and_claims_of_ones_own_go_together():
    asked = [{"name": "nic", "resourceClaimName": "fabric"}]
    stored = devices.pod_of(devices.stored(jobset(profile="plain", claims=asked), CLASS))
    assert [entry["name"] for entry in stored["resourceClaims"]] == ["devices", "nic"]
    assert stored["containers"][0]["resources"]["claims"] == [ENTRY, {"name": "nic"}]


@pytest.mark.parametrize(
    ("profile", "object_"),
    [("plain", {"resourceClaimTemplateName": "muster-plain"}), ("seats", {"resourceClaimName": "muster-seats-1"})],
)
def test_a_claim_of_the_profile_that_the_pods_name_already_is_the_one(profile, object_):
    entry = {"name": "gpu", **object_}
    stored = devices.stored(jobset(pod={"resourceClaims": [entry]}, profile=profile), CLASS)
    pod = devices.pod_of(stored)
    assert pod["resourceClaims"] == [entry]
    assert pod["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
    assert ("schedulingGates" in pod) is (profile == "seats")
    assert devices.judged(stored, CLASS) == []


def test_a_name_that_is_still_to_be_generated_is_not_needed():
    made = jobset(profile="seats")
    made["metadata"]["generateName"] = made["metadata"].pop("name") + "-"
    assert devices.pod_of(devices.stored(made, CLASS))["resourceClaims"]


@pytest.mark.parametrize("profile", [profile.name for profile in devices.OFFERED])
@pytest.mark.parametrize("framework", ["torch", "vllm", "trl", "torchtune", "unheard-of"])
def test_a_second_pass_changes_nothing_even_when_other_seats_are_free_by_then(profile, framework):
    once = devices.stored(jobset(framework, profile=profile), CLASS)
    taken = devices.seated(f"muster-{profile}-0", "a", "b")
    assert devices.stored(once, CLASS, taken) == once


def test_every_addition_says_by_which_rule_and_why():
    decision = admissions.decide(jobset(profile="seats"), CLASS, policy=devices.policy())
    rules = {change.rule for change in decision.changes}
    assert {"vllm/claim", "vllm/seat", "vllm/profile-label"} <= rules
    (claim,) = (change for change in decision.changes if change.field.endswith("resourceClaims"))
    assert "profile seats" in claim.reason
    assert "JobSet annotation muster.dev/claim-profile" in claim.reason


@limits.SOME
@given(
    pod=st.fixed_dictionaries(
        {},
        optional={
            "resourceClaims": st.lists(
                st.sampled_from([{"name": "mine", "resourceClaimTemplateName": "two"}, {"name": "nic"}]),
                unique_by=lambda entry: entry["name"],
            ),
            "schedulingGates": st.sampled_from([[], [{"name": "other.example/gate"}]]),
            "nodeSelector": st.just({"a": "b"}),
        },
    ),
    resources=st.fixed_dictionaries(
        {}, optional={"limits": st.sampled_from([{}, {"memory": "1Gi"}, None]), "claims": st.just([{"name": "mine"}])}
    ),
    profile=st.sampled_from(["plain", "seats", "quad", "large"]),
)
def test_what_the_user_wrote_is_all_still_there(pod, resources, profile):
    file = jobset("torch", copy.deepcopy(pod), {"resources": copy.deepcopy(resources)}, profile=profile)
    before = copy.deepcopy(file)
    stored = devices.stored(file, CLASS, devices.template())
    assert file == before
    new = devices.pod_of(stored)
    for member in ("resourceClaims", "schedulingGates"):
        written = pod.get(member) or []
        assert (new.get(member) or [])[: len(written)] == written
    assert new.get("nodeSelector") == pod.get("nodeSelector")
    assert new["containers"][0]["resources"].get("limits") == resources.get("limits")
    assert devices.stored(stored, CLASS, devices.template()) == stored


def test_in_mode_warn_the_claims_are_only_told():
    namespace = jobs.make_namespace("warn")
    made = jobset(profile="plain")
    decision = admissions.decide(made, CLASS, namespace, policy=devices.policy())
    assert decision.verdict == "unchanged"
    assert decision.document == made
    assert any(change.rule == "vllm/claim" for change in decision.changes)


def test_a_strategy_of_another_package_adds_claims_too_and_cannot_spoil_the_profiles():
    def enforce_claims(job, changes):
        claims.enforce(job, changes, "acme")
        job.supply.profiles["tuned"].config[0]["parameters"]["kind"] = "Spoilt"

    policy = structs.replace(
        devices.policy(), registry=admissions.policy_with(plugins.make_strategy(enforce_claims=enforce_claims)).registry
    )
    stored = devices.stored(jobset("acme", profile="plain"), CLASS, policy=policy)
    assert devices.pod_of(stored)["resourceClaims"][0]["resourceClaimTemplateName"] == "muster-plain"
    assert policy.profiles["tuned"].config[0]["parameters"]["kind"] == "GpuConfig"
