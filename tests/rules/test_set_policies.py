"""Policies of a JobSet that JobSet refuses, and what no node can satisfy."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import found, gpus, jobset, replicated_job, runtime, trainjob

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def requiring(*expressions):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


NOWHERE = {
    "In without the value": (expression("a", "In", "c"),),
    "NotIn with it": (expression("a", "NotIn", "b"),),
    "DoesNotExist": (expression("a", "DoesNotExist"),),
    "a number above": (expression("d", "Exists"), expression("n", "Gt", "8")),
}


@pytest.mark.parametrize("expressions", NOWHERE.values(), ids=NOWHERE)
def test_a_selector_that_no_term_allows_is_refused(expressions):
    pod = {"nodeSelector": {"a": "b", "n": "8"}, "affinity": requiring(*expressions)}
    document = jobset(replicated_job("node", {"name": "node", "command": ["torchrun", "x.py"]}, pod=pod))
    assert [each.rule for each in found("torch", document) if each.rule == "core/no-node"] == ["core/no-node"]


# -- policies


def said(document, governing=None):
    """(severity, rule, field) of the findings of these rules."""
    return [
        (each.severity.value, each.rule.removeprefix("core/"), each.field)
        for each in found("torch", document, governing)
        if each.rule == "core/jobset-policy"
    ]


def of_jobset(*jobs, **spec):
    container = {"name": "c", "command": ["python", "x.py"]}
    document = jobset(*(replicated_job(name, container, completions=2) for name, _ in jobs), **spec)
    for replicated, (_, depends) in zip(document["spec"]["replicatedJobs"], jobs, strict=True):
        if depends is not None:
            replicated["dependsOn"] = [{"name": depends, "status": "Complete"}]
    return [(severity, field) for severity, rule, field in said(document) if rule == "jobset-policy"]


def rule(**members):
    return {"failurePolicy": {"rules": [{"name": "a", "action": "FailJobSet", **members}]}}


NODE = (("node", None),)
REFUSED_SETS = {
    "a coordinator that is not there": (
        NODE,
        {"coordinator": {"replicatedJob": "leader"}},
        "coordinator.replicatedJob",
    ),
    "a pod that is not there": (
        (("node", None),),
        {"coordinator": {"replicatedJob": "node", "podIndex": 3}},
        "coordinator.podIndex",
    ),
    "order by two ways": (
        (("a", None), ("b", "a")),
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        "replicatedJobs[b].dependsOn",
    ),
    "a subdomain with capitals": (NODE, {"network": {"subdomain": "Ring"}}, "network.subdomain"),
    "a manager without a path": (NODE, {"managedBy": "kueue"}, "managedBy"),
    "success of nobody": (NODE, {"successPolicy": {"targetReplicatedJobs": ["trainer"]}}, "successPolicy.targetRepl"),
    "a first one that waits": ((("node", "a"), ("a", None)), {}, "replicatedJobs[node].dependsOn"),
    "one that waits for nobody": ((("a", None), ("b", "c")), {}, "replicatedJobs[b].dependsOn[c].name"),
    "one that waits for itself": ((("a", None), ("b", "b")), {}, "replicatedJobs[b].dependsOn[b].name"),
    "one that waits for a later one": ((("a", None), ("b", "c"), ("c", None)), {}, "replicatedJobs[b].dependsOn[c]"),
    "a reason of pods": (NODE, rule(onJobFailureReasons=["OOMKilled"]), "failurePolicy.rules[a].onJobFailureReas"),
    "a rule for nobody": (NODE, rule(targetReplicatedJobs=["x"]), "failurePolicy.rules[a].targetReplicatedJobs[0]"),
    "a rule's name": (NODE, rule(name="my rule"), "failurePolicy.rules[my rule].name"),
    "two rules of one name": (
        NODE,
        {"failurePolicy": {"rules": [{"name": "a", "action": "FailJobSet"}] * 2}},
        "failurePolicy.rules[1].name",
    ),
}


@pytest.mark.parametrize(("jobs", "spec", "field"), REFUSED_SETS.values(), ids=REFUSED_SETS)
def test_a_policy_that_jobset_refuses_is_refused(jobs, spec, field):
    ((severity, place),) = of_jobset(*jobs, **spec)

    assert severity == "error"
    assert place.startswith(f"spec.{field}")


def test_a_policy_behind_a_gate_that_is_off_is_a_warning():
    assert [severity for severity, _ in of_jobset(*NODE, **rule(action="RestartJob"))] == ["warning"]
    assert [severity for severity, _ in of_jobset(*NODE, failurePolicy={"restartStrategy": "InPlaceRestart"})] == [
        "warning"
    ]


TAKEN_SETS = {
    "a coordinator, a subdomain and a manager": (
        NODE,
        {
            "coordinator": {"replicatedJob": "node", "podIndex": 1},
            "network": {"subdomain": "ring-1"},
            "managedBy": "jobset.sigs.k8s.io/jobset-controller",
        },
    ),
    "order by startup": ((("a", None), ("b", None)), {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
    "success of one": (NODE, {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["node"]}}),
    "one behind another": ((("a", None), ("b", "a"), ("c", "a")), {}),
    "every reason": (
        NODE,
        rule(
            onJobFailureReasons=["BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "PodFailurePolicy"],
            targetReplicatedJobs=["node"],
            action="RestartJobSetAndIgnoreMaxRestarts",
        ),
    ),
    "rules without names": (NODE, {"failurePolicy": {"maxRestarts": 1, "rules": [{"action": "FailJobSet"}] * 2}}),
}


@pytest.mark.parametrize(("jobs", "spec"), TAKEN_SETS.values(), ids=TAKEN_SETS)
def test_a_policy_that_jobset_takes_is_not_spoken_of(jobs, spec):
    assert of_jobset(*jobs, **spec) == []


def test_a_claim_of_the_jobset_is_mounted_and_has_a_name_of_its_own():
    shared = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"templates": [{"metadata": {"name": "work"}, "spec": shared}]}]
    mounts = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}

    def told(container, **pod):
        training = {"name": "node", "command": ["python", "x.py"], **container}
        document = jobset(replicated_job("node", training, pod=pod), volumeClaimPolicies=claims)
        return [each.message for each in found("torch", document) if each.rule == "core/volume-claim"]

    assert told(mounts) == []
    assert ["no container mounts it" in each for each in told({})] == [True]
    own = {"volumes": [{"name": "work", "emptyDir": {}}]}
    assert ["a volume of the pods has this name too" in each for each in told(mounts, **own)] == [True]


# -- where a TrainJob is told


TRAINER = {"command": ["torchrun", "x.py"], "resourcesPerNode": gpus(1)}


def test_policies_of_a_runtime_are_told_at_the_job_that_uses_it():
    governing = runtime(command=["torchrun", "x.py"])
    governing["spec"]["template"]["spec"]["successPolicy"] = {"targetReplicatedJobs": ["trainer"]}

    ((severity, named, field),) = said(trainjob(TRAINER), governing)

    assert (severity, named, field) == (Severity.ERROR.value, "jobset-policy", "spec.runtimeRef.name")
