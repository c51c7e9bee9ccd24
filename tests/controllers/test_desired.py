from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from muster.strategies.platform.profiles import Profile, claim_spec
from muster.webhook.controllers import desired, views
from tests.controllers.documents import DEDICATED, SHARED, jobset, pod

PROFILES = {"sampler": SHARED, "trainer": DEDICATED}


def made(name, profile=SHARED, **changes):
    document = desired.made("team-a", name, profile)
    document["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "7"}
    return dataclasses.replace(views.Managed.from_document(document), **changes)


def planned(*present, known=PROFILES, **uses):
    return desired.steps("team-a", known, desired.Uses(**uses), present)


def names(documents):
    return [(each["kind"], each["metadata"]["name"]) for each in documents]


ASKED = {"profiles": frozenset({"sampler"})}


def test_a_shared_profile_wants_all_its_claims():
    assert names(planned(**ASKED).create) == [
        ("ResourceClaim", "muster-sampler-0"),
        ("ResourceClaim", "muster-sampler-1"),
    ]


WHOLE = Profile(
    "whole",
    "gpu.example.com",
    count=4,
    selectors=("device.driver == 'gpu.example.com'",),
    match_attributes=("resource.kubernetes.io/pcieRoot",),
    config=({"driver": "gpu.example.com", "parameters": {"kind": "GpuConfig", "sharing": "TimeSlicing"}},),
    capacity={"sessions": "1", "memory": "4Gi"},
)


def test_a_claim_asks_for_all_that_its_profile_says():
    assert claim_spec(WHOLE) == {
        "devices": {
            "requests": [
                {
                    "name": "devices",
                    "exactly": {
                        "deviceClassName": "gpu.example.com",
                        "allocationMode": "ExactCount",
                        "count": 4,
                        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                        "capacity": {"requests": {"sessions": "1", "memory": "4Gi"}},
                    },
                }
            ],
            "constraints": [{"requests": ["devices"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}],
            "config": [
                {
                    "requests": ["devices"],
                    "opaque": {
                        "driver": "gpu.example.com",
                        "parameters": {"kind": "GpuConfig", "sharing": "TimeSlicing"},
                    },
                }
            ],
        }
    }


def test_the_order_in_which_a_profile_is_written_makes_no_other_version_of_it():
    turned = {
        "capacity": dict(reversed(WHOLE.capacity.items())),
        "config": tuple(dict(reversed(each.items())) for each in WHOLE.config),
    }
    assert desired.spec_hash(structs.replace(WHOLE, **turned)) == desired.spec_hash(WHOLE)
    for less in turned:
        assert desired.spec_hash(structs.replace(WHOLE, **{less: ()})) != desired.spec_hash(WHOLE)


def test_a_template_has_the_spec_of_a_claim_within_its_own():
    (template,) = desired.steps("team-a", PROFILES, desired.Uses(frozenset({"trainer"})), ()).create
    assert (template["kind"], template["metadata"]["name"]) == ("ResourceClaimTemplate", "muster-trainer")
    assert template["spec"] == {"spec": claim_spec(DEDICATED)}


def test_what_is_made_is_labelled_and_has_neither_owner_nor_finalizer():
    (claim, _) = planned(**ASKED).create
    assert claim["metadata"]["labels"] == {"muster.dev/profile": "sampler", "app.kubernetes.io/managed-by": "muster"}
    assert claim["metadata"]["annotations"]["muster.dev/seats"] == "{}"
    assert claim["metadata"].keys() == {"name", "namespace", "labels", "annotations"}
    assert views.is_ours(claim)


def test_a_profile_that_nobody_knows_makes_nothing():
    assert planned(known={}, **ASKED) == desired.Steps()


def test_what_is_there_as_it_should_be_is_left_alone():
    assert planned(made("muster-sampler-0"), made("muster-sampler-1"), **ASKED) == desired.Steps()


# A profile that changes


def test_a_free_claim_of_another_version_is_replaced():
    old = made("muster-sampler-0", hash="old")
    plan = planned(old, made("muster-sampler-1"), **ASKED)
    assert [(was.name, new["spec"]) for was, new in plan.replace] == [("muster-sampler-0", claim_spec(SHARED))]
    assert plan.create == plan.remove == ()


def test_a_claim_in_use_is_left_alone_whatever_its_profile_says():
    used = [
        made("muster-sampler-0", hash="old", allocated=True),
        made("muster-sampler-1", hash="old", seats='{"u":{"pod":"p","job":"","since":""}}'),
    ]
    plan = planned(*used, **ASKED)
    assert plan == desired.Steps(drains=tuple(used))


def test_a_claim_that_a_pod_without_a_gate_names_is_in_use_before_it_has_a_device():
    plan = planned(made("muster-sampler-0", hash="old"), busy=frozenset({"muster-sampler-0"}), **ASKED)
    assert [each.name for each in plan.drains] == ["muster-sampler-0"]


def test_a_template_of_another_version_is_replaced_also_while_jobs_name_it():
    old = made("muster-trainer", DEDICATED, hash="old")
    plan = planned(old, named=frozenset({"muster-trainer"}))
    assert plan == desired.Steps()  # nobody asks for the profile, but a job names it: neither replaced nor removed
    plan = desired.steps("team-a", PROFILES, desired.Uses(frozenset({"trainer"}), frozenset({"muster-trainer"})), [old])
    assert [was.name for was, _ in plan.replace] == ["muster-trainer"]


def test_more_sessions_are_no_other_spec_and_more_devices_are():
    assert desired.spec_hash(SHARED) == desired.spec_hash(structs.replace(SHARED, max_sessions=9, claims=9))
    assert desired.spec_hash(SHARED) != desired.spec_hash(structs.replace(SHARED, count=2))


# What is not needed any more


def test_what_nobody_asks_for_is_removed():
    assert [each.name for each in planned(made("muster-sampler-0")).remove] == ["muster-sampler-0"]


def test_what_a_live_job_names_stays_also_beyond_the_number_of_claims():
    surplus = made("muster-sampler-7")
    assert planned(surplus, named=frozenset({"muster-sampler-7"}), **ASKED).remove == ()
    assert planned(surplus, **ASKED).remove == (surplus,)


def test_what_is_in_use_is_not_removed():
    assert planned(made("muster-sampler-0", allocated=True)).remove == ()


def test_what_is_on_its_way_out_is_neither_made_nor_removed():
    going = made("muster-sampler-0", deleting=True, hash="old")
    assert names(planned(going, **ASKED).create) == [("ResourceClaim", "muster-sampler-1")]
    assert planned(going).remove == ()


@settings(deadline=None)
@given(st.sets(st.sampled_from(["sampler", "trainer", "other"])), st.data())
def test_carrying_out_a_plan_leaves_nothing_to_do(asked, data):
    everything = [made("muster-sampler-0"), made("muster-sampler-1"), made("muster-trainer", DEDICATED)]
    flags = st.fixed_dictionaries({"hash": st.sampled_from(["old", None]), "allocated": st.booleans()})
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(everything), flags), unique_by=lambda each: each[0].name))
    present = [
        dataclasses.replace(each, allocated=flag["allocated"], hash=flag["hash"] or each.hash) for each, flag in chosen
    ]
    plan = desired.steps("team-a", PROFILES, desired.Uses(frozenset(asked)), present)
    gone = {each.uid for each in plan.remove} | {was.uid for was, _ in plan.replace}
    profile = {"ResourceClaim": SHARED, "ResourceClaimTemplate": DEDICATED}
    new = [*plan.create, *(document for _, document in plan.replace)]
    after = [each for each in present if each.uid not in gone]
    after += [made(each["metadata"]["name"], profile[each["kind"]]) for each in new]
    assert desired.steps("team-a", PROFILES, desired.Uses(frozenset(asked)), after) == desired.Steps(drains=plan.drains)


# What is read of jobs and pods


def test_a_jobset_tells_how_many_pods_share_each_claim():
    document = jobset("j", ("muster-sampler-0", 3), ("muster-sampler-0", 2), ("muster-trainer", 1))
    document["spec"]["replicatedJobs"][1]["replicas"] = 4
    document["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = 2
    document["metadata"]["uid"] = "u"
    job = views.JobSet.from_document(document)
    assert job.sizes == {"muster-sampler-0": 2 + 4 * 2}
    assert job.templates == {"muster-trainer"}
    assert (job.live, job.profiles) == (True, {"sampler"})


def test_a_jobset_that_has_ended_is_not_live():
    for status in ({"terminalState": "Failed"}, {"conditions": [{"type": "Completed", "status": "True"}]}):
        document = jobset("j", status=status)
        document["metadata"]["uid"] = "u"
        assert not views.JobSet.from_document(document).live


def test_a_pod_tells_its_gate_its_job_and_its_claims():
    document = pod("p", "b", "a", job="j", uid="u", creationTimestamp="t")
    seen = views.Pod.from_document(document)
    assert (seen.claims, seen.job, seen.gated, seen.ended, seen.created) == (("a", "b"), "j", True, False, "t")
    assert views.Pod.from_document(pod("p", phase="Failed", gated=False, uid="u")).ended


def test_a_namespace_asks_ahead_by_annotation():
    document = {"metadata": {"name": "n", "annotations": {"muster.dev/profiles": " sampler, trainer,,"}}}
    assert views.Namespace.from_document(document).profiles == {"sampler", "trainer"}
