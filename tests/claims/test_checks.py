"""What is asked for and cannot be had, or would be had twice: each a finding that names its field."""

from __future__ import annotations

import pytest

from muster.strategies.platform.placements import Role
from muster.strategies.platform.profiles import Profile
from muster.webhook.admission import documents
from tests.support import admissions, devices, jobs

CLASS = devices.device_class()
UNMAPPED = devices.device_class(extended_resource=None)
ANNOTATION = f"metadata.annotations[{devices.PROFILE}]"
POD = "spec.replicatedJobs[server].template.spec.template.spec"


def jobset(container=None, pod=None, labels=None, nodes=1, framework="vllm", **asked):
    metadata = {**devices.annotated(**asked), "labels": {jobs.FRAMEWORK: framework, **(labels or {})}}
    made = jobs.make_jobset(metadata=metadata, container={"args": ["--model=m"], **(container or {})}, nodes=nodes)
    devices.pod_of(made).update(pod or {})
    return made


def trainjob(runtime=None, metadata=None, **asked):
    runtime = runtime or jobs.make_runtime("torch", framework="torch")
    more = {"metadata": {**devices.annotated(**asked), **(metadata or {})}, "command": ["torchrun", "x.py"]}
    return jobs.make_trainjob(runtime="torch", **more), runtime


def gpus(amount):
    return {"resources": {"limits": {devices.GPU: amount}}}


def only(found):
    (one,) = found
    return one


def test_a_profile_that_nobody_offers_is_refused_with_those_that_are():
    found = only(devices.judged(jobset(profile="huge"), CLASS))
    assert (found.rule, found.field, found.value) == ("claims/unknown-profile", ANNOTATION, "huge")
    assert "large, plain, quad, seats, strict, tuned" in found.message


def test_a_trainjob_is_told_before_its_jobset_is_refused():
    job, runtime = trainjob(profile="huge")
    assert devices.errors(job, CLASS, runtime) == ["claims/unknown-profile"]


def test_a_device_class_that_the_cluster_has_not_is_refused():
    found = only(devices.judged(jobset(profile="plain")))
    assert (found.rule, found.field) == ("claims/unknown-class", ANNOTATION)
    assert devices.CLASS in found.message


def test_what_is_refused_is_not_half_done():
    assert "resourceClaims" not in devices.pod_of(devices.stored(jobset(profile="plain")))


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_an_object_that_does_not_exist_yet_is_a_warning_for_the_pods_wait_for_it(kind):
    member = kind[0].lower() + kind[1:] + "Name"
    made = jobset(claims=[{"name": "gpu", member: "mine"}])
    found = only(without_drafts(devices.judged(made)))
    assert (found.rule, found.severity.value) == ("claims/unknown-object", "warning")
    assert found.field == f"metadata.annotations[{devices.CLAIMS}][0].{member}"
    assert without_drafts(devices.judged(made, CLASS, devices.template("mine", kind=kind))) == []


def without_drafts(found):
    """What is said besides that a member is of a draft of KEP-2782."""
    return [each for each in found if each.rule != "claims/draft"]


def test_an_object_that_asks_for_no_device_is_refused():
    made = jobset(claims=[{"name": "gpu", "resourceClaimTemplateName": "two"}])
    assert devices.errors(made, CLASS, devices.template(count=0)) == ["claims/no-devices"]


def test_claims_of_the_users_own_that_ask_for_no_device_are_refused():
    pod = {"resourceClaims": [{"name": "mine", "resourceClaimTemplateName": "two"}]}
    made = jobset(
        {"resources": {"claims": [{"name": "mine"}]}, "command": ["torchrun", "x.py"]}, pod, framework="torch"
    )
    assert devices.errors(made, CLASS, devices.template(count=0)) == ["claims/no-devices"]


def test_a_container_that_the_pods_have_not_is_refused():
    asked = [{"name": "gpu", "resourceClaimTemplateName": "two", "containerNames": ["server", "sidecar"]}]
    found = only(without_drafts(devices.judged(jobset(claims=asked), CLASS, devices.template())))
    assert (found.rule, found.value) == ("claims/unknown-container", "sidecar")


def test_one_name_for_two_claims_is_refused_where_the_user_wrote_it():
    pod = {"resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "two"}]}
    judged = devices.judged(jobset(pod=pod, profile="plain"), CLASS, devices.template())
    found = only([each for each in judged if each.rule != "claims/unused"])
    assert (found.rule, found.value) == ("claims/name-clash", "devices")
    assert found.field == f"{POD}.resourceClaims[devices].name"


def test_a_label_of_another_profile_is_refused():
    made = jobset(profile="plain")
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"muster.dev/profile": "seats"}}
    assert devices.errors(made, CLASS) == ["claims/profile-label"]


def own(container=None, name="two", **more):
    pod = {"resourceClaims": [{"name": "mine", "resourceClaimTemplateName": name}]}
    resources = {"claims": [{"name": "mine"}], **(container or {})}
    return jobset({"resources": resources, "command": ["torchrun", "x.py"]}, pod, framework="torch", **more)


def test_a_template_that_the_pods_name_themselves_is_looked_for_too():
    found = only(devices.judged(own(), CLASS))
    assert (found.rule, found.severity.value) == ("claims/unknown-object", "warning")
    assert found.field == f"{POD}.resourceClaims[mine].resourceClaimTemplateName"
    assert devices.judged(own(), CLASS, devices.template()) == []


def test_claims_of_the_pods_own_are_compared_with_their_limits():
    made = own({"limits": {devices.GPU: 2}})
    assert devices.errors(made, CLASS, devices.template()) == ["claims/two-for-one"]
    assert devices.errors(made, UNMAPPED, devices.template()) == []
    assert [each.rule for each in devices.judged(made, UNMAPPED, devices.template())] == ["claims/two-for-one"]


def test_claims_of_a_runtime_are_compared_for_its_trainjobs():
    pod = {"resourceClaims": [{"name": "mine", "resourceClaimTemplateName": "two"}]}
    resources = {"claims": [{"name": "mine"}], "limits": {devices.GPU: 2}}
    runtime = jobs.make_runtime("torch", framework="torch", pod=pod, container={"resources": resources})
    found = only(devices.judged(trainjob()[0], CLASS, runtime, devices.template()))
    assert (found.rule, found.severity.value) == ("claims/two-for-one", "error")
    assert found.field.startswith("ClusterTrainingRuntime spec.template.spec")


def test_what_was_asked_for_is_judged_once():
    asked = [{"name": "gpu", "resourceClaimTemplateName": "two"}]
    assert len(devices.judged(jobset(claims=asked), CLASS)) == 1
    found = devices.judged(jobset(gpus(2), claims=asked), UNMAPPED, devices.template())
    assert [each.rule for each in found] == ["claims/two-for-one"]


# --- two devices for one ----------------------------------------------------------------------------------------


def test_an_exclusive_profile_of_a_mapped_class_adds_no_claim_beside_the_same_limit():
    made = jobset(gpus(2), profile="plain")
    assert "resourceClaims" not in devices.pod_of(devices.stored(made, CLASS))
    found = only(devices.judged(made, CLASS))
    assert (found.rule, found.severity.value) == ("claims/left-to-kubernetes", "warning")
    assert found.field == f"{POD}.containers[server].resources.limits[{devices.GPU}]"


def test_another_amount_than_the_profiles_is_refused():
    assert devices.errors(jobset(gpus(1), profile="plain"), CLASS) == ["claims/two-for-one"]


@pytest.mark.parametrize("profile", ["large", "seats", "tuned"])
def test_a_limit_that_the_class_maps_is_refused_beside_a_claim_that_says_more(profile):
    made = jobset(gpus(1), profile=profile)
    assert devices.errors(made, CLASS) == ["claims/two-for-one"]
    assert "resourceClaims" not in devices.pod_of(devices.stored(made, CLASS))


def test_the_implicit_resource_of_a_class_counts_too():
    made = jobset(
        {"resources": {"limits": {f"deviceclass.resource.kubernetes.io/{devices.CLASS}": 1}}}, profile="large"
    )
    assert devices.errors(made, UNMAPPED) == ["claims/two-for-one"]


def test_a_limit_that_a_device_plugin_may_serve_is_a_warning():
    found = only(devices.judged(jobset(gpus(1), profile="large"), UNMAPPED))
    assert (found.rule, found.severity.value) == ("claims/two-for-one", "warning")


def test_a_claim_of_network_cards_has_nothing_to_do_with_gpus():
    policy = devices.policy(Profile("nics", "rdma.example.com"))
    nics = devices.device_class("rdma.example.com", None)
    assert devices.judged(jobset(gpus(1), profile="nics"), nics, policy=policy) == []


def test_a_template_of_the_users_own_is_compared_by_its_class():
    asked = [{"name": "gpu", "resourceClaimTemplateName": "two"}]
    found = devices.errors(jobset(gpus(2), claims=asked), CLASS, devices.template())
    assert found == ["claims/two-for-one"]


def test_of_a_trainjob_the_amount_is_named_where_it_was_written():
    job, runtime = trainjob(profile="large")
    job["spec"]["trainer"]["resourcesPerNode"] = {"limits": {devices.GPU: 1}}
    found = only(devices.judged(job, CLASS, runtime))
    assert found.field == f"spec.trainer.resourcesPerNode.limits[{devices.GPU}]"
    of_runtime = jobs.make_runtime("torch", framework="torch", container=gpus(1))
    found = only(devices.judged(trainjob(profile="large")[0], CLASS, of_runtime))
    assert found.field.startswith("ClusterTrainingRuntime spec.template.spec.replicatedJobs[node]")


# --- seats ------------------------------------------------------------------------------------------------------


def full(profile, claims, *pods):
    return [devices.seated(f"muster-{profile}-{number}", *pods) for number in range(claims)]


def test_a_job_that_finds_no_seat_is_told_who_holds_them_and_waits():
    found = only(devices.judged(jobset(profile="seats"), CLASS, *full("seats", 3, "a-0", "b-0")))
    assert (found.rule, found.severity.value) == ("claims/full", "warning")
    assert "a-0 of job other, b-0 of job other" in found.message


def test_a_claim_of_an_older_version_of_the_profile_takes_nobody_in():
    claims = full("seats", 3, "a-0")
    made = devices.pod_of(devices.stored(jobset(profile="seats"), CLASS, *claims))
    assert made["resourceClaims"][0]["resourceClaimName"] == "muster-seats-0"
    for claim in claims[:2]:
        claim["metadata"]["annotations"]["muster.dev/spec-hash"] = "of another time"
    made = devices.pod_of(devices.stored(jobset(profile="seats"), CLASS, *claims))
    assert made["resourceClaims"][0]["resourceClaimName"] == "muster-seats-2"
    claims[2]["metadata"]["annotations"]["muster.dev/spec-hash"] = "of another time"
    found = only(devices.judged(jobset(profile="seats"), CLASS, *claims))
    assert found.rule == "claims/full"
    assert "older version of the profile" in found.message


def test_a_strict_profile_refuses_it():
    claims = full("strict", 2, "a-0", "b-0")
    found = only(devices.judged(jobset(profile="strict"), CLASS, *claims))
    assert (found.rule, found.severity.value, found.field) == ("claims/full", "error", ANNOTATION)
    assert "a-0 of job other" in found.message
    assert devices.errors(jobset(profile="strict"), CLASS, claims[0]) == []
    job, runtime = trainjob(profile="strict")
    assert devices.errors(job, CLASS, runtime, *claims) == ["claims/full"]


def test_a_jobset_of_trainer_is_not_refused_for_a_seat_that_was_there_when_its_trainjob_came():
    job, runtime = trainjob(profile="strict", metadata={"uid": jobs.UID})
    made = jobset(profile="strict")
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llama", "uid": jobs.UID}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    assert devices.judged(made, CLASS, runtime, job, *full("strict", 2, "a-0", "b-0")) == []


def test_more_pods_than_one_claim_seats_could_never_run_as_a_whole():
    assert devices.errors(jobset(profile="seats", nodes=3), CLASS) == ["claims/never-seated"]
    assert devices.errors(jobset(profile="seats", nodes=2), CLASS) == []


@pytest.mark.parametrize(
    ("replicas", "parallelism", "said"),
    [(1, 2, []), (2, 1, []), (1, 3, ["claims/never-seated"]), (3, 1, ["claims/never-seated"]), (None, None, [])],
)
def test_pods_beside_the_training_are_counted_by_replicas_and_parallelism(replicas, parallelism, said):
    made = devices.two_jobs(sampler=devices.annotated(profile="seats"))
    sampler = made["spec"]["replicatedJobs"][1]
    sampler["replicas"] = replicas
    sampler["template"]["spec"] |= {"parallelism": parallelism, "completions": parallelism}
    assert devices.errors(made, CLASS) == said


def pair(*roles, profile="seats"):
    """A JobSet of a trainer and a sampler that ask for one shared profile, with roles."""
    metadata = [{**devices.annotated(profile=profile), "labels": {"muster.dev/role": role}} for role in roles]
    return devices.two_jobs(**dict(zip(("trainer", "sampler"), metadata, strict=True)))


def test_pods_of_several_replicated_jobs_share_the_seats_of_one_claim():
    made = pair("trainer", "sampler")
    stored = devices.stored(made, CLASS)
    claims = {devices.pod_of(stored, job)["resourceClaims"][0]["resourceClaimName"] for job in (0, 1)}
    assert claims == {"muster-seats-0"}
    assert devices.errors(made, CLASS) == []
    made["spec"]["replicatedJobs"][1]["template"]["spec"] |= {"parallelism": 2, "completions": 2}
    found = only([each for each in devices.judged(made, CLASS) if each.severity.value == "error"])
    assert found.rule == "claims/never-seated"
    assert found.message.startswith("the job's replicated jobs trainer and sampler have 3 pods on one claim of profile")


def test_a_job_is_told_to_wait_for_the_seats_of_all_its_pods_together():
    claims = [devices.seated(f"muster-strict-{number}", "a-0") for number in range(2)]
    found = only(devices.judged(pair("trainer", "sampler", profile="strict"), CLASS, *claims))
    assert (found.rule, found.severity.value) == ("claims/full", "error")
    assert "needs 2 free seats" in found.message


@pytest.mark.parametrize(
    ("trainer", "sampler", "why"),
    [
        ({"apart": True}, {}, "roles trainer and sampler do not share a host"),
        ({}, {"apart": True}, "roles trainer and sampler do not share a host"),
        (
            {"node_labels": {"pool": ("a",)}},
            {"node_labels": {"pool": ("b", "c")}},
            "role trainer runs on nodes with pool=a, and role sampler on nodes with pool=b|c",
        ),
        ({"node_labels": {"pool": ("a",)}}, {"node_labels": {"pool": ("b", "a")}}, None),
        ({"node_labels": {"pool": ("a",)}}, {"node_labels": {"zone": ("b",)}}, None),
        ({}, {}, None),
    ],
)
def test_pods_that_share_a_device_cannot_be_of_roles_without_a_node_in_common(trainer, sampler, why):
    roles = {"trainer": Role("trainer", **trainer), "sampler": Role("sampler", **sampler)}
    policy = devices.policy(roles=roles)
    found = devices.judged(pair("trainer", "sampler"), CLASS, policy=policy)
    assert [each.rule for each in found] == (["claims/apart"] if why else [])
    assert why is None or f"which is on one node, and {why}; use" in found[0].message
    assert devices.judged(pair("trainer", "trainer"), CLASS, policy=policy) == []
    apart = devices.two_jobs(trainer=devices.annotated(profile="seats"), sampler=devices.annotated(profile="strict"))
    for job, role in zip(apart["spec"]["replicatedJobs"], roles, strict=True):
        job["template"]["metadata"]["labels"] = {"muster.dev/role": role}
    assert devices.judged(apart, CLASS, policy=policy) == []


def test_ranks_that_share_a_device_are_warned_of():
    job, runtime = trainjob(profile="seats")
    job["spec"]["trainer"]["numNodes"] = 2
    assert [each.rule for each in devices.judged(job, CLASS, runtime)] == ["claims/shared-by-ranks"]


def test_a_shared_claim_cannot_be_named_past_its_seats():
    pod = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "muster-seats-2"}]}
    found = only([each for each in devices.judged(jobset(pod=pod)) if each.rule != "claims/unused"])
    assert (found.rule, found.field) == ("claims/seat", f"{POD}.resourceClaims[gpu].resourceClaimName")
    asked = [{"name": "gpu", "resourceClaimName": "muster-seats-2"}]
    assert devices.errors(jobset(claims=asked)) == ["claims/seat"]
    assert devices.errors(jobset(claims=[{"name": "gpu", "resourceClaimName": "muster-seats-3"}])) == []


# --- queues -----------------------------------------------------------------------------------------------------

QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}


@pytest.mark.parametrize(
    ("profile", "said"),
    [("plain", []), ("quad", []), ("large", []), ("seats", ["claims/kueue"]), ("tuned", ["claims/kueue"])],
)
def test_a_queued_job_gets_plain_templates_only(profile, said):
    made = jobset(labels=QUEUE, profile=profile)
    assert devices.errors(made, CLASS) == said
    assert ("resourceClaims" in devices.pod_of(devices.stored(made, CLASS))) == (said == [])
    job, runtime = trainjob(profile=profile, metadata={"labels": QUEUE})
    assert devices.errors(job, CLASS, runtime) == said


def test_a_queued_job_names_no_claim_of_its_own():
    asked = [{"name": "gpu", "resourceClaimName": "mine"}]
    claim = devices.template("mine", kind="ResourceClaim")
    assert devices.errors(jobset(labels=QUEUE, claims=asked), CLASS, claim) == ["claims/kueue"]


# --- processes --------------------------------------------------------------------------------------------------


def test_more_processes_than_devices_are_refused():
    job, runtime = trainjob(profile="quad")
    job["spec"]["trainer"]["numProcPerNode"] = 8
    found = only(devices.judged(job, CLASS, runtime))
    assert (found.rule, found.field, found.value) == (
        "claims/more-processes-than-devices",
        "spec.trainer.numProcPerNode",
        8,
    )
    job["spec"]["trainer"]["numProcPerNode"] = 2
    assert devices.judged(job, CLASS, runtime) == []


def test_a_launch_that_starts_more_is_refused_as_well():
    command = {"command": ["torchrun", "--nproc-per-node=8", "x.py"]}
    made = jobset(command, framework="torch", profile="quad")
    assert devices.errors(made, CLASS) == ["claims/more-processes-than-devices"]


def test_findings_about_claims_deny_the_job_with_all_of_them():
    asked = [{"name": "gpu"}, {"name": "B", "resourceClaimName": "x"}]
    response = admissions.respond(jobset(claims=asked, profile="huge"), phase="validate", policy=devices.policy())
    assert response["allowed"] is False
    fields = {cause["field"] for cause in response["status"]["details"]["causes"]}
    assert {ANNOTATION, f"metadata.annotations[{devices.CLAIMS}][1].name"} <= fields


HELD = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "held"}]}


def template(*requests, name="held", kind="ResourceClaimTemplate"):
    spec = {"devices": {"requests": list(requests)}}
    spec = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
    metadata = {"name": name, "namespace": jobs.NAMESPACE}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def request(name="gpu", device_class="gpu.nvidia.com", **more):
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def rules(job, *cluster):
    return [each.rule for each in admissions.decide(job, *cluster, phase="validate").findings]


@pytest.mark.parametrize(("asked", "told"), [("gpu", []), ("", []), ("gpus", ["claims/request"])])
def test_a_request_that_the_claim_has_not_gives_the_container_nothing(asked, told):
    used = {"name": "gpus", "request": asked} if asked else {"name": "gpus"}
    job = jobset({"resources": {"claims": [used]}}, HELD)
    assert [each for each in rules(job, template(request())) if each == "claims/request"] == told


@pytest.mark.parametrize(("counts", "told"), [((4, 4), []), ((4, 2), ["warning"]), ((8, 4), [])])
def test_processes_fit_each_of_the_alternatives_of_a_claim(counts, told):
    choices = [{"name": f"c{n}", "deviceClassName": "gpu.nvidia.com", "count": count} for n, count in enumerate(counts)]
    launch = {"command": ["torchrun", "--nproc-per-node=4", "x.py"], "args": []}
    job = jobset({**launch, "resources": {"claims": [{"name": "gpus"}]}}, HELD)
    decided = admissions.decide(job, template({"name": "gpu", "firstAvailable": choices}), phase="validate")
    found = [each.severity.value for each in decided.findings if each.rule == "claims/more-processes-than-devices"]
    assert found == told


@pytest.mark.parametrize("entry", [{}, {"resourceClaimName": "a", "resourceClaimTemplateName": "b"}])
def test_a_claim_of_a_pod_names_one_object(entry):
    job = jobset(pod={"resourceClaims": [{"name": "gpus", **entry}]})
    assert "core/claim-source" in rules(job)


@pytest.mark.parametrize(
    ("device_class", "nodes", "framework", "told"),
    [
        ("gpu.nvidia.com", 2, "torch", True),
        ("gpu.nvidia.com", 1, "torch", False),
        ("dranet", 2, "torch", False),
        ("gpu.nvidia.com", 2, "vllm", False),
    ],
)
def test_nodes_of_a_training_that_name_one_claim_share_its_devices(device_class, nodes, framework, told):
    pod = {"resourceClaims": [{"name": "gpus", "resourceClaimName": "held"}]}
    container = {"command": ["torchrun", "x.py"], "args": [], "resources": {"claims": [{"name": "gpus"}]}}
    job = jobset(container, pod, nodes=nodes, framework=framework)
    claim = template(request(device_class=device_class), kind="ResourceClaim")
    assert ("claims/shared-by-ranks" in rules(job, claim)) is told


@pytest.mark.parametrize(("count", "told"), [(1, False), (2, True)])
def test_slices_of_a_claim_beyond_the_first_are_idle(count, told):
    job = jobset({"resources": {"claims": [{"name": "gpus"}]}}, HELD)
    found = rules(job, template(request(device_class="mig.nvidia.com", count=count)))
    assert ("claims/slices" in found) is told


def test_slices_of_a_claim_are_one_device():
    document = template(request(device_class="mig.nvidia.com", count=4), request("nic", "dranet"))
    assert (documents.devices_of(document), documents.slices_of(document)) == (1, 4)
    both = template(request(count=2), request("slices", "mig.nvidia.com", count=3))
    assert (documents.devices_of(both), documents.slices_of(both)) == (3, 3)
