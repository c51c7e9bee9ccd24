"""Which role a replicated job has: the nearest label says it."""

from __future__ import annotations

import copy

import pytest

from tests.jobsets import sets
from tests.roles import places
from tests.support import admissions, jobs, upstream


def role_of(document, *cluster):
    out = places.placed(document, *cluster)
    return (places.pod_of(out).get("metadata") or {}).get("labels", {}).get(places.ROLE)


def labelled(document, role):
    document["metadata"].setdefault("labels", {})[places.ROLE] = role
    return document


def jobset_of(trainjob, runtime):
    return upstream.build_jobset(upstream.default_trainjob(trainjob), runtime)


def test_the_label_of_the_replicated_job_names_the_role_and_its_pods_get_it():
    assert role_of(places.make_sampler("sampler")) == "sampler"


def test_the_label_of_the_pod_template_is_enough():
    jobset = places.make_sampler(None)
    places.pod_of(jobset)["metadata"] = {"labels": {places.ROLE: "trainer"}}
    assert role_of(jobset) == "trainer"


def test_a_label_of_the_jobset_speaks_for_all_its_replicated_jobs():
    assert role_of(labelled(places.make_sampler(None), "sampler")) == "sampler"


def test_the_replicated_job_is_nearer_than_the_jobset():
    assert role_of(labelled(places.make_sampler("trainer"), "sampler")) == "trainer"


def test_a_trainjobs_label_reaches_the_jobset_that_trainer_makes_of_it():
    runtime, trainjob = jobs.make_runtime(), labelled(jobs.make_trainjob(), "trainer")
    assert role_of(jobset_of(trainjob, runtime), runtime, trainjob) == "trainer"


def test_a_runtimes_label_reaches_the_jobset_and_the_trainjobs_is_nearer():
    runtime, trainjob = labelled(jobs.make_runtime(), "trainer"), jobs.make_trainjob()
    assert role_of(jobset_of(trainjob, runtime), runtime, trainjob) == "trainer"
    labelled(trainjob, "sampler")
    assert role_of(jobset_of(trainjob, runtime), runtime, trainjob) == "sampler"


def test_a_label_of_the_runtimes_template_says_the_same_to_the_trainjob_and_to_its_jobset():
    runtime, trainjob = jobs.make_runtime(pod={"nodeSelector": {"pool": "sampling"}}), jobs.make_trainjob()
    runtime["spec"]["template"]["metadata"] = {"labels": {places.ROLE: "trainer"}}
    assert [rule for *_, rule in places.said(trainjob, runtime)] == ["roles/node-affinity"]
    labelled(trainjob, "sampler")
    assert places.said(trainjob, runtime) == []
    jobset = jobset_of(trainjob, runtime)
    assert jobset["metadata"]["labels"] == {places.ROLE: "trainer"}
    assert role_of(jobset, runtime, trainjob) == "sampler"


def test_initializers_run_anywhere_unless_they_are_labelled_themselves():
    trainjob = labelled(jobs.make_trainjob(runtime="torchtune-llama3.2-1b"), "trainer")
    runtime = jobs.shipped_runtimes()["torchtune-llama3.2-1b"]
    jobset = jobset_of(trainjob, runtime)
    named = {job["name"]: index for index, job in enumerate(jobset["spec"]["replicatedJobs"])}
    out = places.placed(jobset, runtime, trainjob)
    affine = {name for name, index in named.items() if "affinity" in places.pod_of(out, index)["spec"]}
    assert affine == {"node"}
    jobset["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"][places.ROLE] = "trainer"
    assert "affinity" in places.pod_of(places.placed(jobset, runtime, trainjob))["spec"]


def test_without_a_role_nothing_is_placed():
    jobset = places.make_sampler(None)
    assert places.placed(jobset) == jobset


@pytest.mark.parametrize("role", ["sampler", "trainer"])
def test_without_roles_in_the_configuration_nothing_is_placed_and_nothing_is_said(role):
    jobset = places.make_sampler(role)
    assert places.placed(jobset, policy=admissions.POLICY) == jobset
    assert places.said(jobset, policy=admissions.POLICY) == []


def test_a_word_that_is_no_role_is_an_error():
    jobset = places.make_sampler("critic")
    assert places.placed(jobset) == jobset
    field = "spec.replicatedJobs[server].template.metadata.labels[muster.dev/role]"
    assert places.said(jobset) == [("error", field, "roles/label")]
    assert "'critic': is not a role; use trainer or sampler" in places.messages(jobset)[0]


def test_a_word_that_is_no_role_is_a_warning_where_the_configuration_places_none():
    jobset = places.make_sampler("critic")
    found = places.said(jobset, policy=admissions.POLICY)
    assert [(severity, rule) for severity, _, rule in found] == [("warning", "roles/label")]


def test_a_word_that_speaks_for_several_replicated_jobs_is_refused_once():
    jobset = labelled(places.make_sampler(None), "critic")
    (job,) = jobset["spec"]["replicatedJobs"]
    jobset["spec"]["replicatedJobs"] = [job, {**job, "name": "second"}]
    assert places.said(jobset) == [("error", "metadata.labels[muster.dev/role]", "roles/label")]


def test_two_words_on_one_replicated_job_contradict_each_other():
    jobset = places.make_sampler("trainer")
    places.pod_of(jobset)["metadata"] = {"labels": {places.ROLE: "sampler"}}
    found = places.said(jobset)
    assert ("error", "spec.replicatedJobs[server].template.metadata.labels[muster.dev/role]", "roles/label") in found
    out = places.placed(jobset)
    assert out["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"] == {places.ROLE: "trainer"}
    assert places.pod_of(out)["metadata"]["labels"] == {places.ROLE: "sampler"}


def test_a_role_that_is_not_configured_gets_its_label_and_a_warning():
    policy = places.structs.replace(places.POLICY, roles={"trainer": places.ROLES["trainer"]})
    jobset = places.make_sampler("sampler")
    out = places.placed(jobset, policy=policy)
    assert places.pod_of(out)["metadata"]["labels"] == {places.ROLE: "sampler"}
    assert "affinity" not in places.pod_of(out)["spec"]
    assert [(severity, rule) for severity, _, rule in places.said(jobset, policy=policy)] == [
        ("warning", "roles/label")
    ]


def test_a_role_of_the_whole_jobset_makes_an_evaluator_no_part_of_the_training():
    document = sets.jobset(sets.training("node", "/app/start", pods=2), sets.training("eval", "/app/start"))
    document["metadata"]["labels"]["muster.dev/role"] = "trainer"
    first = admissions.decide(document, policy=places.POLICY)
    second = admissions.decide(copy.deepcopy(first.document), policy=places.POLICY)
    assert first.document["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["metadata"]["labels"]
    assert list(second.changes) == []


def trained(name, **labels):
    """A replicated job that starts a training, whose template has these labels."""
    (job,) = jobs.make_jobset(container={"command": ["torchrun", "train.py"]})["spec"]["replicatedJobs"]
    job["template"]["metadata"] = {"labels": labels}
    return {**job, "name": name}


def changed_again(jobset, *cluster):
    once = admissions.decide(jobset, *cluster, policy=places.POLICY).document
    return [each.field for each in admissions.decide(once, *cluster, policy=places.POLICY).changes]


def test_a_role_of_the_trainjob_is_on_all_pods_and_tells_none_from_the_others_at_a_second_review():
    """The replicated job that Trainer calls its training has no pod template, so the others are looked at."""
    owner = jobs.make_trainjob(metadata={"uid": jobs.UID, "labels": {places.ROLE: "trainer"}})
    node = {
        **trained("node", **{jobs.ANCESTOR: "trainer"}),
        "template": {"metadata": {"labels": {jobs.ANCESTOR: "trainer"}}},
    }
    jobset = upstream.build_jobset(owner, jobs.make_runtime(framework="torch"))
    jobset["spec"]["replicatedJobs"] = [trained("data"), trained("model-initializer"), node]
    assert changed_again(jobset, owner, jobs.make_runtime(framework="torch")) == []


def test_a_role_of_the_whole_jobset_names_no_sampler():
    jobset = jobs.make_jobset(framework="trl", metadata={"labels": {jobs.FRAMEWORK: "trl", places.ROLE: "sampler"}})
    jobset["spec"]["replicatedJobs"] = [trained("node"), trained("second")]
    jobs.container_of(jobset)["command"] = ["torchrun", "-m", "trl.scripts.grpo", "--config", "/cfg/run.yaml"]
    assert changed_again(jobset) == []


def test_a_role_comes_before_any_other_label_on_the_pods_as_muster_copies_it_there():
    beside = trained("beside", **{places.ROLE: "sampler"})
    beside["template"]["spec"]["template"]["metadata"] = {"labels": {"training.kubeflow.org/replica-type": "worker"}}
    jobset = jobs.make_jobset(framework="torch")
    jobset["spec"]["replicatedJobs"] = [trained("one"), beside]
    assert changed_again(jobset) == []
