"""Which containers get the guard, which are left alone and why, and what labels of namespace and job may say."""

from __future__ import annotations

import pytest

from tests.injection import guarded
from tests.support import jobs

GPUS = {"limits": {"nvidia.com/gpu": 2}}
TWO = {"numNodes": 2, "resourcesPerNode": GPUS}


def test_nothing_is_added_unless_the_platform_offers_it():
    jobset, cluster = guarded.cluster_of(guarded.UNREAD, labels={guarded.LABEL: "enforce"})
    decision = guarded.decide(jobset, cluster, guarded.policy("never"))
    assert not guarded.rules_of(decision)
    assert not decision.findings


@pytest.mark.parametrize(
    ("command", "trainer"),
    [
        (guarded.UNREAD, TWO),
        (["python", "train.py"], TWO),
        (["python", "train.py"], {"numNodes": 2, "numProcPerNode": 1}),
        (["deepspeed", "train.py"], {"numNodes": 2}),
        (None, TWO),
        (["torchrun", "--nproc-per-node=1", "train.py"], TWO),
    ],
    ids=["unread", "a program of its own", "one of its own on CPUs", "ssh", "the image's own", "idle devices"],
)
def test_open_guards_what_documents_do_not_decide(command, trainer):
    jobset, cluster = guarded.cluster_of(command, **trainer)
    assert guarded.rules_of(guarded.decide(jobset, cluster, guarded.policy("open")))


@pytest.mark.parametrize("nodes", [1, 2])
def test_open_leaves_alone_what_documents_decide(nodes):
    jobset, cluster = guarded.cluster_of(guarded.COUNTED, numNodes=nodes, resourcesPerNode=GPUS)
    decision = guarded.decide(jobset, cluster, guarded.policy("open"))
    assert not guarded.rules_of(decision)
    assert not guarded.left(decision)
    assert guarded.rules_of(guarded.decide(jobset, cluster, guarded.policy("always")))


def test_a_job_whose_framework_has_no_strategy_is_open():
    runtime = jobs.make_runtime("jax-distributed", framework="jax")
    trainjob = jobs.make_trainjob(runtime="jax-distributed", command=["python", "x.py"], metadata={"uid": jobs.UID})
    jobset = guarded.upstream.build_jobset(guarded.upstream.default_trainjob(trainjob), runtime)
    assert guarded.rules_of(guarded.decide(jobset, [runtime, trainjob], guarded.policy("open")))


def test_a_jobset_that_nobody_labelled_is_left_as_it_is():
    jobset = jobs.make_jobset(framework=None, container={"command": ["torchrun", "x.py"]})
    assert not guarded.rules_of(guarded.decide(jobset))


def test_the_jobset_of_an_author_is_guarded_by_its_label():
    jobset = jobs.make_jobset(framework="torch", container={"command": guarded.UNREAD}, nodes=2)
    assert guarded.rules_of(guarded.decide(jobset))


HINDRANCES = {
    "trains nothing": {"command": ["vllm", "serve", "m"]},
    "starts no program": {"command": ["sleep", "1"]},
    "MUSTER_GUARD to off": {"env": [{"name": "MUSTER_GUARD", "value": "off"}]},
    "not one text": {"env": [{"name": "PYTHONPATH", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
    "around or in /muster/guard": {"volumeMounts": [{"name": "x", "mountPath": "/muster"}]},
}


@pytest.mark.parametrize(("why", "members"), HINDRANCES.items(), ids=list(HINDRANCES))
def test_a_container_that_is_left_alone_is_told_of_with_the_reason(why, members):
    jobset, cluster = guarded.cluster_of(guarded.UNREAD)
    decision = guarded.decide(guarded.changed(jobset, **members), cluster)
    assert not guarded.rules_of(decision)
    ((severity, message),) = guarded.left(decision)
    assert severity == "note"
    assert why in message


@pytest.mark.parametrize(
    ("why", "pod"),
    [
        ("Windows", {"os": {"name": "windows"}}),
        ("Windows", {"nodeSelector": {"kubernetes.io/os": "windows"}}),
        ("called muster-guard", {"volumes": [{"name": "muster-guard", "configMap": {"name": "x"}}]}),
        ("called muster-guard", {"initContainers": [{"name": "muster-guard-env", "image": "x"}]}),
    ],
)
def test_a_pod_in_which_the_guard_has_no_place_is_told_of(why, pod):
    jobset, cluster = guarded.cluster_of(guarded.UNREAD, pod=pod)
    decision = guarded.decide(jobset, cluster)
    assert not guarded.rules_of(decision)
    assert why in guarded.left(decision)[0][1]


LEVELS = [
    (None, None, None),
    (None, "enforce", "enforce"),
    (None, "off", None),
    ("off", None, None),
    ("off", "report", "report"),
    ("report", "off", None),
    ("enforce", None, "enforce"),
    ("enforce", "report", "enforce"),
    ("enforce", "off", "enforce"),
    ("enforce", "loud", "enforce"),
    ("loud", "enforce", "enforce"),
    ("loud", None, None),
]


@pytest.mark.parametrize(("space", "job", "expected"), LEVELS)
def test_the_nearest_label_wins_but_for_a_namespace_that_enforces(space, job, expected):
    jobset, cluster = guarded.cluster_of(guarded.UNREAD, labels={guarded.LABEL: job} if job else {})
    cluster += [guarded.namespace(space)] if space else []
    env = jobs.env_of(guarded.pod_of(guarded.decide(jobset, cluster).document)["containers"][0])
    assert env.get("MUSTER_GUARD") == expected


def test_who_escapes_a_namespace_that_enforces_is_warned():
    jobset, cluster = guarded.cluster_of(guarded.UNREAD, pod={"volumes": [{"name": "muster-guard"}]})
    ((severity, message),) = guarded.left(guarded.decide(jobset, [*cluster, guarded.namespace("enforce")]))
    assert severity == "warning"
    assert "namespace asks for enforce" in message


@pytest.mark.parametrize(
    ("space", "own", "warned"), [("enforce", "report", 1), ("enforce", "enforce", 0), ("off", "warn", 0)]
)
def test_a_level_in_the_pod_spec_is_kept_and_warned_of_where_the_namespace_enforces(space, own, warned):
    container = {"env": [{"name": "MUSTER_GUARD", "value": own}]}
    jobset, cluster = guarded.cluster_of(guarded.UNREAD, container=container, labels={guarded.LABEL: "report"})
    decision = guarded.decide(jobset, [*cluster, guarded.namespace(space)])
    assert guarded.rules_of(decision) >= {"guard/files", "guard/python-path"}
    assert jobs.env_of(guarded.pod_of(decision.document)["containers"][0])["MUSTER_GUARD"] == own
    assert len([each for each in decision.findings if each.rule == "guard/level"]) == warned


def test_an_unknown_level_is_told_of_once_to_whoever_wrote_it():
    jobset, (runtime, trainjob) = guarded.cluster_of(guarded.UNREAD, labels={guarded.LABEL: "loud"})
    (told,) = about_labels(guarded.decide(trainjob, [runtime]))
    assert (told.field, told.value) == ("metadata.labels[muster.dev/guard]", "loud")
    assert "report, enforce or off" in told.message
    assert not about_labels(guarded.decide(jobset, [runtime, trainjob]))


def test_an_unknown_level_of_the_namespace_is_told_of():
    _, (runtime, trainjob) = guarded.cluster_of(guarded.UNREAD)
    (told,) = about_labels(guarded.decide(trainjob, [runtime, guarded.namespace("loud")]))
    assert told.field == "namespace label muster.dev/guard"


def about_labels(decision):
    return [each for each in decision.findings if each.rule == "guard/label"]
